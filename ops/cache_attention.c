/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_attention.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "../defs/dtype.h"
#include "attributes.h"
#include "extent.h"
#include "fail.h"
#include "refuse.h"

const struct op *kvmill_cache_op_of(const struct kvmill_cache_geometry *geometry) {
    return kvmill_op_of(OP_CACHE_ATTENTION, (int)geometry->which + (geometry->dynamic ? 3 : 0));
}

bool kvmill_has_tiles(const struct kvmill_cache_geometry *geometry) {
    return kvmill_format_parts(geometry->key.element)->tile > 0 ||
           kvmill_format_parts(geometry->value.element)->tile > 0;
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

/* Heads [first, first + num_heads) of the whole model. */
static kvmill_status check_alibi(const kvmill_cache_attention *op,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    int64_t heads = or_default(op->alibi_heads, op->num_heads), first = op->alibi_first;
    geometry->alibi = op->is_alibi != 0;
    geometry->alibi_heads = heads;
    geometry->alibi_first = op->alibi_first;
    geometry->alibi_scale = op->alibi_scale == 0 ? 1 : op->alibi_scale;
    if (!geometry->alibi)
        return KVMILL_OK;
    if (!isfinite((float)op->alibi_scale))
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "alibi_scale is %g; accepted: a finite float32, 0 = 1", op->alibi_scale);
    if (heads < op->num_heads || heads > OP_MOST_HEADS)
        return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, "alibi_heads", "", heads,
                                    (struct kvmill_range){op->num_heads, OP_MOST_HEADS}, error);
    if (first < 0 || first > heads - op->num_heads)
        return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, "alibi_first", "", first,
                                    (struct kvmill_range){0, heads - op->num_heads}, error);
    return KVMILL_OK;
}

/* ---- Scores ---- */

static kvmill_status check_scores(const kvmill_cache_attention *op,
                                  struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    geometry->math = kvmill_math_of(op->math);
    geometry->causal = op->is_causal != 0;
    geometry->window = kvmill_window_of(op->left_window_size);
    geometry->softcap = op->softcap;
    geometry->scale = op->softmax_scale == 0 ? 1 / sqrt((double)op->head_dim) : op->softmax_scale;
    return check_alibi(op, geometry, error);
}

/* ---- Types ---- */

static const char *list_formats(int scales, char text[KVMILL_WORDS_SIZE]) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    kvmill_format_words(scales, words);
    return kvmill_list_words(words, "", text);
}

static kvmill_status check_activation(const kvmill_cache_attention *op,
                                      struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    bool raw = geometry->which == KVMILL_KEY_VALUE_CACHE;
    char words[KVMILL_WORDS_SIZE], accepted[KVMILL_WORDS_SIZE + 8];
    geometry->activation = kvmill_element_of(op->T1);
    if (kvmill_is_activation(geometry->activation) || (raw && geometry->activation == KVMILL_I8))
        return KVMILL_OK;
    snprintf(accepted, sizeof accepted, "%s%s", kvmill_list_activations(words),
             raw ? ", int8" : "");
    return kvmill_refuse_member_type("", "T1", op->T1, accepted, error);
}

/* ---- Formats of K and V ---- */

static bool has_pages(const kvmill_cache_attention *op) {
    return op->dynamic_batching && op->cache_mode == 1;
}

static struct kvmill_side key_side(const kvmill_cache_attention *op) {
    return (struct kvmill_side){"",
                                false,
                                op->head_dim,
                                op->quant_bit,
                                op->quant_group,
                                op->T2,
                                op->T3,
                                op->cache_format,
                                has_pages(op) ? op->page_size : 0};
}

static bool is_view(const kvmill_cache_attention *op, enum kvmill_cache_op which) {
    return which == KVMILL_MULTI_HEAD_CACHE_ATTENTION && op->value_differs && op->value_view;
}

static struct kvmill_side value_side(const kvmill_cache_attention *op) {
    struct kvmill_side same = key_side(op);
    same.is_value = true;
    if (kvmill_names_transposed(same.format)) /* only keys are transposed */
        same.format = NULL;
    if (!op->value_differs)
        return same;
    return (struct kvmill_side){"value_",
                                true,
                                or_default(op->value_head_dim, op->head_dim),
                                op->value_quant_bit,
                                or_default(op->value_quant_group, op->quant_group),
                                op->value_T2,
                                op->value_T3,
                                op->value_cache_format,
                                has_pages(op) ? op->page_size : 0};
}

