/* Tests the errors of every attention kernel of every linked pack: for usual data; for queries with
   one element that is much larger than the others; and for inputs that a search has made as bad as
   it could.  tests/oracle/query.c has the bounds, which kvmill(3) states.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "kernel_problem.h"
#include "packs.h"

enum { KINDS = KVMILL_MATH_FAST + 1, SIDES = 2 };

static const char *const kinds[KINDS] = {"f32", "near", "fast"};

/* The largest errors that were seen, by kind of arithmetic. */
static struct errors worst_seen[KINDS];

static void see(int math, struct errors errors) {
    worst_seen[math].of_bound = fmax(worst_seen[math].of_bound, errors.of_bound);
    worst_seen[math].of_largest = fmax(worst_seen[math].of_largest, errors.of_largest);
}

static void report_seen(const char *what) {
    for (int math = 0; math < KINDS; math++)
        diag("%s, %s: errors up to %.2g of the bound, %.2g of the largest output", what,
             kinds[math], worst_seen[math].of_bound, worst_seen[math].of_largest);
    memset(worst_seen, 0, sizeof worst_seen);
}

/* ---- Data ---- */

static double normal(struct dice *dice) {
    double size = sqrt(-2 * log(dice_between(dice, 0x1p-53, 1)));
    return size * cos(dice_between(dice, 0, 2 * acos(-1)));
}

static void put_query(struct kernel_problem *p, int64_t r, int64_t d, double x) {
    oracle_put(p->activation, p->query.data, r * p->shape->key.dim + d, x);
}

static void write_normal(struct kernel_problem *p, struct rows *rows, struct dice *dice) {
    double x[MOST_DIM];
    for (int64_t t = 0; t < p->count; t++) {
        for (int64_t d = 0; d < rows->side.dim; d++)
            x[d] = normal(dice);
        kernel_problem_write(p, rows, t, x);
    }
}

/* Opens a problem whose rows see all positions, with normally distributed queries, keys and values;
   those of scores are `loud` times as large. */
static void open_normal(struct kernel_problem *p, const struct kvmill_kernel *kernel, double loud,
                        struct dice *dice) {
    kernel_problem_open(p, kernel, USUAL, dice);
    p->scale = loud / sqrt((double)p->shape->key.dim);
    write_normal(p, &p->key, dice);
    write_normal(p, &p->value, dice);
    for (int64_t r = 0; r < p->rows; r++) {
        p->row[r].last = p->count;
        for (int64_t d = 0; d < p->shape->key.dim; d++)
            put_query(p, r, d, normal(dice));
    }
}

/* Leaves few positions, so that many cases take little time. */
static void see_few(struct kernel_problem *p) {
    enum { FEW_POSITIONS = 12 };
    p->count = p->count < FEW_POSITIONS ? p->count : FEW_POSITIONS;
    for (int64_t r = 0; r < p->rows; r++)
        p->row[r].last = p->count;
}

/* Whether all rows have errors within the bound and the figure for usual data. */
static bool rows_are_right(const struct kernel_problem *p, struct errors *worst) {
    *worst = (struct errors){0, 0};
    for (int64_t r = 0; r < p->rows; r++) {
        struct errors errors = kernel_problem_errors(p, r, false);
        worst->of_bound = fmax(worst->of_bound, errors.of_bound);
        worst->of_largest = fmax(worst->of_largest, errors.of_largest);
    }
    see(p->shape->math, *worst);
    return worst->of_bound <= 1 && worst->of_largest <= oracle_usual_error(p->shape->math);
}

static bool explain(const char *what, struct errors errors) {
    return diag("%s: %.2g of the bound, %.2g of the largest output", what, errors.of_bound,
                errors.of_largest);
}

/* ---- Usual data ---- */

