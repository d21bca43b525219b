/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "group_query.h"
#include "ort_values.h"

/* ---- Numbers ---- */

int64_t group_query_integer(const DLTensor *tensor, int64_t i) {
    if (i >= value_count(tensor))
        return 0;
    return tensor->dtype.bits == 64 ? ((const int64_t *)tensor->data)[i]
                                    : ((const int32_t *)tensor->data)[i];
}

int64_t group_query_past_rows(const DLTensor *const *inputs) {
    const DLTensor *past = inputs[KVMILL_GROUP_QUERY_PAST_KEY];
    return past != NULL && past->ndim == 4 ? past->shape[2] : 0;
}

/* ---- Shapes ---- */

static OrtStatus *wrong(const char *name, const char *accepted) {
    return runtime_fail(ORT_IS_INVALID_ARGUMENT, "%s has another shape; accepted: %s", name,
                        accepted);
}

/* dims: KVMILL_DYNAMIC matches any dim. */
static bool has_shape(const DLTensor *tensor, int rank, const int64_t *dims) {
    bool same = tensor->ndim == rank;
    for (int d = 0; same && d < rank; d++)
        same = dims[d] == KVMILL_DYNAMIC || tensor->shape[d] == dims[d];
    return same;
}

static bool is_one_of(int64_t dim, int64_t other) {
    return dim == 1 || dim == other;
}

static OrtStatus *check_rows(const struct group_query_call *call, const DLTensor *const *given) {
    const struct kvmill_group_query_heads *heads = &call->heads;
    const int64_t rows[] = {call->batch, call->fresh, heads->kv_heads * heads->dim};
    const int64_t past[] = {call->batch, heads->kv_heads, call->past_rows,
                            heads->blocks      ? KVMILL_DYNAMIC
                            : heads->bits == 4 ? heads->dim / 2
                                               : heads->dim};
    for (int v = 0; v < 2; v++) {
        const DLTensor *fresh = given[KVMILL_GROUP_QUERY_KEY + v],
                       *old = given[KVMILL_GROUP_QUERY_PAST_KEY + v],
                       *all = given[KVMILL_GROUP_QUERY_PRESENT_KEY + v];
        if (fresh != NULL && !has_shape(fresh, 3, rows))
            return wrong(v ? "value" : "key", "(batch, tokens or 0, kv_num_heads * head size)");
        if (old != NULL && !has_shape(old, 4, past))
            return wrong(v ? "past_value" : "past_key", "(batch, kv_num_heads, rows, head size)");
        if (old != NULL && old->data == all->data && call->past_rows != call->capacity)
            return wrong(v ? "past_value" : "past_key", "as many rows as the present it shares");
        if (call->past_rows < call->window)
            return wrong(v ? "past_value" : "past_key", "local_window_size rows or more");
    }
    return NULL;
}

/* Without a past, only the model's declaration of the presents determines their type. */
static OrtStatus *check_types(const DLTensor *const *given) {
    for (int v = 0; v < 2; v++) {
        const DLTensor *old = given[KVMILL_GROUP_QUERY_PAST_KEY + v],
                       *all = given[KVMILL_GROUP_QUERY_PRESENT_KEY + v];
        const DLDataType type = (old != NULL ? old : given[KVMILL_GROUP_QUERY_QUERY])->dtype;
        if (!value_has_type(all, type.code, type.bits))
            return runtime_fail(
                ORT_IS_INVALID_ARGUMENT, "%s has another type than %s; accepted: the same",
                v ? "present_value" : "present_key", old != NULL ? "past" : "query");
    }
    return NULL;
}

static OrtStatus *check_scales(const struct group_query_call *call,
                               const struct kvmill_group_query *said,
                               const DLTensor *const *given) {
    for (int v = 0; kvmill_group_query_is_quantised(&call->heads) && v < 2; v++) {
        const char *type = v ? said->v_quant_type : said->k_quant_type;
        int64_t channels = call->heads.kv_heads * call->heads.dim;
        if (value_count(given[KVMILL_GROUP_QUERY_K_SCALE + v]) !=
            (strcmp(type, "PER_CHANNEL") == 0 ? channels : 1))
            return wrong(v ? "v_scale" : "k_scale", "one number, or one for each channel");
    }
    return NULL;
}

static OrtStatus *check_extras(const struct group_query_call *call, const DLTensor *const *given) {
    const DLTensor *ids = given[KVMILL_GROUP_QUERY_POSITION_IDS];
    const DLTensor *bias = given[KVMILL_GROUP_QUERY_ATTENTION_BIAS],
                   *sink = given[KVMILL_GROUP_QUERY_HEAD_SINK];
    const DLTensor *counts = given[KVMILL_GROUP_QUERY_QUERY_SEQLENS];
    if (call->fresh < call->tokens && (counts != NULL || call->window > 0))
        return wrong("key", "rows for all tokens, with query_seqlens or sliding_window_cache");
    if (value_count(given[KVMILL_GROUP_QUERY_SEQLENS_K]) != call->batch)
        return wrong("seqlens_k", "(batch)");
    if (value_count(given[KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH]) != 1)
        return wrong("total_sequence_length", "one number");
    if (counts != NULL && value_count(counts) != call->batch)
        return wrong("query_seqlens", "(batch)");
    if (ids != NULL && value_count(ids) != call->batch * call->tokens)
        return wrong("position_ids", "(batch, tokens)");
    if (sink != NULL && value_count(sink) != call->heads.heads)
        return wrong("head_sink", "(num_heads)");
    if (bias != NULL &&
        !(bias->ndim == 4 && is_one_of(bias->shape[0], call->batch) &&
          is_one_of(bias->shape[1], call->heads.heads) && bias->shape[2] == call->tokens &&
          bias->shape[3] >=
              group_query_integer(given[KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH], 0)))
        return wrong("attention_bias",
                     "(batch or 1, num_heads or 1, tokens, total_sequence_length)");
    return NULL;
}

