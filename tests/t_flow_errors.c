/* What the plans of sparse flows and their runs refuse, with which words; nothing is written then.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "flow_refuse.h"

/* ---- Steps that are good ---- */

static void test_valid(void) {
    for (int kind = STEP_ATTEND; kind >= STEP_APPEND; kind--) {
        open_step(0);
        flow_step_give(&step, (enum flow_step_kind)kind, true);
        ok(is_accepted((enum flow_step_kind)kind), "%s: accepted as it is", step_names[kind]);
        flow_step_close(&step);
    }
    open_step(0);
    flow_step_give(&step, STEP_DECODE, true);
    ok(is_accepted(STEP_DECODE), "decode: accepted as it is");
    flow_step_close(&step);
}

/* ---- Each tensor by itself ---- */

/* A stride that reaches beyond 64 bits. */
static void reach(struct bent *bent) {
    int d = 0;
    while (bent->shape[d] < 2)
        d++;
    bent->strides[d] = INT64_MAX;
}

static void add_dim(struct bent *bent) {
    memmove(bent->shape + 1, bent->shape, (MOST_DIMS - 1) * sizeof *bent->shape);
    memmove(bent->strides + 1, bent->strides, (MOST_DIMS - 1) * sizeof *bent->strides);
    bent->shape[0] = 1;
    bent->dl.ndim++;
}

enum { TYPE, DEVICE, DATA, DIM, SIZE, REACH, RANK, BENDS };

static const struct {
    const char *name, *before, *behind; /* of the tensor's name, in the message */
    kvmill_status status;
} bends[BENDS] = {
    {"another type", "", " has type uint16; accepted: ", KVMILL_E_DTYPE},
    {"another device", "", " is on device type 2; accepted: ", KVMILL_E_DEVICE},
    {"no data", "the data of ", " is NULL", KVMILL_E_NULL},
    {"a dim below 0", "dim 0 of ", " is -3; accepted: 0 or more", KVMILL_E_SHAPE},
    {"a size beyond 64 bits", "", " has shape [9223372036854775807", KVMILL_E_OVERFLOW},
    {"strides beyond 64 bits", "the strides of ", " reach further", KVMILL_E_OVERFLOW},
    {"another rank", "", " has shape [1, ", KVMILL_E_SHAPE},
};

static void bend_as(int how, struct bent *bent) {
    if (how == TYPE)
        bent->dl.dtype = (DLDataType){kDLUInt, 16, 1};
    else if (how == DEVICE)
        bent->dl.device.device_type = kDLCUDA;
    else if (how == DATA)
        bent->dl.data = NULL;
    else if (how == DIM || how == SIZE)
        bent->shape[0] = how == DIM ? -3 : INT64_MAX;
    else
        (how == REACH ? reach : add_dim)(bent);
}

/* Index does not look at caches that its program does not read. */
static bool is_looked_at(enum flow_step_kind kind, int which) {
    bool is_cache =
        which >= KVMILL_CACHE_ATTENTION_CACHE && which <= KVMILL_CACHE_ATTENTION_VALUE_SCALE;
    return step.given[which] != NULL && !(kind == STEP_INDEX && is_cache);
}

static void test_bends(enum flow_step_kind kind) {
    for (int i = 0; i < BENDS; i++) {
        bool refused = true;
        flow_step_give(&step, kind, true);
        for (int which = 0; which < FLOW_STEP_TENSORS; which++) {
            char what[128];
            const DLTensor *kept = step.given[which];
            if (!is_looked_at(kind, which))
                continue;
            bend_as(i, bend(which));
            snprintf(what, sizeof what, "%s%s%s", bends[i].before, name_of(which), bends[i].behind);
            refused = is_refused(kind, bends[i].status, what) && refused;
            step.given[which] = kept;
        }
        ok(refused, "%s: %s, of each tensor", step_names[kind], bends[i].name);
    }
}

/* ---- Which are given ---- */

static bool is_optional(enum flow_step_kind kind, int which) {
    return which == KVMILL_CACHE_ATTENTION_SINKS || which == KVMILL_FLOW_BLOCK_IDS ||
           (kind != STEP_INDEX && (which == KVMILL_FLOW_SEL || which == KVMILL_FLOW_SEL_INDPTR));
}

