/* Tests every kernel of every linked pack that attends: with a case of its own against attention in
   double precision; again with next rows that are NaN, in the same memory and elsewhere; and with
   keys and values that are not finite, for rows that see them and rows that do not.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "kernel_problem.h"
#include "packs.h"

/* ---- Every kernel ---- */

static const struct next nexts[] = {
    {AFTER, false, false}, {0, true, false}, {AFTER, true, false}, {AFTER, true, true}};

/* Whether the bits are the same for any next call. */
static bool repeats(const struct kvmill_kernel *kernel, const struct kernel_problem *p,
                    struct next next) {
    FREED unsigned char *before = malloc(p->output.size);
    memcpy(before, p->output.data, p->output.size);
    memset(p->output.data, 0xff, p->output.size);
    kernel_problem_run(kernel, p, next);
    return memcmp(before, p->output.data, p->output.size) == 0 &&
           fence_is_intact(&p->output, NULL) && fence_is_intact(&p->workspace, NULL);
}

static bool is_right(const struct kvmill_kernel *kernel, enum loudness loudness,
                     struct dice *dice) {
    OWN(kernel_problem_close) struct kernel_problem p;
    kernel_problem_open(&p, kernel, loudness, dice);
    fence_explain_traps(kernel->symbol);
    kernel_problem_run(kernel, &p, (struct next){0});
    bool right = true;
    for (int64_t r = 0; r < p.rows; r++)
        right = right && kernel_problem_errors(&p, r, false).of_bound <= 1;
    for (size_t i = 0; loudness == USUAL && i < COUNT(nexts); i++)
        right = right && repeats(kernel, &p, nexts[i]);
    return right;
}

/* ---- What a row does not see ---- */

static bool has_mask(const struct kernel_problem *p) {
    return (p->shape->terms & KVMILL_TERM_BIAS) != 0;
}

/* Rows see parts of the positions, or all; a mask hides more of them, for some rows all. */
static void hide_some(struct kernel_problem *p, struct dice *dice) {
    int64_t row_bytes = oracle_bytes(p->activation, p->count);
    fence_open(&p->mask, has_mask(p) ? (size_t)(p->rows * row_bytes) : 0, FENCE_FLUSH, FENCE_ABOVE,
               dice);
    bool whole = has_mask(p) && dice_once_in(dice, 2);
    for (int64_t r = 0; r < p->rows; r++) {
        p->row[r].last = whole ? p->count : p->row[r].last;
        p->row[r].first = !whole && dice_once_in(dice, 2) ? dice_range(dice, 0, p->row[r].last) : 0;
        if (!has_mask(p))
            continue;
        int64_t one_in = dice_range(dice, 1, 4);
        p->row[r].mask = p->mask.data + r * row_bytes;
        for (int64_t t = 0; t < p->count; t++)
            oracle_put(p->activation, p->mask.data, r * p->count + t,
                       dice_once_in(dice, one_in) ? -INFINITY : dice_between(dice, -1, 1));
    }
}

static bool sees(const struct kernel_problem *p, int64_t r, int64_t t) {
    return p->row[r].first <= t && t < p->row[r].last &&
           !(has_mask(p) && oracle_get(p->activation, p->mask.data, r * p->count + t) == -INFINITY);
}

/* Whether row r sees one of the `count` positions at which keys or values are not finite. */
static bool sees_poison(const struct kernel_problem *p, int64_t r, const int64_t *at,
                        int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (sees(p, r, at[i]))
            return true;
    return false;
}

/* Whether a row that sees them has the infinities and NaN of values in its output. */
static bool has_poison(const struct kernel_problem *p, int64_t r, const int64_t *at,
                       int64_t count) {
    int64_t dim = p->shape->value.dim;
    double value[MOST_DIM];
    for (int64_t i = 0; i < count; i++) {
        oracle_read_row_exact(&p->value.side, at[i], value);
        for (int64_t d = 0; d < dim && sees(p, r, at[i]); d++)
            if (!isfinite(value[d]) &&
                isfinite(oracle_get(p->activation, p->output.data, r * dim + d)))
                return false;
    }
    return true;
}

/* Whether rows that see nothing of what is not finite have the bits that they have without it, and
   other rows have what they see. */
static bool hides(const struct kvmill_kernel *kernel, bool keys, struct dice *dice) {
    enum { MOST_POISONED = 3 };
    OWN(kernel_problem_close) struct kernel_problem p;
    kernel_problem_open(&p, kernel, USUAL, dice);
    hide_some(&p, dice);
    fence_explain_traps(kernel->symbol);
    kernel_problem_run(kernel, &p, (struct next){0});
    int64_t count = dice_range(dice, 1, MOST_POISONED), at[MOST_POISONED];
    FREED unsigned char *before = malloc(p.output.size);
    memcpy(before, p.output.data, p.output.size);
    for (int64_t i = 0; i < count; i++) {
        at[i] = dice_range(dice, 0, p.count - 1);
        kernel_problem_poison(&p.value, &p.shape->value, p.shape->activation, at[i], dice);
        if (keys)
            kernel_problem_poison(&p.key, &p.shape->key, p.shape->activation, at[i], dice);
    }
    kernel_problem_run(kernel, &p, (struct next){0});
    int64_t bytes = (int64_t)p.output.size / p.rows;
    for (int64_t r = 0; r < p.rows; r++)
        if (sees_poison(&p, r, at, count)
                ? !has_poison(&p, r, at, count)
                : memcmp(before + r * bytes, p.output.data + r * bytes, (size_t)bytes) != 0)
            return false;
    return true;
}

static bool always_hides(const struct kvmill_kernel *kernel, struct dice *dice) {
    enum { TIMES = 6 };
    bool right = true;
    for (int i = 0; i < TIMES; i++)
        right = right && hides(kernel, i % 2 != 0, dice);
    return right;
}

TEST(kernels) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++) {
        if (kernel->family != KVMILL_ATTEND || !isa_is_allowed(kernel->isa))
            continue;
        struct dice dice = dice_for_kernel(kernel);
        ok(is_right(kernel, USUAL, &dice), "%s on a case of its own", kernel->symbol);
        ok(is_right(kernel, LOUD, &dice), "  with scores 30 times as large");
        ok(always_hides(kernel, &dice), "  what a row does not see has no influence on it");
        kernel_ran(kernel);
    }
}
