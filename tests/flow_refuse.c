/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "flow_refuse.h"

#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "table.h"

struct dice dice;
struct flow_step step;

const char *const step_names[FLOW_STEP_KINDS] = {"append", "index", "attend", "decode"};

const char *name_of(int which) {
    static const char *const names[] = {"seq_len",      "page_indptr", "page_ids",
                                        "slot_mapping", "sel_indptr",  "sel",
                                        "block_ids",    "kmax",        "kmin"};
    return which < TENSORS ? attention_tensor_name(which) : names[which - TENSORS];
}

/* ---- A valid step ---- */

/* Each request has new tokens, the second one none; of 8, 3, 3 and 0 pages. */
void open_step(int64_t window) {
    static const int64_t starts[] = {118, 47, 33, 0}, tokens[] = {9, 0, 5, 0};
    step = (struct flow_step){.select = {.topk_val = 2, .reserved_bos = 1, .reserved_eos = 1},
                              .field_type = f16};
    kvmill_cache_attention *op = &step.attention.op;
    kvmill_cache_attention_init(op, sizeof *op);
    op->dynamic_batching = op->cache_mode = op->partial = 1;
    op->num_heads = 4;
    op->num_kv_heads = 2;
    op->head_dim = 32;
    op->page_size = 16;
    op->cache_layout = 3;
    op->quant_bit = 8;
    op->T1 = f32;
    op->T2 = i8;
    op->T3 = f16;
    op->left_window_size = window - 1;
    step.attention.has_sinks = true;
    step.attention.sequences = 4;
    memcpy(step.attention.start, starts, sizeof starts);
    memcpy(step.attention.tokens, tokens, sizeof tokens);
    flow_step_open(&step, &dice);
    flow_step_expect(&step, false);
    flow_step_put_lists(&step);
}

/* ---- Refusals ---- */

/* Of the run that step.given is for; what a test has changed in memory stays as it is. */
bool is_refused(enum flow_step_kind kind, kvmill_status status, const char *what) {
    const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 2};
    kvmill_error error;
    flow_step_keep(&step, &dice);
    kvmill_status found =
        flow_step_run(&step, kind, &options, (int)dice_range(&dice, 0, 2), &dice, &error);
    bool kept = flow_step_is_kept(&step);
    bool refused = found == status && strstr(error.message, what) != NULL && kept;
    if (!refused)
        diag("%s: %s: \"%s\", wanted %s: \"%s\"", step_names[kind], kvmill_status_name(found),
             error.message, kvmill_status_name(status), what);
    return refused;
}

bool is_accepted(enum flow_step_kind kind) {
    const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 2};
    return flow_step_runs(&step, kind, &options, 0, &dice);
}

struct bent *bend(int which) {
    static struct bent bent;
    const struct fenced_tensor *tensor = flow_step_tensor(&step, which);
    bent = (struct bent){.dl = tensor->dl};
    memcpy(bent.shape, tensor->shape, sizeof bent.shape);
    memcpy(bent.strides, tensor->strides, sizeof bent.strides);
    bent.dl.shape = bent.shape;
    bent.dl.strides = bent.strides;
    step.given[which] = &bent.dl;
    return &bent;
}

/* ---- Numbers ---- */

/* Put a number; what was there. */
int64_t put(int which, int64_t at, int64_t number) {
    bool is_short = flow_step_tensor(&step, which)->dl.dtype.bits == 32;
    int64_t *longs = flow_step_data(&step, which), old;
    int32_t *shorts = flow_step_data(&step, which);
    if (is_short) {
        old = shorts[at];
        shorts[at] = (int32_t)number;
    } else {
        old = longs[at];
        longs[at] = number;
    }
    return old;
}

/* The tensor of a name, the step of one. */
static int tensor_named(const char *name) {
    for (int which = 0; which < FLOW_STEP_TENSORS; which++)
        if (strcmp(name_of(which), name) == 0)
            return which;
    bail_out("no tensor %s", name);
}

static enum flow_step_kind step_named(const char *name) {
    return (enum flow_step_kind)place_of(name, step_names, FLOW_STEP_KINDS);
}

static int64_t number_named(const char *word) {
    int64_t pages = step.limits.cache_pages;
    return strcmp(word, "pages") == 0   ? pages
           : strcmp(word, "slots") == 0 ? pages * 16
                                        : strtoll(word, NULL, 10);
}

void refuse_number(enum flow_step_kind kind, int which, int64_t at, int64_t number,
                   const char *status, const char *what) {
    int wanted = KVMILL_OK;
    while (strcmp(kvmill_status_name((kvmill_status)wanted), status) != 0)
        wanted++;
    flow_step_give(&step, kind, true);
    int64_t old = put(which, at, number);
    ok(is_refused(kind, (kvmill_status)wanted, what), "%s: %s", step_names[kind], what);
    put(which, at, old);
}

static void test_number(char **cell) {
    for (char *rest = cell[0], *name; (name = strsep(&rest, ",")) != NULL;)
        refuse_number(step_named(name), tensor_named(cell[1]), strtoll(cell[2], NULL, 10),
                      number_named(cell[3]), cell[4], cell[5]);
}

/* New tokens: 9 of the first request, padding or not, 5 of the third. */
void test_numbers(void) {
    int64_t *slot = flow_step_data(&step, KVMILL_FLOW_SLOT_MAPPING);
    for (int64_t t = 0; t < 14; t++)
        slot[t] = t < 9 ? 32 + t : t + 7;
    each_row("flow_numbers", 6, test_number);
    flow_step_give(&step, STEP_ATTEND, true);
    bend(KVMILL_FLOW_SEL)->shape[0] = 18;
    ok(is_refused(STEP_ATTEND, KVMILL_E_INDEX_RANGE, "sel_indptr[6] is 20; accepted: 17 to 18"),
       "attend: lists beyond sel");
}

static void test_size(char **cell) {
    enum flow_step_kind kind = step_named(cell[0]);
    int which = tensor_named(cell[1]);
    flow_step_give(&step, kind, true);
    struct bent *bent = bend(which);
    bent->shape[atoi(cell[2])] += atoi(cell[3]);
    bent->dl.strides = which >= KVMILL_FLOW_FIELDS ? NULL : bent->strides;
    ok(is_refused(kind, KVMILL_E_SHAPE, cell[4]), "%s: %s, dim %s", cell[0], cell[1], cell[2]);
}

void test_sizes(void) {
    each_row("flow_sizes", 5, test_size);
}
