/* Cache attention through the public interface against the oracle: random geometry of every kind,
   portable and with packs, and every kernel of every linked pack at every instruction set of the
   machine.  Caches and scales must be equal bit for bit, attention within the error of its
   arithmetic.

   SPDX-License-Identifier: Apache-2.0 */
#include "attention_scenes.h"
#include "common.h"
#include "packs.h"
#include "random_attention.h"

/* ---- A case ---- */

static void count_ring(const struct attention *a) {
    bool wraps = false, turns = false, is_long = false;
    for (int64_t b = 0; b < a->sequences; b++) {
        int64_t tokens = a->tokens[b], seen_keys = a->op.left_window_size + 1;
        seen_keys = seen_keys == 0 || seen_keys > a->ring ? a->ring : seen_keys;
        wraps = wraps || a->start[b] > a->ring;
        turns =
            turns || (a->op.is_causal && a->start[b] > a->ring && tokens > a->ring - seen_keys + 1);
        is_long = is_long || tokens > a->ring;
    }
    saw("wrapped rings", wraps);
    saw("causal chunks that replace what they see", turns && a->which != KEY_VALUE_CACHE);
    saw("chunks longer than the ring", is_long);
}

static void count_case(const struct attention *a) {
    if (a->ring > 0)
        count_ring(a);
    saw("no tokens", a->seqstarts[a->sequences] == 0);
    saw("pages", a->op.dynamic_batching && a->op.cache_mode == 1);
    saw("a mask", a->mask_rank != 0);
    saw("strides", a->spread == SPREAD);
}

/* Returns options with the number of threads of the run, or another one. */
static kvmill_plan_options options_for(kvmill_plan_options options, int threads,
                                       struct dice *dice) {
    options.threads = dice_once_in(dice, 4) ? (int)dice_range(dice, 1, 8) : threads;
    saw("eight threads", threads == 8);
    return options;
}

static bool runs_the_same(struct attention *a, const kvmill_plan_options *options, int threads,
                          struct dice *dice) {
    tensors_restore(a->tensor, a->before, TENSORS);
    kvmill_plan_options some = options_for(*options, threads, dice);
    OWN_PLAN kvmill_plan *plan = attention_plan_and_run(a, &some, threads, dice);
    return plan != NULL &&
           tensors_are_kept(a->tensor, a->expected, TENSORS, 0, "with fewer threads it is not");
}

/* Compares a run on some threads with the oracle, then runs on others bit for bit. */
static bool run_case(struct attention *a, const kvmill_plan_options *options, bool all_threads,
                     struct dice *dice) {
    static const int counts[] = {0, 1, 2, 3, 8};
    attention_open(a, dice);
    attention_expect(a, dice);
    int other = (int)dice_range(dice, 0, 4);
    int threads = counts[dice_range(dice, 0, 4)];
    kvmill_plan_options some = options_for(*options, threads, dice);
    bool good = attention_runs_right(a, &some, threads, dice);
    tensors_keep(a->expected, a->tensor, TENSORS, dice); /* for the other runs, bit for bit */
    for (int i = 0; good && i < 5; i++)
        good = !(all_threads || i == other) || runs_the_same(a, options, counts[i], dice);
    if (!good)
        diag("%s", a->words);
    count_case(a);
    attention_close(a);
    return good;
}

/* ---- Random geometry ---- */

static void test_kind(enum kind kind, bool use_packs) {
    char words[64];
    snprintf(words, sizeof words, "%s with %s", random_kinds[kind],
             use_packs ? "packs" : "no packs");
    struct dice dice = dice_for(words);
    int cases = is_slow_run() ? few_cases(8) : kind == LONG ? 24 : 60;
    bool good = true;
    for (int i = 0; good && i < cases; i++) {
        struct attention a = {0};
        random_attention(&a, kind, &dice);
        good = run_case(&a, &two_threads[use_packs], kind == LONG, &dice);
    }
    ok(good, "%s: random geometry", words);
}

TEST(kinds) {
    for (int use_packs = 0; use_packs < 2; use_packs++)
        for (int kind = 0; kind < KINDS; kind++)
            test_kind((enum kind)kind, use_packs);
}

/* ---- Every kernel of the packs ---- */

static bool is_ours(const struct kvmill_kernel *kernel) {
    return kernel->family == KVMILL_ATTEND || kernel->family == KVMILL_WRITE_ROWS ||
           kernel->family == KVMILL_READ_ROWS;
}

static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
        if (strchr(" ,;:.()\n", at[length]) != NULL)
            return true;
    return false;
}

static bool is_selected(const struct attention *a, const struct kvmill_kernel *kernel,
                        const kvmill_plan_options *options) {
    OWN_PLAN kvmill_plan *plan;
    return attention_plan(a, options, &plan, NULL) == KVMILL_OK &&
           has_word(plan_text(plan), kernel->symbol);
}