static void test_presence(enum flow_step_kind kind) {
    bool required = true, absent = true;
    char what[128];
    flow_step_give(&step, kind, true);
    for (int which = 0; which < FLOW_STEP_TENSORS; which++) {
        const DLTensor *kept = step.given[which];
        bool is_given = kept != NULL, may_be = is_optional(kind, which) ||
                                               which == KVMILL_CACHE_ATTENTION_SEQSTARTS ||
                                               which == KVMILL_CACHE_ATTENTION_VALUE_SCALE;
        step.given[which] = is_given ? NULL : &flow_step_tensor(&step, KVMILL_FLOW_SEQ_LEN)->dl;
        snprintf(what, sizeof what, "%s is %s", name_of(which),
                 is_given ? "NULL; a tensor is required" : "given; accepted: NULL, this step");
        if (is_given && is_looked_at(kind, which) && !is_optional(kind, which))
            required = is_refused(kind, KVMILL_E_NULL, what) && required;
        if (!is_given && !(may_be && kind == STEP_ATTEND) &&
            which != KVMILL_CACHE_ATTENTION_VALUE_SCALE)
            absent = is_refused(kind, KVMILL_E_SHAPE, what) && absent;
        step.given[which] = kept;
    }
    ok(required, "%s: each tensor that is required", step_names[kind]);
    ok(absent, "%s: each tensor that it has not", step_names[kind]);
}

/* ---- Overlaps ---- */

static bool is_output(enum flow_step_kind kind, int which) {
    bool of_append =
        (which >= KVMILL_CACHE_ATTENTION_CACHE && which <= KVMILL_CACHE_ATTENTION_VALUE_SCALE) ||
        which >= KVMILL_FLOW_FIELDS;
    bool is_list = which >= KVMILL_FLOW_SEL_INDPTR && which <= KVMILL_FLOW_BLOCK_IDS;
    if (kind == STEP_APPEND)
        return of_append;
    return which == KVMILL_CACHE_ATTENTION_ATTN_OUTPUT || which == KVMILL_CACHE_ATTENTION_LSE ||
           (is_list && kind != STEP_ATTEND);
}

/* The smaller of the two in the memory of the other. */
static bool overlap_is_refused(enum flow_step_kind kind, int output, int other) {
    char what[128];
    bool is_smaller =
        flow_step_tensor(&step, other)->fence.size < flow_step_tensor(&step, output)->fence.size;
    int moved = is_smaller ? other : output;
    bool is_second = is_output(kind, other) && other < output;
    const DLTensor *kept = step.given[moved];
    struct bent *bent = bend(moved);
    bent->dl.data = flow_step_data(&step, is_smaller ? output : other);
    bent->dl.byte_offset = 0;
    snprintf(what, sizeof what, "%s overlaps %s; accepted: memory of its own",
             name_of(is_second ? output : other), name_of(is_second ? other : output));
    bool refused = is_refused(kind, KVMILL_E_ALIAS, what);
    step.given[moved] = kept;
    return refused;
}

/* Where both would do, the message is of the first output. */
static void test_overlaps(enum flow_step_kind kind) {
    bool refused = true;
    int pairs = 0;
    flow_step_give(&step, kind, true);
    for (int output = 0; output < FLOW_STEP_TENSORS; output++)
        for (int other = 0; other < FLOW_STEP_TENSORS; other++)
            if (output != other && step.given[output] != NULL && is_output(kind, output) &&
                is_looked_at(kind, other)) {
                refused = overlap_is_refused(kind, output, other) && refused;
                pairs++;
            }
    ok(refused, "%s: overlaps of an output, %d pairs", step_names[kind], pairs);
}

/* ---- Integers ---- */

static bool is_vector(int which) {
    return which == KVMILL_CACHE_ATTENTION_SEQSTARTS ||
           (which >= KVMILL_FLOW_SEQ_LEN && which <= KVMILL_FLOW_BLOCK_IDS);
}

static void test_vectors(enum flow_step_kind kind) {
    bool strided = true, unaligned = true;
    char what[96];
    flow_step_give(&step, kind, true);
    for (int which = 0; which < FLOW_STEP_TENSORS; which++) {
        const DLTensor *kept = step.given[which];
        if (kept == NULL || !is_vector(which))
            continue;
        struct bent *bent = bend(which);
        bent->strides[0] = 2;
        bent->shape[0] = (bent->shape[0] + 1) / 2;
        snprintf(what, sizeof what, "the last dim of %s has stride 2; accepted: 1", name_of(which));
        strided = is_refused(kind, KVMILL_E_STRIDE, what) && strided;
        bent = bend(which);
        bent->dl.byte_offset += 1;
        snprintf(what, sizeof what, "%s is at 0x", name_of(which));
        unaligned = is_refused(kind, KVMILL_E_STRIDE, what) && unaligned;
        step.given[which] = kept;
    }
    ok(strided, "%s: integers with strides", step_names[kind]);
    ok(unaligned, "%s: integers at odd addresses", step_names[kind]);
}

