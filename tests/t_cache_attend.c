/* CacheAttend against its oracle: problems at random, portable and with packs; the same bits at any
   number of threads, and for rows that are named in other ways.

   SPDX-License-Identifier: Apache-2.0 */
#include "attend_problem.h"
#include "common.h"
#include "crew.h"
#include "packs.h"
#include "plans.h"

DICE("cache attend");

/* ---- Judging ---- */

static bool judge_row(const struct problem *p, int64_t n, int64_t h) {
    const struct oracle_attend *o = &p->oracle;
    const struct fenced_tensor *output = &p->tensor[KVMILL_CACHE_ATTEND_ATTN_OUTPUT];
    double y[512], error[512];
    struct oracle_answer answer = {y, error, 0, 0};
    int64_t row = n * o->heads + h;
    oracle_attend_row(o, n, h, &answer);
    for (int64_t e = 0; e < o->value_dim; e++) {
        double found = number_get(output->dl.dtype, tensor_element(output, row * o->value_dim + e));
        if (!number_is_close(output->dl.dtype, found, y[e], error[e] + 0x1p-25)) {
            diag("query %" PRId64 ", head %" PRId64 ", element %" PRId64 ": %.9g, not %.9g +- %.2g",
                 n, h, e, found, y[e], error[e]);
            return false;
        }
    }
    if (p->tensors[KVMILL_CACHE_ATTEND_LSE] == NULL)
        return true;
    double found = number_get(f32, tensor_element(&p->tensor[KVMILL_CACHE_ATTEND_LSE], row));
    bool right = number_is_close(f32, found, answer.lse, answer.lse_error + 1e-6);
    if (!right)
        diag("lse of query %" PRId64 ", head %" PRId64 ": %.9g, not %.9g", n, h, found, answer.lse);
    return right;
}

static bool judge(const struct problem *p) {
    bool good = true;
    for (int64_t i = 0; good && i < p->oracle.queries * p->oracle.heads; i++)
        good = judge_row(p, i / p->oracle.heads, i % p->oracle.heads);
    return good;
}

/* The same bits on other numbers of threads. */
static bool repeats(struct problem *p, const kvmill_plan *plan) {
    struct fenced_tensor again;
    kvmill_error error;
    int64_t where;
    tensor_open_copy(&again, &p->tensor[KVMILL_CACHE_ATTEND_ATTN_OUTPUT], &dice);
    p->tensors[KVMILL_CACHE_ATTEND_ATTN_OUTPUT] = &again.dl;
    bool good = run_with_workspace(plan, p->tensors, (int)dice_range(&dice, 1, 4), &dice, &error) ==
                    KVMILL_OK &&
                tensor_is_equal(&again, &p->tensor[KVMILL_CACHE_ATTEND_ATTN_OUTPUT], &where);
    p->tensors[KVMILL_CACHE_ATTEND_ATTN_OUTPUT] = &p->tensor[KVMILL_CACHE_ATTEND_ATTN_OUTPUT].dl;
    tensor_close(&again);
    return good;
}

static bool try_problem(struct problem *p, int with) {
    kvmill_plan *plan;
    kvmill_error error;
    if (kvmill_plan_cache_attend(&p->op, &two_threads[with], &plan, &error) != KVMILL_OK) {
        diag("%s", error.message);
        return false;
    }
    bool good = run_with_workspace(plan, p->tensors, 0, &dice, &error) == KVMILL_OK;
    if (!good)
        diag("%s", error.message);
    good = good && judge(p);
    if (good && !repeats(p, plan)) {
        diag("other bits in parts");
        good = false;
    }
    kvmill_plan_destroy(plan);
    return good;
}

static bool is_wrapped(const struct oracle_attend *o) {
    for (int64_t n = 0; o->rings != NULL && n < o->batch * o->kv_heads; n++)
        if (o->lengths[n] > o->rings[n] && o->queries > 0)
            return true;
    return false;
}

static void try_many(int count, bool is_long) {
    int wrong = 0, wrapped = 0;
    static struct problem p;
    for (int i = 0; i < count; i++) {
        problem_open(&p, is_long, &dice);
        fence_explain_traps(p.words);
        wrapped += is_wrapped(&p.oracle);
        for (int with = 0; with < 2; with++)
            if (!try_problem(&p, with)) {
                diag("%s, with%s packs", p.words, with ? "" : "out");
                wrong++;
            }
        problem_close(&p);
    }
    ok(wrong == 0 && (is_long || wrapped > 0),
       "%d %s problems are right, %d of rings that have wrapped", count,
       is_long ? "long" : "random", wrapped);
}

