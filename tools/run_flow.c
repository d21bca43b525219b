/* kvmill run for a step of a sparse flow.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../gen/flow.h"
#include "../ops/tensor_scatter.h"
#include "run_op.h"

/* ---- Steps ---- */

enum { DECODE, APPEND, INDEX, ATTEND, STEPS };

/* The first is what runs unless --step says another. */
static const char *const step_words[STEPS] = {"decode", "append", "index", "attend"};

enum {
    OF_DECODE = 1 << DECODE,
    OF_APPEND = 1 << APPEND,
    OF_INDEX = 1 << INDEX,
    OF_ATTEND = 1 << ATTEND,
    OF_SCORES = OF_DECODE | OF_INDEX,
    OF_OUTPUT = OF_DECODE | OF_ATTEND,
    OF_REQUESTS = OF_SCORES | OF_ATTEND,
    OF_FIELDS = OF_SCORES | OF_APPEND,
    OF_ALL = OF_REQUESTS | OF_APPEND
};

bool flow_run_choose(struct spec *spec, const char *word, struct error *error) {
    for (int i = 0; i < STEPS; i++)
        if (strcmp(step_words[i], word) == 0) {
            spec->flow->step = i;
            return true;
        }
    return fail(error, EXIT_USER, "--step: \"%.40s\"; accepted: append, index, attend, decode",
                word);
}

/* ---- Tensors ---- */

/* The steps that take a tensor, need it, give it.  Those of cache attention have their names and
   types there. */
static const struct role {
    const char *name; /* NULL: that of cache attention */
    unsigned in, needed, out;
    DLDataType type;
} roles[KVMILL_FLOW_FIELDS] = {
    [KVMILL_QUERY] = {NULL, OF_REQUESTS, OF_REQUESTS, 0, {0}},
    [KVMILL_CURRENT_KEY] = {NULL, OF_APPEND, OF_APPEND, 0, {0}},
    [KVMILL_CURRENT_VALUE] = {NULL, OF_APPEND, OF_APPEND, 0, {0}},
    [KVMILL_SEQSTARTS] = {NULL, OF_ATTEND, 0, 0, {0}},
    [KVMILL_CACHE] = {NULL, OF_ALL, OF_ALL, OF_APPEND, {0}},
    [KVMILL_SCALE] = {NULL, OF_ALL, 0, OF_APPEND, {0}},
    [KVMILL_VALUE_CACHE] = {NULL, OF_ALL, 0, OF_APPEND, {0}},
    [KVMILL_VALUE_SCALE] = {NULL, OF_ALL, 0, OF_APPEND, {0}},
    [KVMILL_SINKS] = {NULL, OF_OUTPUT, 0, 0, {0}},
    [KVMILL_ATTN_OUTPUT] = {NULL, 0, 0, OF_OUTPUT, {0}},
    [KVMILL_LSE] = {NULL, 0, 0, OF_OUTPUT, {0}},
    [KVMILL_SEQ_LEN] = {"seq_len", OF_REQUESTS, OF_REQUESTS, 0, {kDLInt, 64, 1}},
    [KVMILL_PAGE_INDPTR] = {"page_indptr", OF_REQUESTS, OF_REQUESTS, 0, {kDLInt, 64, 1}},
    [KVMILL_PAGE_IDS] = {"page_ids", OF_REQUESTS, OF_REQUESTS, 0, {kDLInt, 32, 1}},
    [KVMILL_SLOT_MAPPING] = {"slot_mapping", OF_APPEND, OF_APPEND, 0, {kDLInt, 64, 1}},
    [KVMILL_SEL_INDPTR] = {"sel_indptr", OF_ATTEND, 0, OF_SCORES, {kDLInt, 64, 1}},
    [KVMILL_SEL] = {"sel", OF_ATTEND, 0, OF_SCORES, {kDLInt, 32, 1}},
    [KVMILL_BLOCK_IDS] = {"block_ids", 0, 0, OF_SCORES, {kDLInt, 32, 1}},
};

static const kvmill_flow_field *field_of(const struct spec *spec, int tensor) {
    size_t i = (size_t)(tensor - KVMILL_FLOW_FIELDS);
    const kvmill_flow *flow = flow_of_spec(spec);
    return tensor >= KVMILL_FLOW_FIELDS && i < flow->field_count ? &flow->fields[i] : NULL;
}

/* Scoring moves the state that it saves. */
static bool is_saved(const kvmill_flow *flow, const char *field) {
    for (size_t i = 0; i < flow->index_count; i++)
        if (strcmp(flow->index[i].op, "Save") == 0 && strcmp(flow->index[i].output, field) == 0)
            return true;
    return false;
}

static struct role role_of(const struct spec *spec, int tensor) {
    const kvmill_flow_field *field = field_of(spec, tensor);
    if (tensor < KVMILL_FLOW_FIELDS)
        return roles[tensor];
    if (field == NULL)
        return (struct role){0};
    unsigned saved = is_saved(flow_of_spec(spec), field->name) ? OF_SCORES : 0;
    return (struct role){field->name, OF_FIELDS, OF_FIELDS, OF_APPEND | saved, field->dtype};
}

static bool is_in(const struct spec *spec, unsigned steps) {
    return steps >> spec->flow->step & 1;
}

static const char *input(const struct spec *spec, int tensor) {
    struct role role = role_of(spec, tensor);
    if (!is_in(spec, role.in))
        return NULL;
    return role.name ? role.name : cache_attention_run.input(&spec->flow->attention, tensor);
}

static const char *output(const struct spec *spec, int tensor) {
    struct role role = role_of(spec, tensor);
    if (!is_in(spec, role.out))
        return NULL;
    return role.name ? role.name : cache_attention_run.output(&spec->flow->attention, tensor);
}

