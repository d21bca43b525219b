/* PMX cache attention in spec files: KeyValueCache, MultiHeadAttention and MultiHeadCacheAttention,
   each also with dynamic batching.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "../defs/dtype.h"
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
    spec_begin_with(spec, &cache_attention_specs,
                    kvmill_op_of(OP_CACHE_ATTENTION, which + (dynamic ? STATIC_OPS : 0)), &never);
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

bool attention_spec_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                             struct error *error) {
    kvmill_error reason;
    return find_geometry(spec, geometry, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool check(const struct spec *spec, struct error *error) {
    struct kvmill_cache_geometry geometry;
    return attention_spec_geometry(spec, &geometry, error);
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
    spec_write_name(spec, object);
    if (spec->attention.layers[0])
        json_object_set_new(object, "layers", json_string(spec->attention.layers));
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
    .specialises = true,
};
