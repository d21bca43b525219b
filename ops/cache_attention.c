/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

#include <inttypes.h>
#include <math.h>

#include "dtype.h"
#include "fail.h"

/* Far beyond any model, and small enough that no product of a few of them overflows. */
enum { MOST_HEADS = 1 << 20, MOST_DIM = 1 << 16, BLOCK = 32 };

const char *kvmill_cache_op_name(enum kvmill_cache_op which) {
    static const char *const names[] = {"KeyValueCache", "MultiHeadAttention",
                                        "MultiHeadCacheAttention"};
    return names[which];
}

void kvmill_cache_attention_init(kvmill_cache_attention *op) {
    *op = (kvmill_cache_attention){
        .struct_size = sizeof *op,
        .is_causal = 1,
        .num_layer = 1,
        .quant_group = 8,
        .page_size = 128,
        .num_repeat = 1,
    };
}

/* ---- Ranges ---- */

/* Which ops have an attribute. */
enum { OF_CACHE = 1, OF_ATTEND = 2, OF_FUSED = 4, OF_STORE = OF_CACHE | OF_FUSED };
enum { OF_SCORES = OF_ATTEND | OF_FUSED, OF_ALL = OF_CACHE | OF_ATTEND | OF_FUSED };

struct range {
    unsigned ops;
    const char *name;
    int64_t value, least, most;
};

static kvmill_status refuse_range(const struct range *range, kvmill_error *error) {
    if (range->most == INT64_MAX)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%s is %" PRId64 "; accepted: %" PRId64 " or more", range->name,
                           range->value, range->least);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "%s is %" PRId64 "; accepted: %" PRId64 " to %" PRId64, range->name,
                       range->value, range->least, range->most);
}

static kvmill_status check_ranges(const struct range *ranges, size_t count,
                                  enum kvmill_cache_op which, kvmill_error *error) {
    for (size_t i = 0; i < count; i++) {
        const struct range *range = &ranges[i];
        if (range->ops >> which & 1 && (range->value < range->least || range->value > range->most))
            return refuse_range(range, error);
    }
    return KVMILL_OK;
}

/* Pages of one head after the other are there for pages alone. */
static int64_t last_layout(const kvmill_cache_attention *op) {
    return !op->dynamic_batching ? 1 : op->cache_mode == 1 ? 4 : 3;
}

/* A page size, a window and counts of heads are bounded by themselves alone. */
static kvmill_status check_counts(const kvmill_cache_attention *op, enum kvmill_cache_op which,
                                  kvmill_error *error) {
    const struct range ranges[] = {
        {OF_SCORES, "num_heads", op->num_heads, 1, MOST_HEADS},
        {OF_ALL, "head_dim", op->head_dim, 1, MOST_DIM},
        {OF_SCORES, "num_kv_heads", op->num_kv_heads, 0, MOST_HEADS},
        {OF_CACHE, "num_kv_heads", op->num_kv_heads, 1, MOST_HEADS},
        {OF_STORE, "num_layer", op->num_layer, 1, INT64_MAX},
        {OF_STORE, "layer_idx", op->layer_idx, 0, op->num_layer - 1},
        {OF_STORE, "cache_layout", op->cache_layout, 0, last_layout(op)},
        {OF_STORE, "cache_mode", op->dynamic_batching ? op->cache_mode : 0, 0, 1},
        {OF_STORE, "page_size", op->dynamic_batching && op->cache_mode ? op->page_size : 1, 1,
         INT64_MAX},
        {OF_CACHE, "num_repeat", op->num_repeat, 1, MOST_HEADS},
        {OF_SCORES, "window", op->window, 0, INT64_MAX},
        {OF_ALL, "value_head_dim", op->value_differs ? op->value_head_dim : 0, 0, MOST_DIM},
    };
    return check_ranges(ranges, sizeof ranges / sizeof *ranges, which, error);
}

/* ---- Heads ---- */

static int64_t or_default(int64_t value, int64_t otherwise) {
    return value ? value : otherwise;
}