static kvmill_status check_blocks(const struct kvmill_side *side, struct kvmill_format *format,
                                  kvmill_error *error) {
    format->element = kvmill_format_of_word(side->format, KVMILL_SCALES_INSIDE);
    if (side->quant_bit != 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%squant_bit is %" PRId64 "; accepted with cache_format \"%s\": 0",
                           side->prefix, side->quant_bit, side->format);
    const struct kvmill_format_parts *parts = kvmill_format_parts(format->element);
    if (!kvmill_format_is_legal(format))
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%shead_dim is %" PRId64
                           "; accepted with cache_format \"%s\": multiples of %d",
                           side->prefix, side->dim, side->format, parts->block);
    if (!kvmill_dtype_equal(side->T2, parts->dtype))
        return kvmill_refuse_member_type(side->prefix, "T2", side->T2, "uint8, with a cache_format",
                                         error);
    return KVMILL_OK;
}

static kvmill_status check_plain(const struct kvmill_side *side, struct kvmill_format *format,
                                 bool raw, kvmill_error *error) {
    char words[KVMILL_WORDS_SIZE], accepted[KVMILL_WORDS_SIZE + 24];
    format->element = kvmill_element_of(side->T2);
    if (raw ? format->element == KVMILL_I8 : kvmill_is_plain(format->element))
        return KVMILL_OK;
    snprintf(accepted, sizeof accepted, "%s%s",
             raw ? "int8" : list_formats(KVMILL_WITHOUT_SCALES, words),
             raw ? ", with T1 int8" : ", with quant_bit 0");
    return kvmill_refuse_member_type(side->prefix, "T2", side->T2, accepted, error);
}

static kvmill_status refuse_group_of_tiles(const struct kvmill_side *side,
                                           const struct kvmill_format_parts *parts,
                                           kvmill_error *error) {
    int multiple = kvmill_format_dim_multiple(parts);
    if (side->dim % multiple != 0)
        return kvmill_fail(
            error, KVMILL_E_ATTRIBUTE,
            "%shead_dim is %" PRId64
            "; accepted with cache_format \"tiles\" and quant_bit %d: multiples of %d",
            side->prefix, side->dim, parts->bits, multiple);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "%squant_group is %" PRId64
                       "; accepted with cache_format \"tiles\": divisors of %shead_dim, %" PRId64
                       ", and multiples of %d",
                       side->prefix, side->quant_group, side->prefix, side->dim,
                       kvmill_format_multiple(parts));
}

static kvmill_status check_group(const struct kvmill_side *side, const struct kvmill_format *format,
                                 kvmill_error *error) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(format->element);
    int multiple = kvmill_format_multiple(parts);
    if (kvmill_format_is_legal(format))
        return KVMILL_OK;
    if (parts->tile > 0)
        return refuse_group_of_tiles(side, parts, error);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "%squant_group is %" PRId64 "; accepted: %sdivisors of %shead_dim, %" PRId64,
                       side->prefix, side->quant_group, multiple == 2 ? "even " : "", side->prefix,
                       side->dim);
}

static kvmill_status check_quantised(const struct kvmill_side *side, struct kvmill_format *format,
                                     kvmill_error *error) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(format->element);
    char accepted[KVMILL_WORDS_SIZE];
    format->scale = kvmill_element_of(side->T3);
    bool fits = side->quant_group > 0 && side->quant_group <= side->dim;
    format->quant_group = fits ? (int32_t)side->quant_group : 0;
    if (!kvmill_dtype_equal(side->T2, parts->dtype)) {
        snprintf(accepted, sizeof accepted, "%s, with quant_bit %d",
                 kvmill_dtype_name(parts->dtype), parts->bits);
        return kvmill_refuse_member_type(side->prefix, "T2", side->T2, accepted, error);
    }
    if (!kvmill_is_activation(format->scale))
        return kvmill_refuse_member_type(side->prefix, "T3", side->T3,
                                         kvmill_list_activations(accepted), error);
    return check_group(side, format, error);
}

static kvmill_status refuse_bits(const struct kvmill_side *side, bool raw, kvmill_error *error) {
    char accepted[32] = "0";
    for (int bits = 1; bits <= 8 && !raw; bits++)
        if (kvmill_format_of_bits(bits, KVMILL_SCALES_OF_GROUPS) != 0)
            snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), ", %d", bits);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%squant_bit is %" PRId64 "; accepted: %s%s",
                       side->prefix, side->quant_bit, accepted, raw ? ", with T1 int8" : "");
}

static bool is_in_tiles(const struct kvmill_side *side) {
    return side->format != NULL && strcmp(side->format, KVMILL_TILES_WORD) == 0;
}

static kvmill_status check_tiles(const struct kvmill_side *side, struct kvmill_format *format,
                                 kvmill_error *error) {
    format->element = kvmill_format_of_tiles(side->quant_bit, side->is_value);
    if (format->element != 0)
        return check_quantised(side, format, error);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "%squant_bit is %" PRId64 "; accepted with cache_format \"tiles\": 4, 8",
                       side->prefix, side->quant_bit);
}

