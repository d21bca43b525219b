/* PMX cache attention in spec files: KeyValueCache, MultiHeadAttention and MultiHeadCacheAttention,
   each also with dynamic batching.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../gen/attend_family.h"
#include "../gen/convert_family.h"
#include "spec_constants.h"
#include "spec_families.h"
#include "spec_keys.h"

/* ---- The spec's op ---- */

/* Ops of the family: the static ones, then their versions with dynamic batching. */
enum { STATIC_OPS = 3 };

enum kvmill_cache_op attention_op_of(const struct spec *spec) {
    return (enum kvmill_cache_op)(spec->op->number % STATIC_OPS);
}

static bool has_scores(const struct spec *spec) {
    return attention_op_of(spec) != KVMILL_KEY_VALUE_CACHE;
}

static bool has_cache(const struct spec *spec) {
    return attention_op_of(spec) != KVMILL_MULTI_HEAD_ATTENTION;
}

/* ---- Defaults ---- */

static void *part(struct spec *spec, int number) {
    (void)number;
    return &spec->attention.op;
}

static bool begin(struct spec *spec, struct error *error) {
    struct attention_spec *attention = &spec->attention;
    (void)error;
    *attention = (struct attention_spec){.masked = has_scores(spec)};
    spec_init_parts(spec);
    attention->op.dynamic_batching = spec->op->dynamic;
    attention->op.value_quant_bit = UNSET_QUANT_BIT;
    return true;
}

void attention_spec_begin(struct spec *spec, enum kvmill_cache_op which, bool dynamic) {
    struct error never;
    spec_begin(spec, kvmill_op_of(OP_CACHE_ATTENTION, which + (dynamic ? STATIC_OPS : 0)), &never);
}

static bool is_set(DLDataType type) {
    return type.bits != 0;
}

static DLDataType type_named(const char *name) {
    return kvmill_dtype_by_name(name)->dl;
}

static DLDataType cache_type_of(int64_t quant_bit, const char *format, DLDataType T1) {
    bool in_blocks = format != NULL && strcmp(format, KVMILL_TILES_WORD) != 0;
    int element = in_blocks ? kvmill_format_of_word(format, KVMILL_SCALES_INSIDE)
                            : kvmill_format_of_bits(quant_bit, KVMILL_SCALES_OF_GROUPS);
    return element != 0 ? kvmill_format_parts(element)->dtype : T1;
}

/* Gives V's cache the format of K's unless the spec says otherwise.  Only keys are transposed. */
static void complete_value(kvmill_cache_attention *op) {
    bool same =
        op->value_quant_bit == UNSET_QUANT_BIT && !is_set(op->value_T2) && !op->value_cache_format;
    if (op->value_head_dim == 0)
        op->value_head_dim = op->head_dim;
    if (op->value_view && same) {
        op->value_quant_bit = 0;
        return;
    }
    if (op->value_quant_group == 0)
        op->value_quant_group = op->quant_group;
    if (!is_set(op->value_T3))
        op->value_T3 = op->T3;
    if (same) {
        op->value_quant_bit = op->quant_bit;
        op->value_T2 = op->T2;
        op->value_cache_format =
            kvmill_names_transposed(op->cache_format) ? NULL : op->cache_format;
    }
    if (op->value_quant_bit == UNSET_QUANT_BIT)
        op->value_quant_bit = 0;
    if (!is_set(op->value_T2))
        op->value_T2 = cache_type_of(op->value_quant_bit, op->value_cache_format, op->T1);
}

void attention_spec_complete(struct spec *spec) {
    kvmill_cache_attention *op = &spec->attention.op;
    bool scaled = op->quant_bit != 0 || op->value_quant_bit > 0;
    if (has_cache(spec) && !is_set(op->T2))
        op->T2 = cache_type_of(op->quant_bit, op->cache_format, op->T1);
    if (has_cache(spec) && !is_set(op->T3) && scaled)
        op->T3 = type_named(op->T1.bits == 16 ? "float16" : "float32");
    if (op->value_differs)
        complete_value(op);
    else
        op->value_quant_bit = 0;
}

/* ---- Checking ---- */