/* ---- Inputs ---- */

static bool adopt(const struct spec *spec, int tensor, struct arrays *arrays, struct error *error) {
    struct role role = role_of(spec, tensor);
    struct npy *npy = &arrays->tensor[tensor];
    if (role.name == NULL)
        return attention_adopt(&spec->flow->attention, tensor, arrays, error);
    if (role.type.code == kDLInt)
        return array_is_integer(role.name, role.type, npy, error);
    return (!is_in(spec, role.out) || array_keep(role.name, npy, &arrays->file[tensor], error)) &&
           array_adopt(role.name, role.type, NULL, npy, error);
}

static bool adopt_all(const struct spec *spec, struct arrays *arrays, struct error *error) {
    for (int i = 0; i < flow_run.tensors; i++) {
        struct role role = role_of(spec, i);
        const char *name = input(spec, i);
        if (is_in(spec, role.needed) && !array_require(name, &arrays->tensor[i], error))
            return false;
        if (is_given(&arrays->tensor[i]) && !adopt(spec, i, arrays, error))
            return false;
    }
    return true;
}

static int64_t length_of(const struct npy *npy) {
    return npy->tensor.ndim == 1 ? npy->tensor.shape[0] : 0;
}

/* ---- Outputs ---- */

/* Of a flow that has been checked. */
static int64_t rows_of_request(const kvmill_flow *flow) {
    struct kvmill_flow_problem problem;
    bool valid = kvmill_flow_verify(flow, &problem, NULL) == KVMILL_OK;
    return valid ? kvmill_flow_rows_of_request(&problem) : 0;
}

static bool make_numbers(int tensor, int64_t count, struct arrays *arrays, struct error *error) {
    return npy_make(roles[tensor].type, &count, 1, &arrays->tensor[tensor], error);
}

/* Lists with room for all pages; index always gives them, decode where somebody wants them. */
static bool make_lists(const struct spec *spec, struct arrays *arrays, struct error *error) {
    int64_t rows = rows_of_request(flow_of_spec(spec));
    int64_t requests = length_of(&arrays->tensor[KVMILL_SEQ_LEN]);
    int64_t pages = length_of(&arrays->tensor[KVMILL_PAGE_IDS]);
    bool wanted = is_in(spec, OF_INDEX) || arrays->output[KVMILL_SEL_INDPTR] != NULL ||
                  arrays->output[KVMILL_SEL] != NULL || arrays->output[KVMILL_BLOCK_IDS] != NULL;
    return !wanted || (make_numbers(KVMILL_SEL_INDPTR, requests * rows + 1, arrays, error) &&
                       make_numbers(KVMILL_SEL, pages * rows, arrays, error) &&
                       make_numbers(KVMILL_BLOCK_IDS, pages * rows, arrays, error));
}

/* To what is used. */
static void cut_lists(const struct spec *spec, struct arrays *arrays) {
    const struct npy *starts = &arrays->tensor[KVMILL_SEL_INDPTR];
    if (!is_in(spec, OF_SCORES) || !is_given(starts))
        return;
    int64_t used = ((const int64_t *)starts->tensor.data)[length_of(starts) - 1];
    arrays->tensor[KVMILL_SEL].tensor.shape[0] = used;
    arrays->tensor[KVMILL_BLOCK_IDS].tensor.shape[0] = used;
}

/* ---- All of it ---- */

static bool prepare(struct spec *spec, struct arrays *arrays, struct error *error) {
    attention_learn_layers(&spec->flow->attention, &arrays->tensor[KVMILL_CACHE]);
    return adopt_all(spec, arrays, error) && spec->op->check(spec, error) &&
           (!is_in(spec, OF_OUTPUT) ||
            attention_make_scores(&spec->flow->attention, arrays, error)) &&
           (!is_in(spec, OF_SCORES) || make_lists(spec, arrays, error));
}

/* As many pages as there can be of rows of which an element is a byte at least. */
static kvmill_flow_limits limits_of(const struct spec *spec, const struct arrays *arrays) {
    int64_t slots = (int64_t)npy_bytes(&arrays->tensor[KVMILL_CACHE]);
    int64_t pages = slots / flow_of_spec(spec)->attention->page_size;
    return (kvmill_flow_limits){
        .struct_size = sizeof(kvmill_flow_limits),
        .batch = length_of(&arrays->tensor[KVMILL_SEQ_LEN]),
        .pages = length_of(&arrays->tensor[KVMILL_PAGE_IDS]),
        .cache_pages = pages < INT32_MAX ? pages : INT32_MAX,
    };
}

static kvmill_status plan(const struct spec *spec, const struct arrays *arrays,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *reason) {
    static kvmill_status (*const plans[STEPS])(const kvmill_flow *, const kvmill_flow_limits *,
                                               const kvmill_plan_options *, kvmill_plan **,
                                               kvmill_error *) = {
        [DECODE] = kvmill_plan_flow_decode,
        [APPEND] = kvmill_plan_flow_append,
        [INDEX] = kvmill_plan_flow_index,
        [ATTEND] = kvmill_plan_flow_attend,
    };
    kvmill_flow_limits limits = limits_of(spec, arrays);
    return plans[spec->flow->step](flow_of_spec(spec), &limits, options, plan, reason);
}

const struct run_op flow_run = {
    .tensors = KVMILL_FLOW_FIELDS + KVMILL_MOST_FLOW_FIELDS,
    .input = input,
    .output = output,
    .prepare = prepare,
    .plan = plan,
    .finish = cut_lists,
};