static kvmill_status check_heads(const kvmill_cache_attention *op, enum kvmill_cache_op which,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    bool scores = which != KVMILL_KEY_VALUE_CACHE;
    geometry->kv_heads = or_default(op->num_kv_heads, op->num_heads);
    geometry->heads = scores ? op->num_heads : op->num_kv_heads;
    geometry->ratio = geometry->heads / geometry->kv_heads;
    if (geometry->heads % geometry->kv_heads == 0)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "num_kv_heads is %" PRId64
                       "; accepted: 0, or a divisor of num_heads, %" PRId64,
                       op->num_kv_heads, op->num_heads);
}

/* Heads [first, first + num_heads) of the whole model's. */
static kvmill_status check_alibi(const kvmill_cache_attention *op,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    int64_t heads = or_default(op->alibi_heads, op->num_heads);
    const struct range ranges[] = {
        {OF_SCORES, "alibi_heads", heads, op->num_heads, MOST_HEADS},
        {OF_SCORES, "alibi_first", op->alibi_first, 0, heads - op->num_heads},
    };
    geometry->alibi = op->is_alibi != 0;
    geometry->alibi_heads = heads;
    geometry->alibi_first = op->alibi_first;
    geometry->alibi_scale = op->alibi_scale == 0 ? 1 : op->alibi_scale;
    if (!geometry->alibi)
        return KVMILL_OK;
    if (!isfinite((float)op->alibi_scale))
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "alibi_scale is %g; accepted: a finite float32, 0 = 1", op->alibi_scale);
    return check_ranges(ranges, 2, geometry->which, error);
}

/* ---- Scores ---- */

/* Not negative, and finite as the float32 it is used as. */
static kvmill_status check_factor(const char *name, double value, kvmill_error *error) {
    if (value >= 0 && isfinite((float)value))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s is %g; accepted: 0 or more, a finite float32",
                       name, value);
}

static kvmill_status check_math(const kvmill_cache_attention *op,
                                struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    const char *math = op->math ? op->math : "f32";
    if (strcmp(math, "f32") != 0 && strcmp(math, "fast") != 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "math is \"%.40s\"; accepted: \"f32\", \"fast\"", math);
    geometry->math = strcmp(math, "fast") == 0 ? KVMILL_MATH_FAST : KVMILL_MATH_F32;
    return KVMILL_OK;
}

static kvmill_status check_scores(const kvmill_cache_attention *op,
                                  struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    kvmill_status status = check_factor("softmax_scale", op->softmax_scale, error);
    if (status == KVMILL_OK)
        status = check_factor("softcap", op->softcap, error);
    if (status == KVMILL_OK)
        status = check_math(op, geometry, error);
    geometry->causal = op->is_causal != 0;
    geometry->window = op->window;
    geometry->softcap = op->softcap;
    geometry->scale = op->softmax_scale == 0 ? 1 / sqrt((double)op->head_dim) : op->softmax_scale;
    return status == KVMILL_OK ? check_alibi(op, geometry, error) : status;
}

/* ---- Types ---- */

static const struct {
    DLDataType dl;
    enum kvmill_element element;
} elements[] = {
    {{kDLFloat, 32, 1}, KVMILL_F32},   {{kDLFloat, 16, 1}, KVMILL_F16},
    {{kDLBfloat, 16, 1}, KVMILL_BF16}, {{kDLInt, 8, 1}, KVMILL_I8},
    {{kDLInt, 4, 1}, KVMILL_I4},
};

int kvmill_element_of(DLDataType type) {
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (kvmill_dtype_equal(elements[i].dl, type))
            return elements[i].element;
    return 0;
}

bool kvmill_is_float(int element) {
    return element == KVMILL_F32 || element == KVMILL_F16 || element == KVMILL_BF16;
}

static kvmill_status refuse_type(const char *prefix, const char *name, DLDataType type,
                                 const char *accepted, kvmill_error *error) {
    return kvmill_fail(error, KVMILL_E_DTYPE, "%s%s is %s; accepted: %s", prefix, name,
                       kvmill_dtype_name(type), accepted);
}

static kvmill_status check_activation(const kvmill_cache_attention *op,
                                      struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    bool raw = geometry->which == KVMILL_KEY_VALUE_CACHE;
    geometry->activation = kvmill_element_of(op->T1);
    if (kvmill_is_float(geometry->activation) || (raw && geometry->activation == KVMILL_I8))
        return KVMILL_OK;
    return refuse_type("", "T1", op->T1,
                       raw ? "float32, float16, bfloat16, int8" : "float32, float16, bfloat16",
                       error);
}