/* Larger pages have no advantage, and kernels count in 32 bits. */
enum { MOST_TRANSPOSED_ROWS = 1 << 16 };

static kvmill_status check_transposed(const struct kvmill_side *side, struct kvmill_format *format,
                                      kvmill_error *error) {
    char accepted[KVMILL_WORDS_SIZE];
    if (side->quant_bit != 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "quant_bit is %" PRId64 "; accepted with cache_format \"transposed\": 0",
                           side->quant_bit);
    if (side->page == 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "cache_format is \"transposed\"; accepted in pages: with dynamic "
                           "batching and cache_mode 1");
    if (side->page > MOST_TRANSPOSED_ROWS)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "page_size is %" PRId64
                           "; accepted with cache_format \"transposed\": up to %d",
                           side->page, MOST_TRANSPOSED_ROWS);
    format->element = kvmill_format_transposed(kvmill_element_of(side->T2));
    format->quant_group = (int32_t)side->page;
    return format->element != 0 ? KVMILL_OK
                                : kvmill_refuse_member_type(
                                      "", "T2", side->T2, kvmill_list_activations(accepted), error);
}

/* D11 to D13, D41. */
kvmill_status kvmill_check_side(const struct kvmill_side *side, struct kvmill_format *format,
                                int activation, kvmill_error *error) {
    bool raw = activation == KVMILL_I8;
    *format = (struct kvmill_format){.dim = (int32_t)side->dim};
    format->element = kvmill_format_of_bits(side->quant_bit, KVMILL_SCALES_OF_GROUPS);
    if (side->quant_bit != 0 && (raw || format->element == 0))
        return refuse_bits(side, raw, error);
    if (side->format != NULL && raw)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "%scache_format is \"%.40s\"; accepted with T1 int8: NULL", side->prefix,
                           side->format);
    if (is_in_tiles(side))
        return check_tiles(side, format, error);
    if (kvmill_names_transposed(side->format))
        return check_transposed(side, format, error);
    if (side->format != NULL)
        return check_blocks(side, format, error);
    return side->quant_bit == 0 ? check_plain(side, format, raw, error)
                                : check_quantised(side, format, error);
}

static bool is_said_differently(const char *value, const char *key) {
    return value != NULL && (key == NULL || strcmp(value, key) != 0);
}

/* If V's format is given, it must be K's. */
static kvmill_status check_format_of_view(const kvmill_cache_attention *op, kvmill_error *error) {
    const struct {
        const char *name;
        bool differs;
    } said[] = {
        {"T2", op->value_T2.bits != 0 && !kvmill_dtype_equal(op->value_T2, op->T2)},
        {"T3", op->value_T3.bits != 0 && !kvmill_dtype_equal(op->value_T3, op->T3)},
        {"quant_bit", op->value_quant_bit > 0 && op->value_quant_bit != op->quant_bit},
        {"quant_group", op->value_quant_group > 0 && op->value_quant_group != op->quant_group},
        {"cache_format", is_said_differently(op->value_cache_format, op->cache_format)},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (said[i].differs)
            return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                               "value_%s is not %s; accepted with value_view: the same, or none",
                               said[i].name, said[i].name);
    return KVMILL_OK;
}

/* V is the beginning of K's rows: whole groups or blocks, with elements in order. */
static kvmill_status check_view(const kvmill_cache_attention *op,
                                struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(geometry->key.element);
    int64_t dim = or_default(op->value_head_dim, op->head_dim);
    int64_t multiple = kvmill_max(kvmill_max(geometry->key.quant_group, parts->block), 1);
    kvmill_status status = check_format_of_view(op, error);
    if (status != KVMILL_OK)
        return status;
    geometry->value_view = true;
    geometry->value = geometry->key;
    geometry->value.dim = (int32_t)dim;
    if (parts->tile > 0 || parts->transposed)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "cache_format is \"%s\"; accepted with value_view: NULL, and those "
                           "of blocks",
                           op->cache_format);
    if (dim <= op->head_dim && dim % multiple == 0 && kvmill_format_is_legal(&geometry->value))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "value_head_dim is %" PRId64 "; accepted with value_view: multiples of "
                       "%" PRId64 " up to head_dim, %" PRId64,
                       dim, multiple, op->head_dim);
}

/* MultiHeadAttention has no cache: it attends over activations. */
static kvmill_status check_formats(const kvmill_cache_attention *op,
                                   struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    struct kvmill_side key = key_side(op), value = value_side(op);
    geometry->value_differs = op->value_differs != 0;
    if (geometry->which == KVMILL_MULTI_HEAD_ATTENTION) {
        geometry->key = (struct kvmill_format){geometry->activation, (int32_t)key.dim, 0, 0};
        geometry->value = (struct kvmill_format){geometry->activation, (int32_t)value.dim, 0, 0};
        return KVMILL_OK;
    }
    kvmill_status status = kvmill_check_side(&key, &geometry->key, geometry->activation, error);
    if (status != KVMILL_OK)
        return status;
    return is_view(op, geometry->which)
               ? check_view(op, geometry, error)
               : kvmill_check_side(&value, &geometry->value, geometry->activation, error);
}

