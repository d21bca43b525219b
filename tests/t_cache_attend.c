/* CacheAttend against its oracle: random problems, portable and with packs.  The bits are the same
   for any number of threads, and for rows that are given in other ways.

   SPDX-License-Identifier: Apache-2.0 */
#include "attend_problem.h"
#include "common.h"
#include "packs.h"

DICE("cache attend");

/* ---- Judging ---- */

static bool judge(const struct problem *p) {
    const struct oracle_attend *o = &p->oracle;
    int64_t rows = o->queries * o->heads, count = rows * o->value_dim;
    double *y = take(2 * count, sizeof *y), *error = y + count;
    double *lse = take(2 * rows, sizeof *lse), *lse_error = lse + rows;
    for (int64_t i = 0; i < rows; i++) {
        struct oracle_answer answer = {y + i * o->value_dim, error + i * o->value_dim, 0, 0};
        oracle_attend_row(o, i / o->heads, i % o->heads, &answer);
        lse[i] = answer.lse;
        lse_error[i] = answer.lse_error + 1e-6;
    }
    for (int64_t i = 0; i < count; i++)
        error[i] += 0x1p-25;
    bool good =
        tensor_is_close(&p->tensor[KVMILL_CACHE_ATTEND_ATTN_OUTPUT], y, error, "attn_output",
                        p->words) &&
        (p->tensors[KVMILL_CACHE_ATTEND_LSE] == NULL ||
         tensor_is_close(&p->tensor[KVMILL_CACHE_ATTEND_LSE], lse, lse_error, "lse", p->words));
    free(y);
    free(lse);
    return good;
}

/* Whether the bits are the same on any number of threads, for tensors with the same meaning. */
static bool repeats(const struct problem *p, const kvmill_plan *plan,
                    const DLTensor *const *given) {
    struct fenced_tensor again[2];
    const DLTensor *list[KVMILL_CACHE_ATTEND_TENSORS];
    const struct fenced_tensor *outputs = &p->tensor[KVMILL_CACHE_ATTEND_ATTN_OUTPUT];
    kvmill_error error = {""};
    memcpy(list, given, sizeof list);
    for (int i = 0; i < 2; i++)
        if (tensor_is_open(&outputs[i])) {
            tensor_open_copy(&again[i], &outputs[i], &dice);
            for (int64_t n = 0; n < tensor_count(&again[i].dl); n++)
                memset(tensor_element(&again[i], n), 0xff, tensor_bytes(&again[i].dl, 1));
            list[KVMILL_CACHE_ATTEND_ATTN_OUTPUT + i] = &again[i].dl;
        }
    bool good =
        run_with_workspace(plan, list, (int)dice_range(&dice, 1, 4), &dice, &error) == KVMILL_OK;
    for (int i = 0; i < 2; i++)
        if (tensor_is_open(&outputs[i])) {
            good = tensor_is_equal(&again[i], &outputs[i], NULL) && good;
            tensor_close(&again[i]);
        }
    return good || diag("other bits in parts; %s", error.message);
}

static bool try_problem(struct problem *p, int with) {
    OWN_PLAN kvmill_plan *plan = NULL;
    kvmill_error error;
    if (kvmill_plan_cache_attend(&p->op, &two_threads[with], &plan, &error) != KVMILL_OK)
        return diag("%s", error.message);
    bool good = run_with_workspace(plan, p->tensors, 0, &dice, &error) == KVMILL_OK;
    if (!good)
        diag("%s", error.message);
    good = good && judge(p) && repeats(p, plan, p->tensors);
    return good;
}

static bool is_wrapped(const struct oracle_attend *o) {
    for (int64_t n = 0; o->rings != NULL && n < o->batch * o->kv_heads; n++)
        if (o->lengths[n] > o->rings[n] && o->queries > 0)
            return true;
    return false;
}

static void try_many(int count, enum problem_kind kind) {
    int wrong = 0, wrapped = 0;
    static struct problem p;
    for (int i = 0; i < count; i++) {
        problem_open(&p, kind, &dice);
        fence_explain_traps(p.words);
        wrapped += is_wrapped(&p.oracle);
        for (int with = 0; with < 2; with++)
            if (!try_problem(&p, with)) {
                diag("%s, with%s packs", p.words, with ? "" : "out");
                wrong++;
            }
        problem_close(&p);
    }
    ok(wrong == 0 && (kind == LONG || wrapped > 0),
       "%d %s problems are right, %d of rings that have wrapped", count,
       kind == LONG ? "long" : "random", wrapped);
}

TEST(problems) {
    try_many(is_slow_run() ? few_cases(150) : 400, ANY);
    try_many(is_slow_run() ? few_cases(4) : 24, LONG);
}

/* ---- The same rows in other ways ---- */

/* Ways of a plain problem: both caches in one tensor, or rows given differently. */
enum way { BY_PAGES, BY_PAGES_OF_HEADS, BY_DIM_OF_PAGES, BY_SLOTS, BY_RANGES, BY_MASK, WAYS };
enum { MOST = 10500, MOST_OWNERS = 12 };