static bool is_usual(const struct kvmill_kernel *kernel, struct dice *dice) {
    bool right = true;
    for (double loud = 0.5; loud <= 2; loud *= 2) {
        OWN(kernel_problem_close) struct kernel_problem p;
        struct errors errors;
        open_normal(&p, kernel, loud, dice);
        kernel_problem_run(kernel, &p, (struct next){0});
        if (!rows_are_right(&p, &errors))
            right = explain("usual data", errors);
    }
    return right;
}

/* ---- One element that is much larger than the others ---- */

/* Queries with a large number x: row r has it in element `first` + r % count, where keys are 0. */
struct large {
    int64_t first, count;
    double x;
};

static bool is_large(const struct large *large, int64_t dim, int64_t r, int64_t d) {
    return d == (large->first + r % large->count) % dim;
}

static void put_large(struct kernel_problem *p, const struct large *large, struct dice *dice) {
    double key[MOST_DIM];
    int64_t dim = p->shape->key.dim;
    for (int64_t t = 0; t < p->count; t++) {
        for (int64_t d = 0; d < dim; d++)
            key[d] = (d - large->first + dim) % dim < large->count ? 0 : normal(dice);
        kernel_problem_write(p, &p->key, t, key);
    }
    for (int64_t r = 0; r < p->rows; r++)
        for (int64_t d = 0; d < dim; d++)
            put_query(p, r, d, is_large(large, dim, r, d) ? large->x : normal(dice));
}

static bool is_right_with(const struct kvmill_kernel *kernel, struct kernel_problem *p,
                          const struct large *large, struct dice *dice) {
    struct errors errors;
    put_large(p, large, dice);
    kernel_problem_run(kernel, p, (struct next){0});
    if (rows_are_right(p, &errors))
        return true;
    diag("elements %" PRId64 " to %" PRId64 " are %g", large->first,
         large->first + large->count - 1, large->x);
    return explain("large elements", errors);
}

/* Each element of a group in turn; the first ones with all positions, which may be several blocks.
 */
static bool is_right_with_large(const struct kvmill_kernel *kernel, struct dice *dice) {
    static const double numbers[] = {1000, 65504, 1e7, -1e7, 1e30, 300};
    OWN(kernel_problem_close) struct kernel_problem p;
    open_normal(&p, kernel, 1, dice);
    int64_t dim = p.shape->key.dim, group = oracle_group_of(&p.key.side);
    int64_t count = p.rows < dim / 4 ? p.rows : (dim + 3) / 4, runs = 0;
    bool differs = oracle_has_minimum(p.key.side.type); /* such keys are not 0 beside others */
    for (int64_t i = 0; !differs && i < (group > 0 ? group : 1); i += is_slow_run() ? 97 : count) {
        double x = numbers[runs++ % (int64_t)COUNT(numbers)];
        x = p.activation == ORACLE_F16 ? fmax(fmin(x, 65504), -65504) : x;
        if (!is_right_with(kernel, &p, &(struct large){i, count, x}, dice))
            return false;
        see_few(&p);
    }
    return true;
}

/* ---- A search for the largest error ---- */

/* Row 0 of a problem with few positions, as numbers: the query, then a key and a value for each
   position. */
struct search {
    struct kernel_problem p;
    const struct kvmill_kernel *kernel;
    double *numbers;
    int64_t count; /* of the numbers */
};

/* Limits of magnitudes: float16 sums of values must not overflow. */
static const double most_of_query = 3e4, most_of_row = 500;

static void close_search(struct search *s) {
    kernel_problem_close(&s->p);
    free(s->numbers);
}

static void apply(struct search *s) {
    int64_t dim = s->p.shape->key.dim, step = dim + s->p.shape->value.dim;
    for (int64_t d = 0; d < dim; d++)
        put_query(&s->p, 0, d, s->numbers[d]);
    for (int64_t t = 0; t < s->p.count; t++) {
        kernel_problem_write(&s->p, &s->p.key, t, s->numbers + dim + t * step);
        kernel_problem_write(&s->p, &s->p.value, t, s->numbers + dim + t * step + dim);
    }
}