static OrtStatus *check_tables(const struct group_query_call *call, const DLTensor *const *given) {
    const DLTensor *cos = given[KVMILL_GROUP_QUERY_COS_CACHE],
                   *sin = given[KVMILL_GROUP_QUERY_SIN_CACHE];
    if (call->rotated == 0)
        return NULL;
    if (cos->ndim != 2 || !has_shape(sin, 2, cos->shape) || call->rotated > call->heads.dim)
        return wrong("cos_cache or sin_cache", "the same, rows of half a head or less");
    return NULL;
}

OrtStatus *group_query_check(const struct group_query_call *call,
                             const struct kvmill_group_query *said, const DLTensor *const *given) {
    OrtStatus *status = check_types(given);
    if (status == NULL)
        status = check_rows(call, given);
    if (status == NULL)
        status = check_scales(call, said, given);
    if (status == NULL)
        status = check_extras(call, given);
    return status != NULL ? status : check_tables(call, given);
}

/* ---- Lengths ---- */

int64_t group_query_valid_queries(const struct group_query_call *call, const DLTensor *const *given,
                                  int64_t b, int64_t length) {
    const DLTensor *counts = given[KVMILL_GROUP_QUERY_QUERY_SEQLENS];
    if (counts != NULL)
        return group_query_integer(counts, b);
    return length < call->tokens ? length : call->tokens;
}

static void set_all_keys(struct group_query_call *call, int64_t b, int64_t length,
                         int64_t queries) {
    call->lengths[b] = length;
    call->starts[b] = length - queries;
    call->kept[b] = call->fresh > 0 ? length - queries : length;
    call->dropped[b] = call->evicted[b] = 0;
}

static OrtStatus *set_length(struct group_query_call *call, const DLTensor *const *given,
                             int64_t b) {
    int64_t total = group_query_integer(given[KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH], 0);
    int64_t length = group_query_integer(given[KVMILL_GROUP_QUERY_SEQLENS_K], b) + 1;
    bool window = call->window > 0; /* the total then says nothing of the present */
    if (length < 1 || (length > total && !window))
        return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                            "seqlens_k[%" PRId64 "] is %" PRId64
                            "; accepted: 0 to total_sequence_length - 1, %" PRId64,
                            b, length - 1, total - 1);
    int64_t queries = group_query_valid_queries(call, given, b, length);
    if (queries >= 0 && queries <= call->tokens && queries <= length)
        (window ? group_query_set_window : set_all_keys)(call, b, length, queries);
    else
        call->kept[b] = -1;
    return call->kept[b] >= 0 && call->kept[b] <= call->past_rows
               ? NULL
               : runtime_fail(ORT_IS_INVALID_ARGUMENT,
                              "entry %" PRId64 " has %" PRId64 " new keys of %" PRId64
                              "; accepted: at most %" PRId64 ", after at most %" PRId64,
                              b, queries, length, call->fresh, call->past_rows);
}

OrtStatus *group_query_set_lengths(struct group_query_call *call, const DLTensor *const *given) {
    OrtStatus *status = NULL;
    for (int64_t b = 0; status == NULL && b < call->batch; b++)
        status = set_length(call, given, b);
    return status;
}

/* In a first prompt the runtime reads only one position id, so the rest follow from that. */
static int64_t angle_of(const struct group_query_call *call, const DLTensor *const *given,
                        int64_t b, int64_t s) {
    const DLTensor *ids = given[KVMILL_GROUP_QUERY_POSITION_IDS];
    int64_t total = group_query_integer(given[KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH], 0);
    if (ids == NULL)
        return call->evicted[b] + call->starts[b] + s;
    if (call->tokens == total && given[KVMILL_GROUP_QUERY_QUERY_SEQLENS] == NULL)
        return group_query_integer(ids, 0) + s;
    return group_query_integer(ids, b * call->tokens + s);
}

OrtStatus *group_query_set_positions(struct group_query_call *call, const DLTensor *const *given) {
    for (int64_t token = 0; token < call->batch * call->tokens; token++) {
        int64_t b = token / call->tokens, s = token % call->tokens;
        call->positions[token] = call->starts[b] + s;
        if (call->angles == NULL)
            continue;
        bool padding = call->positions[token] >= call->lengths[b];
        int64_t rows = given[KVMILL_GROUP_QUERY_COS_CACHE]->shape[0];
        call->angles[token] = padding ? 0 : angle_of(call, given, b, s);
        if (call->angles[token] < 0 || call->angles[token] >= rows)
            return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                                "position %" PRId64 " of entry %" PRId64
                                " is not in cos_cache; accepted: 0 to %" PRId64,
                                call->angles[token], b, rows - 1);
    }
    return NULL;
}