TEST(problems) {
    try_many(is_slow_run() ? few_cases(150) : 400, false);
    try_many(is_slow_run() ? few_cases(4) : 24, true);
}

/* ---- Rows by other names ---- */

enum { B = 2, S = 2, H = 4, G = 2, D = 64, T = 12, PAGE = 4, C = B * T };
/* Two sequences of 12 and 9 rows, each in a cache of its own; and all of it as one cache. */
struct scene {
    kvmill_cache_attend op;
    float numbers[B * S * H * D + 2 * C * G * D], output[B * S * H * D], lse[B * S * H];
    int64_t lengths[B], ranges[B * S][2], ids[B * T / PAGE], page_starts[B + 1];
    int64_t slots[C], slot_starts[B + 1];
    unsigned char mask[T + 1];
    DLTensor tensor[KVMILL_CACHE_ATTEND_TENSORS];
    int64_t shape[KVMILL_CACHE_ATTEND_TENSORS][4];
    const DLTensor *tensors[KVMILL_CACHE_ATTEND_TENSORS];
};

static void give(struct scene *s, int which, DLDataType type, void *data, int rank, int64_t a,
                 int64_t b, int64_t c, int64_t d) {
    memcpy(s->shape[which], (int64_t[]){a, b, c, d}, sizeof s->shape[which]);
    s->tensor[which] = dense_tensor(type, rank, s->shape[which], data);
    s->tensors[which] = &s->tensor[which];
}

static void set_lists(struct scene *s) {
    for (int i = 0; i < C; i++)
        s->slots[i] = i;
    for (int i = 0; i < B * T / PAGE; i++)
        s->ids[i] = i;
    for (int b = 0; b < B; b++) {
        s->lengths[b] = b == 0 ? T : 9;
        s->page_starts[b + 1] = (b + 1) * T / PAGE;
        s->slot_starts[b + 1] = b == 0 ? T : T + 9;
    }
    for (int n = 0; n < B * S; n++)
        s->ranges[n][1] = n < S ? T : 9;
}

static void set_scene(struct scene *s) {
    memset(s, 0, sizeof *s);
    kvmill_cache_attend_init(&s->op, sizeof s->op);
    s->op.num_heads = H, s->op.num_kv_heads = G, s->op.key_head_dim = D;
    s->op.T1 = s->op.key_T2 = f32;
    s->op.page_size = PAGE;
    memset(s->mask, 1, sizeof s->mask);
    for (size_t i = 0; i < sizeof s->numbers / sizeof *s->numbers; i++)
        s->numbers[i] = (float)dice_range(&dice, -64, 64) / 64;
    set_lists(s);
    give(s, KVMILL_CACHE_ATTEND_QUERY, f32, s->numbers, 4, B, S, H, D);
    give(s, KVMILL_CACHE_ATTEND_ATTN_OUTPUT, f32, s->output, 4, B, S, H, D);
    give(s, KVMILL_CACHE_ATTEND_LSE, f32, s->lse, 3, B, S, H, 0);
}

static float *cache_of(struct scene *s, int v) {
    return s->numbers + B * S * H * D + v * C * G * D;
}

/* Caches of sequences, one for all, or one in pages; and the lists that say where rows are. */
enum caches { OWN, ONE, PAGED };

static void give_caches(struct scene *s, enum caches caches) {
    for (int v = 0; v < 2; v++)
        if (caches == OWN)
            give(s, KVMILL_CACHE_ATTEND_KEY + v, f32, cache_of(s, v), 4, B, T, G, D);
        else if (caches == ONE)
            give(s, KVMILL_CACHE_ATTEND_KEY + v, f32, cache_of(s, v), 3, C, G, D, 0);
        else
            give(s, KVMILL_CACHE_ATTEND_KEY + v, f32, cache_of(s, v), 4, C / PAGE, PAGE, G, D);
}

enum { BY_LENGTHS = 1, BY_PAGES = 2, BY_SLOTS = 4, BY_RANGES = 8, BY_MASK = 16 };