struct retold {
    kvmill_cache_attend op;
    int64_t rows[MOST], starts[MOST_OWNERS + 1], ranges[MOST][2];
    unsigned char mask[MOST];
    DLTensor tensor[KVMILL_CACHE_ATTEND_TENSORS];
    int64_t shape[KVMILL_CACHE_ATTEND_TENSORS][4], strides[KVMILL_CACHE_ATTEND_TENSORS][4];
    const DLTensor *given[KVMILL_CACHE_ATTEND_TENSORS];
};

static void give(struct retold *r, int which, DLDataType type, void *data, int rank,
                 const int64_t *shape) {
    memcpy(r->shape[which], shape, (size_t)rank * sizeof *shape);
    r->tensor[which] = dense_tensor(type, rank, r->shape[which], data);
    r->given[which] = &r->tensor[which];
}

/* Makes a list of rows for each sequence, or for each kv head. */
static void set_numbers(struct retold *r, const struct oracle_attend *o, int64_t rows,
                        int64_t owners) {
    must(owners <= MOST_OWNERS && owners * rows <= MOST, "too many rows");
    memset(r->mask, 1, sizeof r->mask);
    for (int64_t n = 0; n < owners; n++) {
        int64_t b = n * o->batch / owners, length = o->lengths[b * o->kv_heads];
        r->starts[n + 1] = r->starts[n] + length;
        for (int64_t j = 0; j < length; j++)
            r->rows[r->starts[n] + j] = b * rows + j;
    }
    for (int64_t b = 0; b < o->batch; b++)
        for (int64_t n = o->starts[b]; n < o->starts[b + 1]; n++)
            r->ranges[n][1] = o->lengths[b * o->kv_heads];
}

/* Joins the caches in one tensor; its pages, if any, have one row. */
static void join_caches(struct retold *r, const struct problem *p, bool paged) {
    for (int i = KVMILL_CACHE_ATTEND_KEY; i <= KVMILL_CACHE_ATTEND_VALUE_SCALE; i++) {
        const DLTensor *own = p->tensors[i];
        if (own == NULL)
            continue;
        const int64_t four[] = {p->cells, 1, own->shape[2], own->shape[3]},
                      three[] = {p->cells, own->shape[2], own->shape[3]};
        give(r, i, own->dtype, own->data, paged ? 4 : 3, paged ? four : three);
        r->tensor[i].byte_offset = own->byte_offset;
        if (own->strides == NULL)
            continue;
        memcpy(r->strides[i], own->strides, sizeof r->strides[i]);
        r->strides[i][0] = own->strides[1];
        r->tensor[i].strides = r->strides[i] + !paged;
    }
}

static void retell(struct retold *r, const struct problem *p, enum way way) {
    const struct oracle_attend *o = &p->oracle;
    int first = way == BY_SLOTS ? KVMILL_CACHE_ATTEND_SLOTS : KVMILL_CACHE_ATTEND_PAGE_IDS;
    memset(r, 0, sizeof *r);
    memcpy(r->given, p->tensors, sizeof r->given);
    r->op = p->op;
    r->op.page_size = 1;
    int64_t owners = o->batch * (way == BY_PAGES_OF_HEADS ? o->kv_heads : 1);
    set_numbers(r, o, p->rows, owners);
    if (way <= BY_SLOTS) {
        join_caches(r, p, way == BY_DIM_OF_PAGES);
        give(r, first, i64, r->rows, 1, &r->starts[owners]);
        give(r, first + 1, i64, r->starts, 1, (int64_t[]){owners + 1});
    }
    if (way == BY_SLOTS || way == BY_RANGES)
        r->given[KVMILL_CACHE_ATTEND_LENGTHS] = NULL;
    if (way == BY_RANGES)
        give(r, KVMILL_CACHE_ATTEND_RANGES, i64, r->ranges, 2, (int64_t[]){o->queries, 2});
    if (way == BY_MASK) {
        r->op.mask_T1 = boolean;
        give(r, KVMILL_CACHE_ATTEND_ATTN_MASK, boolean, r->mask, 1, &p->rows);
    }
}

static bool is_same_by(const struct problem *p, enum way way) {
    static struct retold r;
    OWN_PLAN kvmill_plan *plan;
    kvmill_error error;
    retell(&r, p, way);
    bool good = kvmill_plan_cache_attend(&r.op, &two_threads[1], &plan, &error) == KVMILL_OK;
    if (!good)
        diag("%s", error.message);
    good = good && repeats(p, plan, r.given);
    return good;
}

/* Counts, for each way, the problems with other bits. */
static void compare(enum problem_kind kind, int differ[WAYS]) {
    static struct problem p;
    problem_open(&p, kind, &dice);
    fence_explain_traps(p.words);
    bool right = try_problem(&p, 1);
    for (int way = 0; way < WAYS; way++)
        differ[way] += !right || !is_same_by(&p, (enum way)way);
    problem_close(&p);
}

TEST(compare_places) {
    static const char *const ways[WAYS] = {"pages",          "pages of each kv head",
                                           "a dim of pages", "slots",
                                           "ranges",         "a mask that hides nothing"};
    int differ[WAYS] = {0};
    for (int i = 0; i < few_cases(30); i++)
        compare(PLAIN, differ);
    for (int i = 0; i < few_cases(8); i++)
        compare(LONG_PLAIN, differ);
    for (int way = 0; way < WAYS; way++)
        ok(differ[way] == 0, "the same bits by %s", ways[way]);
}