/* With a window, lists ascend; without one, pages may come in any order, and again. */
static void test_order(void) {
    int32_t *list = flow_step_data(&step, KVMILL_FLOW_SEL);
    int64_t third = put(KVMILL_FLOW_SEL, 2, list[1]);
    flow_step_give(&step, STEP_ATTEND, true);
    ok(is_accepted(STEP_ATTEND), "attend: a page twice");
    put(KVMILL_FLOW_SEL, 2, third);
    flow_step_close(&step);
    open_step(40);
    put(KVMILL_FLOW_SEL, 1, 5);
    refuse_number(STEP_ATTEND, KVMILL_FLOW_SEL, 2, 5, "KVMILL_E_INDEX_RANGE",
                  "sel[2] is 5; accepted: 6 to 6");
    flow_step_close(&step);
}

/* ---- Sizes ---- */

/* Fields lie in one piece; where one has fewer pages than the cache, so many are there. */
static void test_fields(void) {
    flow_step_give(&step, STEP_DECODE, true);
    struct bent *bent = bend(KVMILL_FLOW_FIELDS);
    bent->strides[0]++;
    bent->shape[0]--;
    ok(is_refused(STEP_DECODE, KVMILL_E_STRIDE,
                  "kmax has strides; accepted: row-major without gaps"),
       "decode: pages of a field that are apart");
    flow_step_give(&step, STEP_DECODE, true);
    bent = bend(KVMILL_FLOW_FIELDS + 1);
    bent->shape[0] = 2;
    ok(is_refused(STEP_DECODE, KVMILL_E_INDEX_RANGE, "; accepted: 0 to 1"),
       "decode: pages that a field has not");
    flow_step_give(&step, STEP_DECODE, true);
    bent = bend(KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    bent->strides[1] = 0;
    ok(is_refused(STEP_DECODE, KVMILL_E_STRIDE, "the strides of attn_output let elements overlap"),
       "decode: heads of the output in one place");
    flow_step_give(&step, STEP_DECODE, true);
    bent = bend(KVMILL_CACHE_ATTENTION_QUERY);
    bent->strides[2] = 2;
    bent->strides[0] = bent->strides[1] = 0;
    bent->shape[2] = 16;
    ok(is_refused(STEP_DECODE, KVMILL_E_STRIDE, "the last dim of query has stride 2; accepted: 1"),
       "decode: elements of a query that are apart");
}

/* ---- Limits ---- */

static void test_limits(void) {
    const kvmill_flow_limits kept = step.limits;
    static const struct {
        enum flow_step_kind kind;
        kvmill_flow_limits less;
        const char *what;
    } limits[] = {
        {STEP_INDEX, {0, 1, 0, 0}, "seq_len has 4 requests; accepted: at most 3, limits.batch"},
        {STEP_DECODE, {0, 1, 0, 0}, "seq_len has 4 requests; accepted: at most 3, limits.batch"},
        {STEP_ATTEND, {0, 4, 0, 0}, "seq_len has 4 requests; accepted: at most 0, limits.batch"},
        {STEP_INDEX, {0, 0, 1, 0}, "request 0 of page_indptr has 8 pages; accepted: at most 7"},
        {STEP_DECODE, {0, 0, 6, 0}, "request 0 of page_indptr has 8 pages; accepted: at most 2"},
        {STEP_APPEND, {0, 0, 0, 1}, ", limits.cache_pages"},
    };
    for (size_t i = 0; i < COUNT(limits); i++) {
        const kvmill_flow_limits *less = &limits[i].less;
        step.limits =
            (kvmill_flow_limits){sizeof kept, kept.batch - less->batch, kept.pages - less->pages,
                                 kept.cache_pages - less->cache_pages};
        flow_step_give(&step, limits[i].kind, true);
        ok(is_refused(limits[i].kind, KVMILL_E_WORKSPACE, limits[i].what), "%s: %s",
           step_names[limits[i].kind], limits[i].what);
    }
    step.limits = kept;
}

static void test_workspace(void) {
    static _Alignas(64) unsigned char memory[128];
    static const char *const words[] = {"workspace is at ", "workspace is NULL; "};
    const kvmill_plan_options options = {.struct_size = sizeof options};
    kvmill_error error;
    kvmill_plan *plan;
    for (int kind = 0; kind < FLOW_STEP_KINDS; kind++)
        for (int none = 0; none < 2; none++) {
            flow_step_give(&step, (enum flow_step_kind)kind, true);
            if (flow_step_plan(&step, (enum flow_step_kind)kind, &options, &plan, &error) != 0)
                bail_out("%s", error.message);
            kvmill_status status = kvmill_run(plan, step.given, none ? NULL : memory + 8, &error);
            ok(status == KVMILL_E_WORKSPACE && strstr(error.message, words[none]) != NULL, "%s: %s",
               step_names[kind], words[none]);
            kvmill_plan_destroy(plan);
        }
}

/* ---- Lists, and several tokens ---- */

/* Of tensors, which are called by name. */
static void test_names(void) {
    kvmill_error error;
    const char *own = step.fields[1].name;
    for (int which = 0; which < TENSORS + 7; which++) {
        step.fields[1].name = name_of(which);
        kvmill_status status = kvmill_flow_describe(&step.flow, NULL, &error);
        ok(status == KVMILL_E_ATTRIBUTE && strstr(error.message, "fields[1]: the name is \"") &&
               strstr(error.message, name_of(which)) && strstr(error.message, "another tensor's"),
           "a field with the name of %s", name_of(which));
    }
    step.fields[1].name = own;
    ok(kvmill_flow_describe(&step.flow, NULL, &error) == KVMILL_OK, "with its own");
}

static void test_pairs(void) {
    static const int pair[] = {KVMILL_FLOW_SEL, KVMILL_FLOW_SEL_INDPTR};
    static const enum flow_step_kind kinds[] = {STEP_ATTEND, STEP_DECODE};
    for (int n = 0; n < 4; n++) {
        char what[96];
        flow_step_give(&step, kinds[n / 2], true);
        step.given[pair[n % 2]] = NULL;
        snprintf(what, sizeof what, "%s is NULL; accepted: both sel_indptr and sel, or none",
                 name_of(pair[n % 2]));
        ok(is_refused(kinds[n / 2], KVMILL_E_NULL, what), "%s: %s", step_names[kinds[n / 2]], what);
    }
}

/* Requests of 127, 47, 38 and 0 tokens, asked about 9, 0, 5 and 0 of them. */
static void test_seqstarts(void) {
    static const struct {
        int64_t starts[5];
        const char *what;
    } rows[] = {
        {{1, 9, 9, 14, 14}, "seqstarts[0] is 1; accepted: 0"},
        {{0, 9, 8, 14, 14}, "seqstarts[2] is 8; accepted: 9 and up to seq_len[1], 47, more"},
        {{0, 128, 128, 128, 128}, "seqstarts[1] is 128; accepted: 0 and up to seq_len[0], 127"},
        {{0, 9, 9, 14, 15}, "seqstarts[4] is 15; accepted: 14 and up to seq_len[3], 0, more"},
        {{0, 9, 9, INT64_MAX, 0}, "seqstarts[3] is 9223372036854775807; accepted: 9"},
        {{0, INT64_MIN, 9, 14, 14}, "seqstarts[1] is -9223372036854775808; accepted: 0"},
        {{0, 9, 9, 13, 13}, "query has shape [4, 4, 32]; accepted: [13, 4, 32]"},
    };
    int64_t starts[5], count = 5;
    const DLTensor tensor = {.data = starts,
                             .device = {kDLCPU, 0},
                             .ndim = 1,
                             .dtype = {kDLInt, 64, 1},
                             .shape = &count};
    flow_step_give(&step, STEP_ATTEND, false);
    step.given[KVMILL_CACHE_ATTENTION_SEQSTARTS] = &tensor;
    for (size_t i = 0; i < COUNT(rows); i++) {
        memcpy(starts, rows[i].starts, sizeof starts);
        ok(is_refused(STEP_ATTEND, KVMILL_E_SHAPE, rows[i].what), "attend: %s", rows[i].what);
    }
    memcpy(starts, (int64_t[]){0, 1, 2, 4, 4}, sizeof starts);
    flow_step_give(&step, STEP_ATTEND, true);
    step.given[KVMILL_CACHE_ATTENTION_SEQSTARTS] = &tensor;
    ok(is_refused(STEP_ATTEND, KVMILL_E_SHAPE,
                  "seqstarts is given; accepted with sel: NULL, one token of each request"),
       "attend: several tokens along lists");
}

/* ---- Plans ---- */

static void refuse_plan(enum flow_step_kind kind, const kvmill_plan_options *options,
                        kvmill_status status, const char *what) {
    kvmill_error error;
    kvmill_plan *plan = (kvmill_plan *)(void *)&error;
    kvmill_status found = flow_step_plan(&step, kind, options, &plan, &error);
    ok_status(found, plan == NULL ? status : KVMILL_OK, &error, what, "plan of %s: %s",
              step_names[kind], what);
}

static void test_plan_limits(enum flow_step_kind kind) {
    static const struct {
        kvmill_flow_limits limits;
        const char *what;
    } rows[] = {
        {{sizeof(kvmill_flow_limits) - 1, 1, 1, 1},
         "limits.struct_size is 31; accepted: sizeof (kvmill_flow_limits), which is 32"},
        {{sizeof(kvmill_flow_limits), -1, 1, 1}, "limits.batch is -1; accepted: 0 to 2147483647"},
        {{sizeof(kvmill_flow_limits), 1, 2147483648, 1}, "limits.pages is 2147483648; accepted"},
        {{sizeof(kvmill_flow_limits), 1, 1, INT64_MIN}, "limits.cache_pages is -922337203"},
    };
    const kvmill_flow_limits kept = step.limits;
    for (size_t i = 0; i < COUNT(rows); i++) {
        step.limits = rows[i].limits;
        refuse_plan(kind, NULL, KVMILL_E_ATTRIBUTE, rows[i].what);
    }
    step.limits = kept;
}

static void test_plans(enum flow_step_kind kind) {
    const kvmill_plan_options small = {.struct_size = 4},
                              unknown = {.struct_size = sizeof unknown, .isa = "avx1024"},
                              many = {.struct_size = sizeof many, .threads = -1};
    test_plan_limits(kind);
    refuse_plan(kind, &small, KVMILL_E_ATTRIBUTE, "struct_size is 4; accepted:");
    refuse_plan(kind, &unknown, KVMILL_E_ISA, "avx1024");
    refuse_plan(kind, &many, KVMILL_E_ATTRIBUTE, "threads is -1");
    const kvmill_flow kept = step.flow;
    step.flow.struct_size = 4;
    refuse_plan(kind, NULL, KVMILL_E_ATTRIBUTE, "struct_size is 4; accepted:");
    step.flow = kept;
    step.flow.select.topk_val = -1;
    refuse_plan(kind, NULL, KVMILL_E_ATTRIBUTE, "topk_val is -1; accepted: 0 to");
    step.flow = kept;
    step.flow.attention = NULL;
    refuse_plan(kind, NULL, KVMILL_E_NULL, "attention is NULL");
    step.flow = kept;
}

static void test_null(void) {
    kvmill_error error;
    kvmill_plan *plan = (kvmill_plan *)(void *)&error;
    kvmill_status status = kvmill_plan_flow_index(&step.flow, &step.limits, NULL, NULL, &error);
    ok(status == KVMILL_E_NULL && strcmp(error.message, "plan is NULL") == 0, "plan is NULL");
    status = kvmill_plan_flow_append(NULL, &step.limits, NULL, &plan, &error);
    ok(status == KVMILL_E_NULL && strcmp(error.message, "flow is NULL") == 0, "flow is NULL");
    status = kvmill_plan_flow_decode(&step.flow, NULL, NULL, &plan, &error);
    ok(status == KVMILL_E_NULL && strcmp(error.message, "limits is NULL") == 0, "limits is NULL");
    status = kvmill_plan_flow_attend(&step.flow, NULL, NULL, &plan, NULL);
    ok(status == KVMILL_E_NULL, "and nobody wants to know");
}

/* ---- All ---- */

static void test_step(enum flow_step_kind kind) {
    open_step(0);
    test_presence(kind);
    test_bends(kind);
    test_overlaps(kind);
    test_vectors(kind);
    test_plans(kind);
    flow_step_close(&step);
}

int main(void) {
    dice = dice_for(dice_seed(), "errors");
    test_valid();
    for (int kind = 0; kind < FLOW_STEP_KINDS; kind++)
        test_step((enum flow_step_kind)kind);
    open_step(0);
    test_numbers();
    test_sizes();
    test_fields();
    test_limits();
    test_workspace();
    test_names();
    test_pairs();
    test_seqstarts();
    test_null();
    flow_step_give(&step, STEP_APPEND, true);
    ok(is_accepted(STEP_APPEND), "append: accepted as they are");
    test_order();
    return done_testing();
}