static kvmill_status check_overflow(const kvmill_cache_attention *op,
                                    struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    geometry->saturates = kvmill_saturates(op->scale_overflow, false);
    if (!geometry->saturates || geometry->key.scale != 0 || geometry->value.scale != 0)
        return KVMILL_OK;
    return kvmill_refuse_saturation(error);
}

/* ---- All of it ---- */

/* Shapes determine how many slots a sequence has, unless sequences share all slots. */
static kvmill_status check_ring(const kvmill_cache_attention *op,
                                struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    bool has_cache = geometry->which != KVMILL_MULTI_HEAD_ATTENTION;
    geometry->circular = has_cache && kvmill_is_circular(op->mode);
    bool shared = geometry->circular && geometry->dynamic && !geometry->paged;
    geometry->ring = shared ? op->capacity : 0;
    if (!has_cache || (shared ? op->capacity > 0 : op->capacity == 0))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "capacity is %" PRId64 "; accepted: %s",
                       op->capacity,
                       shared ? "1 or more, with mode \"circular\" and cache_mode 0"
                              : "0, except with dynamic batching, mode \"circular\" and "
                                "cache_mode 0");
}

static kvmill_status check_layout_of_tiles(const struct kvmill_cache_geometry *geometry,
                                           const char *word, kvmill_error *error) {
    if (geometry->dynamic ? geometry->layout >= 3 : geometry->layout == 1)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "cache_layout is %" PRId64
                       "; accepted with cache_format \"%s\": %s, where rows of a head lie "
                       "side by side",
                       geometry->layout, word, geometry->dynamic ? "3, 4" : "1");
}

/* No kernels combine these two. */
static kvmill_status check_places_of_transposed(const struct kvmill_cache_geometry *geometry,
                                                kvmill_error *error) {
    if (kvmill_has_tiles(geometry))
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "value_cache_format is \"tiles\"; accepted with cache_format "
                           "\"transposed\": NULL, and those of blocks");
    return check_layout_of_tiles(geometry, KVMILL_TRANSPOSED_WORD, error);
}

/* The rows of a tile must be those of one head and one sequence. */
static kvmill_status check_places_of_tiles(const struct kvmill_cache_geometry *geometry,
                                           kvmill_error *error) {
    if (kvmill_is_transposed(geometry))
        return check_places_of_transposed(geometry, error);
    if (!kvmill_has_tiles(geometry))
        return KVMILL_OK;
    kvmill_status status = check_layout_of_tiles(geometry, KVMILL_TILES_WORD, error);
    if (status != KVMILL_OK)
        return status;
    if (geometry->paged && geometry->page_size % KVMILL_KEY_TILE != 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "page_size is %" PRId64
                           "; accepted with cache_format \"tiles\": multiples of %d",
                           geometry->page_size, KVMILL_KEY_TILE);
    if (geometry->ring % KVMILL_KEY_TILE != 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "capacity is %" PRId64
                           "; accepted with cache_format \"tiles\": multiples of %d",
                           geometry->ring, KVMILL_KEY_TILE);
    return KVMILL_OK;
}

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
    int number = op->dynamic_batching ? which + 3 : which;
    kvmill_status status = kvmill_check_members(OP_CACHE_ATTENTION, number, op, error);
    if (status == KVMILL_OK)
        status = check_heads(op, which, &found, error);
    if (status == KVMILL_OK)
        status = check_activation(op, &found, error);
    if (status == KVMILL_OK)
        status = check_formats(op, &found, error);
    if (status == KVMILL_OK)
        status = check_overflow(op, &found, error);
    if (status == KVMILL_OK && which != KVMILL_KEY_VALUE_CACHE)
        status = check_scores(op, &found, error);
    if (status != KVMILL_OK)
        return status;
    set_places(op, &found);
    status = check_ring(op, &found, error);
    if (status == KVMILL_OK)
        status = check_places_of_tiles(&found, error);
    if (status == KVMILL_OK)
        *geometry = found;
    return status;
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

/* ---- ALiBi ---- */

double kvmill_alibi_slope(int64_t heads, int64_t head) {
    int64_t n = 1;
    while (2 * n <= heads)
        n *= 2;
    double step = head < n ? 8.0 * (double)(head + 1) : 4.0 * (double)(2 * (head - n) + 1);
    return exp2(-step / (double)n);
}