static void give_places(struct scene *s, enum caches caches, unsigned lists) {
    give_caches(s, caches);
    if (lists & BY_LENGTHS)
        give(s, KVMILL_CACHE_ATTEND_LENGTHS, i64, s->lengths, 1, B, 0, 0, 0);
    if (lists & BY_PAGES) {
        give(s, KVMILL_CACHE_ATTEND_PAGE_IDS, i64, s->ids, 1, B * T / PAGE, 0, 0, 0);
        give(s, KVMILL_CACHE_ATTEND_PAGE_STARTS, i64, s->page_starts, 1, B + 1, 0, 0, 0);
    }
    if (lists & BY_SLOTS) {
        give(s, KVMILL_CACHE_ATTEND_SLOTS, i64, s->slots, 1, T + 9, 0, 0, 0);
        give(s, KVMILL_CACHE_ATTEND_SLOT_STARTS, i64, s->slot_starts, 1, B + 1, 0, 0, 0);
    }
    if (lists & BY_RANGES)
        give(s, KVMILL_CACHE_ATTEND_RANGES, i64, s->ranges, 2, B * S, 2, 0, 0);
    if (lists & BY_MASK) {
        s->op.mask_T1 = boolean;
        give(s, KVMILL_CACHE_ATTEND_ATTN_MASK, boolean, s->mask, 1, T, 0, 0, 0);
    }
}

static kvmill_status run(struct scene *s, kvmill_error *error) {
    kvmill_plan *plan = NULL;
    kvmill_status status = kvmill_plan_cache_attend(&s->op, &two_threads[1], &plan, error);
    if (status != KVMILL_OK)
        return status;
    status = run_with_workspace(plan, s->tensors, 0, &dice, error);
    kvmill_plan_destroy(plan);
    return status;
}

TEST(compare_places) {
    static const struct {
        const char *name;
        enum caches caches;
        unsigned lists;
    } places[] = {{"pages", ONE, BY_LENGTHS | BY_PAGES},
                  {"a dim of pages", PAGED, BY_LENGTHS | BY_PAGES},
                  {"slots", ONE, BY_SLOTS},
                  {"ranges", OWN, BY_RANGES},
                  {"a mask that hides nothing", OWN, BY_LENGTHS | BY_MASK}};
    static struct scene first, other;
    struct dice start = dice;
    kvmill_error error;
    set_scene(&first);
    give_places(&first, OWN, BY_LENGTHS);
    ok(run(&first, &error) == KVMILL_OK, "a run by lengths");
    for (size_t i = 0; i < COUNT(places); i++) {
        dice = start;
        set_scene(&other);
        give_places(&other, places[i].caches, places[i].lists);
        bool done = run(&other, &error) == KVMILL_OK;
        if (!done)
            diag("%s", error.message);
        ok(done && memcmp(first.output, other.output, sizeof first.output) == 0 &&
               memcmp(first.lse, other.lse, sizeof first.lse) == 0,
           "the same bits by %s", places[i].name);
    }
}

/* ---- Other memory, other numbers ---- */

enum { E = D / 2 };

/* Values are the first elements of the keys' rows, or a copy of them. */
TEST(view) {
    static struct scene viewed, copied;
    static float copy[B * T * G * E];
    int64_t strides[] = {(int64_t)T * G * D, (int64_t)G * D, D, 1};
    struct dice start = dice;
    kvmill_error error;
    bool done = true;
    for (int i = 0; i < 2; i++) {
        struct scene *s = i ? &copied : &viewed;
        dice = start;
        set_scene(s);
        give_places(s, OWN, BY_LENGTHS);
        s->op.value_head_dim = E;
        for (int64_t n = 0; n < B * T * G * E; n++)
            copy[n] = cache_of(s, 0)[n / E * D + n % E];
        give(s, KVMILL_CACHE_ATTEND_VALUE, f32, i ? copy : cache_of(s, 0), 4, B, T, G, E);
        s->tensor[KVMILL_CACHE_ATTEND_VALUE].strides = i ? NULL : strides;
        give(s, KVMILL_CACHE_ATTEND_ATTN_OUTPUT, f32, s->output, 4, B, S, H, E);
        done = done && run(s, &error) == KVMILL_OK;
    }
    ok(done && memcmp(viewed.output, copied.output, sizeof viewed.output) == 0,
       "V is a view of K: the bits of a copy");
}
