/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_attend.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "../defs/dtype.h"
#include "attributes.h"
#include "cache_format.h"
#include "fail.h"
#include "refuse.h"

enum { MOST_BIAS = 8 };

static int64_t or_default(int64_t value, int64_t otherwise) {
    return value ? value : otherwise;
}

kvmill_cache_attend kvmill_cache_attend_resolve(const kvmill_cache_attend *op) {
    kvmill_cache_attend found = *op;
    if (op->value_T2.bits != 0)
        return found;
    found.value_quant_bit = op->key_quant_bit;
    found.value_quant_group = op->key_quant_group;
    found.value_T2 = op->key_T2;
    found.value_T3 = op->key_T3;
    found.value_cache_format = op->key_cache_format;
    return found;
}

/* ---- Heads ---- */

static int64_t whole_heads(const kvmill_cache_attend *op) {
    return or_default(op->alibi_heads, op->num_heads);
}

static kvmill_status check_heads(const kvmill_cache_attend *op,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    int64_t last = whole_heads(op) - op->num_heads;
    geometry->alibi = op->is_alibi != 0;
    kvmill_status status = kvmill_check_heads(op->num_heads, op->num_kv_heads, geometry, error);
    if (status != KVMILL_OK)
        return status;
    if (op->is_alibi && last < 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "alibi_heads is %" PRId64 "; accepted: 0, or %" PRId64 " or more",
                           op->alibi_heads, op->num_heads);
    if (op->is_alibi && op->alibi_first > last)
        return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, "alibi_first", "", op->alibi_first,
                                    (struct kvmill_range){0, last}, error);
    return KVMILL_OK;
}

float kvmill_cache_attend_slope(const kvmill_cache_attend *op, int64_t head) {
    double bias = op->max_bias == 0 ? MOST_BIAS : op->max_bias;
    return (float)pow(kvmill_alibi_slope(whole_heads(op), op->alibi_first + head),
                      bias / MOST_BIAS);
}

/* ---- Types ---- */

/* The terms of scores must be exact in the type of kernels. */
static bool wants_float32(const kvmill_cache_attend *op) {
    bool same = !kvmill_cache_attend_is_masked(op) ||
                kvmill_dtype_equal(op->mask_T1, kvmill_bool) ||
                kvmill_dtype_equal(op->mask_T1, op->T1);
    return op->is_alibi != 0 || !same;
}

/* Without value_T2, V has K's format. */
static bool is_half_a_format(const kvmill_cache_attend *op) {
    return op->value_T2.bits == 0 && (op->value_quant_bit != 0 || op->value_quant_group != 0 ||
                                      op->value_T3.bits != 0 || op->value_cache_format != NULL);
}

/* Checks what is not a side's. */
static kvmill_status check_types(const kvmill_cache_attend *op, kvmill_error *error) {
    bool has_output = op->output_T1.bits != 0;
    char activations[KVMILL_WORDS_SIZE], accepted[KVMILL_WORDS_SIZE + 8];
    if (!kvmill_is_activation(kvmill_element_of(op->T1)))
        return KVMILL_OK; /* that of the sides is refused */
    if (has_output && !kvmill_dtype_equal(op->output_T1, op->T1) &&
        !kvmill_dtype_equal(op->output_T1, kvmill_float32))
        return kvmill_refuse_member_type("", "output_T1", op->output_T1, "T1's, float32", error);
    snprintf(accepted, sizeof accepted, "bool, %s", kvmill_list_activations(activations));
    if (kvmill_cache_attend_is_masked(op) && !kvmill_dtype_equal(op->mask_T1, kvmill_bool) &&
        !kvmill_is_activation(kvmill_element_of(op->mask_T1)))
        return kvmill_refuse_member_type("", "mask_T1", op->mask_T1, accepted, error);
    if (is_half_a_format(op))
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "value_T2 is not set; accepted with value_quant_bit, value_quant_group, "
                           "value_T3 or value_cache_format: the type of V's elements");
    return KVMILL_OK;
}

static kvmill_status check_formats(const kvmill_cache_attend *given,
                                   struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    const kvmill_cache_attend op = kvmill_cache_attend_resolve(given);
    const struct kvmill_side key = {.prefix = "key_",
                                    .dim = op.key_head_dim,
                                    .attributes = {op.key_quant_bit, op.key_quant_group, op.key_T2,
                                                   op.key_T3, op.key_cache_format},
                                    .T1 = op.T1};
    struct kvmill_side value = key;
    value.prefix = "value_";
    value.is_value = true;
    value.dim = or_default(op.value_head_dim, op.key_head_dim);
    value.attributes = (struct kvmill_attributes){op.value_quant_bit, op.value_quant_group,
                                                  op.value_T2, op.value_T3, op.value_cache_format};
    geometry->value_differs = given->value_T2.bits != 0;
    kvmill_status status = check_types(given, error);
    if (status == KVMILL_OK)
        status = kvmill_check_sides(&key, &value, geometry, error);
    if (wants_float32(given))
        geometry->activation = KVMILL_F32;
    return status;
}

/* ---- Scores ---- */

static void set_scores(const kvmill_cache_attend *op, struct kvmill_cache_geometry *geometry) {
    geometry->math = kvmill_math_of(op->math);
    geometry->causal = op->is_causal != 0;
    geometry->window = kvmill_window_of(op->left_window_size);
    geometry->softcap = op->softcap;
    geometry->page_size = op->page_size;
    geometry->circular = kvmill_is_circular(op->mode);
    geometry->scale =
        op->softmax_scale == 0 ? 1 / sqrt((double)op->key_head_dim) : op->softmax_scale;
}

kvmill_status kvmill_cache_attend_check(const kvmill_cache_attend *op,
                                        struct kvmill_cache_geometry *geometry,
                                        kvmill_error *error) {
    struct kvmill_cache_geometry found = {
        .which = KVMILL_MULTI_HEAD_ATTENTION, .layers = 1, .repeat = 1, .alibi_scale = 1};
    kvmill_status status = kvmill_check_members(OP_CACHE_ATTEND, 0, op, error);
    if (status == KVMILL_OK)
        status = check_heads(op, &found, error);
    if (status == KVMILL_OK)
        status = check_formats(op, &found, error);
    if (status != KVMILL_OK)
        return status;
    set_scores(op, &found);
    *geometry = found;
    return KVMILL_OK;
}

struct kvmill_attend_shape kvmill_cache_attend_shape(const kvmill_cache_attend *op,
                                                     const struct kvmill_cache_geometry *geometry,
                                                     bool masked) {
    struct kvmill_cache_geometry scores = *geometry;
    scores.alibi = geometry->alibi && !op->alibi_of_mask;
    return kvmill_attend_shape_of(&scores, masked);
}