static double error_of(struct search *s) {
    apply(s);
    kernel_problem_run(s->kernel, &s->p, (struct next){0});
    return kernel_problem_errors(&s->p, 0, true).of_bound;
}

static void open_search(struct search *s, const struct kvmill_kernel *kernel, struct dice *dice) {
    s->kernel = kernel;
    open_normal(&s->p, kernel, dice_between(dice, 0.5, 20), dice);
    see_few(&s->p);
    s->count = s->p.shape->key.dim + s->p.count * (s->p.shape->key.dim + s->p.shape->value.dim);
    s->numbers = take(s->count, sizeof *s->numbers);
    for (int64_t i = 0; i < s->count; i++)
        s->numbers[i] = normal(dice);
}

/* Returns a number to try instead of x: a little or much larger or smaller, another sign, or 0. */
static double another(double x, struct dice *dice) {
    switch (dice_range(dice, 0, 5)) {
    case 0:
        return x * (1 + ldexp(normal(dice), (int)-dice_range(dice, 1, 24)));
    case 1:
        return x * exp(3 * normal(dice));
    case 2:
        return -x;
    case 3:
        return dice_once_in(dice, 4) ? 0 : normal(dice);
    case 4:
        return x + normal(dice);
    default:
        return round(x * 127) / 127;
    }
}

/* Changes some numbers of one row, of equal places in all rows, or of all. */
static void change(struct search *s, struct dice *dice) {
    int64_t dim = s->p.shape->key.dim, step = dim + s->p.shape->value.dim;
    int64_t from = dice_range(dice, 0, s->count - 1);
    int64_t by = dice_once_in(dice, 2) ? 1 : step, count = dice_range(dice, 1, 16);
    for (int64_t i = from; i < s->count && i < from + by * count; i += by) {
        double most = i < dim ? most_of_query : most_of_row;
        s->numbers[i] = fmax(fmin(another(s->numbers[i], dice), most), -most);
    }
    if (dice_once_in(dice, 8))
        s->p.scale = fmin(s->p.scale * exp(normal(dice)), 100);
}

/* Climbs: keeps changes that do not make the error smaller, as a share of its bound.  Returns the
   largest one. */
static double climb(struct search *s, int64_t steps, struct dice *dice) {
    FREED double *before = take(s->count, sizeof *before);
    double worst = error_of(s);
    for (int64_t i = 0; i < steps && worst <= 1; i++) {
        double scale = s->p.scale;
        memcpy(before, s->numbers, (size_t)s->count * sizeof *before);
        change(s, dice);
        double error = error_of(s);
        if (error >= worst) {
            worst = error;
            continue;
        }
        s->p.scale = scale;
        memcpy(s->numbers, before, (size_t)s->count * sizeof *before);
    }
    return worst;
}

static bool holds(const struct kvmill_kernel *kernel, struct dice *dice) {
    OWN(close_search) struct search s;
    open_search(&s, kernel, dice);
    double worst = climb(&s, is_slow_run() ? 3 : dice_once_in(dice, 16) ? 1000 : 60, dice);
    see(s.p.shape->math, (struct errors){worst, 0});
    return worst <= 1 || diag("a search found an error of %.3g of its bound", worst);
}

/* ---- Every kernel ---- */

static void each_kernel(const char *words,
                        bool (*is_right)(const struct kvmill_kernel *, struct dice *)) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++) {
        if (kernel->family != KVMILL_ATTEND || !isa_is_allowed(kernel->isa))
            continue;
        struct dice dice = dice_for_kernel(kernel);
        fence_explain_traps(kernel->symbol);
        ok(is_right(kernel, &dice), "%s, %s", kernel->symbol, words);
    }
    report_seen(words);
}

TEST(usual) {
    each_kernel("usual data", is_usual);
}

TEST(large) {
    each_kernel("one large element", is_right_with_large);
}

TEST(search) {
    each_kernel("a search", holds);
}