static kvmill_status find_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                                   kvmill_error *reason) {
    return kvmill_cache_attention_check(&spec->attention.op, attention_op_of(spec), geometry,
                                        reason);
}

static bool check_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                           struct error *error) {
    kvmill_error reason;
    return find_geometry(spec, geometry, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool check(const struct spec *spec, struct error *error) {
    struct kvmill_cache_geometry geometry;
    return check_geometry(spec, &geometry, error);
}

/* Whether attributes are still open: KeyValueCache takes its sizes from its inputs, and a layer
   other than the first is a layer of the cache. */
bool attention_spec_is_open(const struct spec *spec) {
    const kvmill_cache_attention *op = &spec->attention.op;
    return (!has_scores(spec) && (op->head_dim == 0 || op->num_kv_heads == 0)) ||
           (spec->attention.layers_open && op->layer_idx >= op->num_layer);
}

/* ---- Attributes from tensors ---- */

static void learn_dim(const DLTensor *tensor, int back, int64_t *attribute) {
    bool known = tensor->ndim >= back && tensor->shape[tensor->ndim - back] != KVMILL_DYNAMIC;
    if (*attribute == 0 && known)
        *attribute = tensor->shape[tensor->ndim - back];
}

/* KeyValueCache has no attributes for sizes that its inputs have. */
void attention_learn_heads(struct spec *spec, const DLTensor *key, const DLTensor *value) {
    kvmill_cache_attention *op = &spec->attention.op;
    learn_dim(key, 2, &op->num_kv_heads);
    learn_dim(key, 1, &op->head_dim);
    if (op->value_differs)
        learn_dim(value, 1, &op->value_head_dim);
}

/* The layers' axis is the first; in layout 0 it comes after the batch entries or tokens. */
void attention_learn_layers(struct spec *spec, const DLTensor *cache) {
    kvmill_cache_attention *op = &spec->attention.op;
    int axis = op->cache_layout == 0;
    if (spec->attention.layers_open && cache->ndim > axis && cache->shape[axis] != KVMILL_DYNAMIC)
        op->num_layer = cache->shape[axis];
}

/* ---- Reading ---- */

static bool is_layers(const char *text) {
    return text[strspn(text, "0123456789-,. ")] == '\0';
}

static bool read_layers(const struct json_place *place, struct spec *spec, struct error *error) {
    struct attention_spec *attention = &spec->attention;
    return spec_read_label(place, "layers", is_layers,
                           "digits, hyphens, commas, spaces and full stops", attention->layers,
                           sizeof attention->layers, error);
}

/* Reads attn_mask. */
static bool read_own(const struct json_place *place, struct spec *spec,
                     const struct op_member *member, struct error *error) {
    int32_t flag;
    (void)member;
    if (!spec_read_flag(place, &flag, error))
        return false;
    spec->attention.masked = flag;
    return true;
}

static bool complete(const struct json_place *place, struct spec *spec, struct error *error) {
    struct attention_spec *attention = &spec->attention;
    attention->layers_open = has_cache(spec) && !json_object_get(place->value, "num_layer");
    if (!read_layers(place, spec, error))
        return false;
    attention_spec_complete(spec);
    return attention_spec_is_open(spec) || check(spec, error);
}

/* ---- Writing ---- */

/* Whether a member is not written: only a run determines its value, or it is the format of a view,
   which is K's. */
static bool is_left_out(const struct spec *spec, const struct op_member *member) {
    if (spec->attention.op.value_view && strncmp(member->name, "value_", 6) == 0)
        return kvmill_member_is_zero(member, &spec->attention.op);
    if (strcmp(member->name, "num_layer") == 0)
        return attention_spec_is_open(spec) && spec->attention.layers_open;
    bool may_be_open =
        strcmp(member->name, "head_dim") == 0 || strcmp(member->name, "num_kv_heads") == 0;
    return may_be_open && !has_scores(spec) && kvmill_member_is_zero(member, &spec->attention.op);
}

static json_t *write_own(const struct spec *spec, const struct op_member *member) {
    (void)member;
    return json_boolean(spec->attention.masked);
}

static void write(const struct spec *spec, json_t *object) {
    spec_write_attributes(spec, object);
    if (spec->name[0])
        json_object_set_new(object, "name", json_string(spec->name));
    if (spec->attention.layers[0])
        json_object_set_new(object, "layers", json_string(spec->attention.layers));
}

/* ---- Kernels ---- */

static bool convert_kernels(const struct spec *spec, const struct kvmill_cache_geometry *geometry,
                            const struct isa *isa, struct kernel_list *list, struct error *error) {
    for (int value = 0; value < kvmill_stored_sides(geometry); value++) {
        const struct kvmill_convert_shape shape = kvmill_convert_shape_of(geometry, value);
        const struct constants written = convert_constants(spec, geometry, value, true);
        const struct constants read = convert_constants(spec, geometry, value, false);
        if (!write_rows_kernels(&shape, &written, isa, list, error) ||
            (geometry->which == KVMILL_KEY_VALUE_CACHE &&
             !read_rows_kernels(&shape, &read, isa, list, error)))
            return false;
    }
    return true;
}

/* With masks, adds kernels for calls without a mask, too: a bias costs time in every score. */
static bool score_kernels(const struct spec *spec, const struct kvmill_cache_geometry *geometry,
                          const struct isa *isa, struct kernel_list *list, struct error *error) {
    const struct kvmill_attend_shape plain = kvmill_attend_shape_of(geometry, false);
    const struct kvmill_attend_shape biased = kvmill_attend_shape_of(geometry, true);
    const struct constants constants = attend_constants(spec, geometry);
    return attend_kernels(&plain, geometry->ratio, &constants, isa, list, error) &&
           (!spec->attention.masked ||
            attend_kernels(&biased, geometry->ratio, &constants, isa, list, error));
}

static bool kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error) {
    struct kvmill_cache_geometry geometry;
    if (!check_geometry(spec, &geometry, error) ||
        (has_cache(spec) && !convert_kernels(spec, &geometry, isa, list, error)))
        return false;
    return !has_scores(spec) || score_kernels(spec, &geometry, isa, list, error);
}

/* ---- The function of a pack's header ---- */

bool attention_define_heads(int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t window,
                            struct text *text) {
    bool done = heads == 0 ||
                text_print(text, "%" PRId64 " query head%s on ", heads, heads == 1 ? "" : "s");
    done = done && text_print(text, "%" PRId64 " KV head%s of %" PRId64, kv_heads,
                              kv_heads == 1 ? "" : "s", head_dim);
    return done && (window == 0 || text_print(text, ", a window of %" PRId64, window));
}

bool attention_define_comment(const struct spec *spec, struct text *text) {
    const kvmill_cache_attention *op = &spec->attention.op;
    const char *layers = spec->attention.layers;
    int64_t kv_heads = op->num_kv_heads ? op->num_kv_heads : op->num_heads;
    return (!layers[0] || text_print(text, "Layers %s: ", layers)) &&
           attention_define_heads(has_scores(spec) ? op->num_heads : 0, kv_heads, op->head_dim,
                                  kvmill_window_of(op->left_window_size), text);
}

/* Adds km_plan_function(NAME, STRUCT, OP, COMMENT, WHETHER LAYERS ARE COUNTED, MEMBERS). */
static bool define_plan(const struct spec *spec, struct text *text) {
    static const char *const ops[] = {"key_value_cache", "multi_head_attention",
                                      "multi_head_cache_attention"};
    return spec->name[0] == '\0' ||
           (text_print(text, "km_plan_function(«%s», «cache_attention», «%s», «", spec->name,
                       ops[attention_op_of(spec)]) &&
            attention_define_comment(spec, text) && text_print(text, "», %d, «", has_cache(spec)) &&
            spec_define_members(spec, text) && text_print(text, "»)m4_dnl\n"));
}

const struct spec_family cache_attention_specs = {
    .begin = begin,
    .part = part,
    .read_own = read_own,
    .complete = complete,
    .more_key = "layers",
    .write = write,
    .write_own = write_own,
    .is_left_out = is_left_out,
    .check = check,
    .kernels = kernels,
    .specialises = true,
    .without_kernels = "no family of kernels takes its types",
    .define_plan = define_plan,
};