/* ---- Formats of K and V ---- */

/* The attributes of K's cache, or of V's. */
struct side {
    const char *prefix; /* of their names */
    int64_t dim, quant_bit, quant_group;
    DLDataType T2, T3;
    const char *format;
};

static struct side key_side(const kvmill_cache_attention *op) {
    return (struct side){"",     op->head_dim, op->quant_bit,   op->quant_group,
                         op->T2, op->T3,       op->cache_format};
}

static struct side value_side(const kvmill_cache_attention *op) {
    if (!op->value_differs)
        return key_side(op);
    return (struct side){"value_",
                         or_default(op->value_head_dim, op->head_dim),
                         op->value_quant_bit,
                         or_default(op->value_quant_group, op->quant_group),
                         op->value_T2,
                         op->value_T3,
                         op->value_cache_format};
}

static int block_element(const char *format) {
    return strcmp(format, "q8_0") == 0   ? KVMILL_Q8_0
           : strcmp(format, "q4_0") == 0 ? KVMILL_Q4_0
                                         : 0;
}

static kvmill_status check_blocks(const struct side *side, struct kvmill_format *format,
                                  kvmill_error *error) {
    format->element = block_element(side->format);
    if (format->element == 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%scache_format is \"%.40s\"; accepted: \"q8_0\", \"q4_0\", or NULL",
                           side->prefix, side->format);
    if (side->quant_bit != 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%squant_bit is %" PRId64 "; accepted with cache_format \"%s\": 0",
                           side->prefix, side->quant_bit, side->format);
    if (side->dim % BLOCK != 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%shead_dim is %" PRId64
                           "; accepted with cache_format \"%s\": multiples of %d",
                           side->prefix, side->dim, side->format, BLOCK);
    if (!kvmill_dtype_equal(side->T2, (DLDataType){kDLUInt, 8, 1}))
        return refuse_type(side->prefix, "T2", side->T2, "uint8, with a cache_format", error);
    return KVMILL_OK;
}

static kvmill_status check_plain(const struct side *side, struct kvmill_format *format, bool raw,
                                 kvmill_error *error) {
    format->element = kvmill_element_of(side->T2);
    if (raw ? format->element == KVMILL_I8 : kvmill_is_float(format->element))
        return KVMILL_OK;
    return refuse_type(side->prefix, "T2", side->T2,
                       raw ? "int8, with T1 int8" : "float32, float16, bfloat16, with quant_bit 0",
                       error);
}

static kvmill_status check_group(const struct side *side, kvmill_error *error) {
    bool nibbles = side->quant_bit == 4;
    if (side->quant_group >= 1 && side->dim % side->quant_group == 0 &&
        !(nibbles && side->quant_group % 2 != 0))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "%squant_group is %" PRId64 "; accepted: %sdivisors of %shead_dim, %" PRId64,
                       side->prefix, side->quant_group, nibbles ? "even " : "", side->prefix,
                       side->dim);
}

static kvmill_status check_quantised(const struct side *side, struct kvmill_format *format,
                                     kvmill_error *error) {
    format->element = side->quant_bit == 8 ? KVMILL_I8 : KVMILL_I4;
    format->scale = kvmill_element_of(side->T3);
    format->group = (int32_t)side->quant_group;
    if (kvmill_element_of(side->T2) != format->element)
        return refuse_type(
            side->prefix, "T2", side->T2,
            side->quant_bit == 8 ? "int8, with quant_bit 8" : "int4, with quant_bit 4", error);
    if (!kvmill_is_float(format->scale))
        return refuse_type(side->prefix, "T3", side->T3, "float32, float16, bfloat16", error);
    return check_group(side, error);
}

/* D11 to D13, D41. */
static kvmill_status check_format(const struct side *side, struct kvmill_format *format,
                                  int activation, kvmill_error *error) {
    bool raw = activation == KVMILL_I8;
    *format = (struct kvmill_format){.dim = (int32_t)side->dim};
    if (side->quant_bit != 0 && (raw || (side->quant_bit != 8 && side->quant_bit != 4)))
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%squant_bit is %" PRId64 "; accepted: %s",
                           side->prefix, side->quant_bit, raw ? "0, with T1 int8" : "0, 4, 8");
    if (side->format != NULL && raw)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%scache_format is \"%.40s\"; accepted with T1 int8: NULL", side->prefix,
                           side->format);
    if (side->format != NULL)
        return check_blocks(side, format, error);
    return side->quant_bit == 0 ? check_plain(side, format, raw, error)
                                : check_quantised(side, format, error);
}