/* Slow runs take every kernel of small packs, and a few of large packs. */
enum { SMALL_PACKS = 200 };

static int cases_of_kernel(struct dice *dice) {
    int64_t kernels = packs[0]->count + packs[1]->count;
    if (!is_slow_run())
        return 1;
    return kernels < SMALL_PACKS ? 2 : dice_once_in(dice, 1 + kernels / 100);
}

static bool run_kernel(const struct kvmill_kernel *kernel, struct dice *dice) {
    kvmill_plan_options options = two_threads[1];
    int cases = cases_of_kernel(dice);
    struct attention a = {0};
    options.isa = kernel->isa;
    random_fit(&a, kernel, dice);
    bool good = is_selected(&a, kernel, &options);
    if (!good)
        diag("%s is not selected for what it was made for", kernel->symbol);
    for (int i = 0; good && i < cases; i++) {
        a = (struct attention){0};
        random_fit(&a, kernel, dice);
        good = run_case(&a, &options, false, dice);
    }
    return good;
}

TEST(packs) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++) {
        if (!is_ours(kernel) || !isa_is_allowed(kernel->isa) ||
            kernel->constant_count > 0) /* t_special */
            continue;
        struct dice dice = dice_for(kernel->symbol);
        ok(run_kernel(kernel, &dice), "%s is selected and right", kernel->symbol);
    }
}

/* Chooses the kernel whose formats a case takes: random ones seldom have kernels. */
static const struct kvmill_kernel *choose_kernel(struct dice *dice) {
    for (int tries = 0; tries < 1000; tries++) {
        const kvmill_pack *pack = packs[dice_range(dice, 0, PACKS - 1)];
        const struct kvmill_kernel *kernel = pack->kernels[dice_range(dice, 0, pack->count - 1)];
        if (is_ours(kernel) && isa_is_allowed(kernel->isa))
            return kernel;
    }
    return NULL;
}

TEST(mixed_kernels) {
    struct dice dice = dice_for("formats of packs");
    int cases = is_slow_run() ? few_cases(5) : 200;
    bool good = true, any = false;
    for (int i = 0; good && i < cases; i++) {
        struct attention a = {0};
        const struct kvmill_kernel *kernel = choose_kernel(&dice);
        if (kernel == NULL)
            break;
        any = true;
        random_fit(&a, kernel, &dice);
        random_lengths(&a, (enum kind)dice_range(&dice, 0, KINDS - 1), &dice);
        good = run_case(&a, &two_threads[1], i % 10 == 0, &dice);
    }
    if (any)
        ok(good, "formats of the packs, lengths of every kind, the best instruction set");
    else
        skip_test("no kernel for cache attention is linked");
}

/* ---- Partial results, which the oracle judges in other tests ---- */

enum { ROWS = 3, DIM = 10, SLICES = 3 };

/* Slices have the exponentials of their lse as weights; an empty slice is 0 with lse -infinity. */
static bool merge_slices(struct dice *dice) {
    float output[SLICES][ROWS * DIM], lse[SLICES][ROWS];
    const float *const outputs[] = {output[0], output[1], output[2]};
    const float *const lses[] = {lse[0], lse[1], lse[2]};
    double sum[ROWS * DIM] = {0}, total[ROWS] = {0};
    int64_t never_empty = dice_range(dice, 0, SLICES - 1);
    bool good = true;
    for (int n = 0; n < SLICES * ROWS * DIM; n++) {
        int s = n / (ROWS * DIM), i = n % (ROWS * DIM), r = i / DIM;
        if (i % DIM == 0) {
            bool empty = s != never_empty && dice_once_in(dice, 3);
            lse[s][r] = empty ? -INFINITY : (float)dice_between(dice, -9, 9);
            total[r] += exp(lse[s][r]);
        }
        output[s][i] = isinf(lse[s][r]) ? 0 : (float)dice_between(dice, -2, 2);
        sum[i] += exp(lse[s][r]) * output[s][i];
    }
    kvmill_merge_partials(SLICES, outputs, lses, ROWS, DIM, output[0], lse[0]);
    for (int i = 0; i < ROWS * DIM; i++)
        good = good && fabs(output[0][i] - sum[i] / total[i / DIM]) < 2e-6 &&
               fabs(lse[0][i / DIM] - log(total[i / DIM])) < 2e-6;
    return good;
}

TEST(merge) {
    struct dice dice = dice_for("merge");
    bool good = true;
    for (int i = 0; good && i < 200; i++)
        good = merge_slices(&dice);
    ok(good, "partial results over slices of the keys merge to the whole");
}

/* ---- All cases ---- */

TEST(coverage) {
    if (!is_slow_run())
        expect_seen("no tokens; pages; a mask; strides; eight threads; wrapped rings; "
                    "causal chunks that replace what they see; chunks longer than the ring");
}