/* MultiHeadAttention has no cache: what it attends over are activations. */
static kvmill_status check_formats(const kvmill_cache_attention *op,
                                   struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    struct side key = key_side(op), value = value_side(op);
    geometry->value_differs = op->value_differs != 0;
    if (geometry->which == KVMILL_MULTI_HEAD_ATTENTION) {
        geometry->key = (struct kvmill_format){geometry->activation, (int32_t)key.dim, 0, 0};
        geometry->value = (struct kvmill_format){geometry->activation, (int32_t)value.dim, 0, 0};
        return KVMILL_OK;
    }
    kvmill_status status = check_format(&key, &geometry->key, geometry->activation, error);
    return status == KVMILL_OK ? check_format(&value, &geometry->value, geometry->activation, error)
                               : status;
}

/* ---- All of it ---- */

static void set_places(const kvmill_cache_attention *op, struct kvmill_cache_geometry *geometry) {
    geometry->dynamic = op->dynamic_batching != 0;
    geometry->paged = geometry->dynamic && op->cache_mode == 1;
    geometry->layers = op->num_layer;
    geometry->layer = op->layer_idx;
    geometry->layout = op->cache_layout;
    geometry->page_size = op->page_size;
    geometry->repeat = geometry->which == KVMILL_KEY_VALUE_CACHE ? op->num_repeat : 1;
}

kvmill_status kvmill_cache_attention_check(const kvmill_cache_attention *op,
                                           enum kvmill_cache_op which,
                                           struct kvmill_cache_geometry *geometry,
                                           kvmill_error *error) {
    struct kvmill_cache_geometry found = {.which = which};
    kvmill_status status = check_counts(op, which, error);
    if (status == KVMILL_OK)
        status = check_heads(op, which, &found, error);
    if (status == KVMILL_OK)
        status = check_activation(op, &found, error);
    if (status == KVMILL_OK)
        status = check_formats(op, &found, error);
    if (status == KVMILL_OK && which != KVMILL_KEY_VALUE_CACHE)
        status = check_scores(op, &found, error);
    if (status != KVMILL_OK)
        return status;
    set_places(op, &found);
    *geometry = found;
    return KVMILL_OK;
}

/* ---- Shapes of kernels ---- */

struct kvmill_convert_shape kvmill_convert_shape_of(const struct kvmill_cache_geometry *geometry,
                                                    bool value) {
    return (struct kvmill_convert_shape){
        .activation = geometry->activation,
        .format = value ? geometry->value : geometry->key,
    };
}

struct kvmill_attend_shape kvmill_attend_shape_of(const struct kvmill_cache_geometry *geometry,
                                                  bool masked) {
    bool bias = masked || geometry->alibi;
    return (struct kvmill_attend_shape){
        .activation = geometry->activation,
        .key = geometry->key,
        .value = geometry->value,
        .math = geometry->math,
        .terms = (geometry->softcap != 0 ? KVMILL_TERM_SOFTCAP : 0) | (bias ? KVMILL_TERM_BIAS : 0),
    };
}

static int64_t element_bytes(int element, int64_t count) {
    switch (element) {
    case KVMILL_F32:
        return 4 * count;
    case KVMILL_F16:
    case KVMILL_BF16:
        return 2 * count;
    case KVMILL_I4:
        return count / 2;
    case KVMILL_Q8_0:
        return count / BLOCK * (2 + BLOCK);
    case KVMILL_Q4_0:
        return count / BLOCK * (2 + BLOCK / 2);
    default:
        return count;
    }
}

int64_t kvmill_format_row_bytes(const struct kvmill_format *format) {
    return element_bytes(format->element, format->dim);
}

int64_t kvmill_format_scale_bytes(const struct kvmill_format *format) {
    return format->group ? element_bytes(format->scale, format->dim / format->group) : 0;
}

/* ---- ALiBi ---- */

double kvmill_alibi_slope(int64_t heads, int64_t head) {
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    double step = head < n ? 8.0 * (double)(head + 1) : 4.0 * (double)(2 * (head - n) + 1);
    return exp2(-step / (double)n);
}
