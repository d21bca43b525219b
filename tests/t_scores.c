/* Kernels that score and select pages, of all linked packs and the portable ones: bit for bit the
   sums in the order that kvmill_kernel.h says, and the result of sorting.

   SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>

#include "../runtime/core/numbers.h"
#include "../runtime/portable/portable.h"
#include "common.h"
#include "packs.h"

/* ---- Expected scores ---- */

static float add_lanes(float lane[16]) {
    for (int apart = 8; apart > 0; apart /= 2)
        for (int l = 0; l < apart; l++)
            lane[l] = lane[l] + lane[l + apart];
    return lane[0];
}

static int fields_of(const struct kvmill_score_shape *shape) {
    return shape->kind == KVMILL_SCORE_BOUND ? 2 : 1;
}

/* Returns the score for the sum of a head's products. */
static float expected_score(const struct kvmill_score_pages *p, int64_t head, float sum) {
    int32_t kind = p->shape->kind;
    if ((kind == KVMILL_SCORE_POSITIVE || kind == KVMILL_SCORE_INDEXER) && !(sum > 0))
        sum = 0;
    volatile float weighted = kind >= KVMILL_SCORE_WEIGHTED ? sum * p->weight[head] : sum;
    return weighted;
}

static float expected_sum(const struct kvmill_score_pages *p, int64_t page, int64_t head,
                          int64_t block) {
    const struct kvmill_score_shape *shape = p->shape;
    float lane[16] = {0};
    for (int64_t i = 0; i < shape->dim; i++) {
        volatile float term[2]; /* so that no product is fused with the sum */
        for (int f = 0; f < fields_of(shape); f++)
            term[f] = p->query[head * shape->dim + i] *
                      kvmill_load_float(shape->element, p->field[f] + page * p->stride,
                                        block * shape->dim + i);
        bool first = shape->kind != KVMILL_SCORE_BOUND || term[0] > term[1];
        lane[i % 16] = lane[i % 16] + (first ? term[0] : term[1]);
    }
    return expected_score(p, head, add_lanes(lane));
}

/* Folds `count` scores with stride `step`. */
static float expected_fold(int32_t by, const float *score, int64_t count, int64_t step,
                           bool lanes) {
    float largest = score[0], lane[16] = {0};
    for (int64_t i = 0; i < count; i++) {
        float x = score[i * step];
        largest = x > largest ? x : largest;
        lane[lanes ? i % 16 : 0] = lane[lanes ? i % 16 : 0] + x;
    }
    float sum = add_lanes(lane);
    return by == KVMILL_FOLD_MAX ? largest : by == KVMILL_FOLD_SUM ? sum : sum / (float)count;
}

/* Computes the scores of a page, [rows, columns]; returns how many are left after folding. */
static int64_t expected_page(const struct kvmill_score_pages *p, int64_t page, float *score) {
    const struct kvmill_score_shape *shape = p->shape;
    bool dot = shape->kind != KVMILL_SCORE_BOUND;
    int64_t rows = dot ? shape->blocks : shape->heads, columns = dot ? shape->heads : shape->blocks;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            score[r * columns + c] = expected_sum(p, page, dot ? c : r, dot ? r : c);
    for (int f = 0; f < shape->folds; f++) {
        const struct kvmill_score_fold *fold = &shape->fold[f];
        if (!dot) {
            score[0] = expected_fold(fold->by, score, rows * columns, 1, false);
            rows = columns = 1;
        } else if (fold->over == KVMILL_FOLD_HEADS) {
            for (int64_t r = 0; r < rows; r++)
                score[r] = expected_fold(fold->by, score + r * columns, columns, 1, true);
            columns = 1;
        } else {
            for (int64_t c = 0; c < columns; c++)
                score[c] = expected_fold(fold->by, score + c, rows, columns, false);
            rows = 1;
        }
    }
    return rows * columns;
}

/* ---- Fields in which only listed pages can be read ---- */

enum { TRAP = 4096 };

struct field {
    unsigned char *memory, *base; /* base: of page 0 */
    size_t size;
};

/* Makes a pool of pages, each at the end or at the beginning of its own memory. */
static int64_t field_open(struct field *field, int64_t pool, int64_t bytes, bool at_end) {
    int64_t room = (bytes + TRAP - 1) / TRAP * TRAP, stride = room + TRAP;
    field->size = (size_t)(pool * stride + TRAP);
    field->memory =
        mmap(NULL, field->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(field->memory != MAP_FAILED, "no memory");
    field->base = field->memory + TRAP + (at_end ? room - bytes : 0);
    return stride;
}

static void field_protect(const struct field *field, int64_t pool, int64_t stride,
                          const bool *listed) {
    mprotect(field->memory, TRAP, PROT_NONE);
    for (int64_t p = 0; p < pool; p++) {
        unsigned char *at = field->memory + TRAP + p * stride;
        mprotect(at + stride - TRAP, TRAP, PROT_NONE);
        if (!listed[p])
            mprotect(at, (size_t)(stride - TRAP), PROT_NONE);
    }
}

/* ---- Numbers ---- */

static float random_number(struct dice *dice, int strange) {
    static const float rare[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 60000.0f};
    if (strange > 0 && dice_once_in(dice, strange))
        return rare[dice_range(dice, 0, 7)];
    return (float)dice_range(dice, -100000, 100000) / (float)dice_range(dice, 1, 30000);
}

static void fill_page(unsigned char *page, int element, int64_t count, struct dice *dice,
                      int strange) {
    for (int64_t i = 0; i < count; i++)
        kvmill_store_float(element, page, i, random_number(dice, strange));
}

/* Sets one channel of all rows. */
static void put_column(unsigned char *rows, int element, int64_t count, int64_t dim, float number) {
    for (int64_t r = 0; r < count; r++)
        kvmill_store_float(element, rows, r * dim + 5 % dim, number);
}

/* Returns `count` numbers of four bytes that end or begin where memory does. */
static void *open_numbers(struct fence *fence, int64_t count, bool at_end, struct dice *dice) {
    fence_open(fence, (size_t)count * 4, FENCE_FLUSH, at_end ? FENCE_ABOVE : FENCE_BELOW, dice);
    return fence->data;
}

/* ---- A problem ---- */

struct scene {
    struct kvmill_score_pages problem;
    struct field field[2];
    struct fence query, weight, ids, score;
    int64_t pool, left;
    bool *listed;
    bool meets; /* zeros of the query meet infinities of fields */
};

static void open_ids(struct scene *scene, int64_t pages, struct dice *dice) {
    int32_t *ids = open_numbers(&scene->ids, pages, dice_once_in(dice, 2), dice);
    scene->listed = take(scene->pool, sizeof *scene->listed);
    for (int64_t i = 0; i < pages; i++) {
        ids[i] = (int32_t)dice_range(dice, 0, scene->pool - 1);
        scene->listed[ids[i]] = true;
    }
    scene->problem.ids = ids;
    scene->problem.pages = pages;
}

static void open_fields(struct scene *scene, struct dice *dice, int strange) {
    const struct kvmill_score_shape *shape = scene->problem.shape;
    int64_t count = (int64_t)shape->blocks * shape->dim;
    int64_t bytes = count * kvmill_format_parts(shape->element)->bits / 8;
    bool at_end = dice_once_in(dice, 2);
    for (int f = 0; f < fields_of(shape); f++) {
        scene->problem.stride = field_open(&scene->field[f], scene->pool, bytes, at_end);
        scene->problem.field[f] = scene->field[f].base;
        for (int64_t p = 0; p < scene->pool; p++) {
            unsigned char *page = scene->field[f].base + p * scene->problem.stride;
            fill_page(page, shape->element, count, dice, strange);
            if (scene->meets && dice_once_in(dice, 2)) {
                int64_t first = dice_range(dice, 0, shape->blocks - 1);
                put_column(page + bytes / shape->blocks * first, shape->element,
                           shape->blocks - first, shape->dim, INFINITY);
            }
        }
        field_protect(&scene->field[f], scene->pool, scene->problem.stride, scene->listed);
    }
}

/* Shortens numbers to few bits, so that products may be exact; some become zero. */
static void shorten(unsigned char *query, int64_t count, int element, struct dice *dice) {
    for (int64_t i = 0; i < count; i++) {
        float number = kvmill_round_as(element, kvmill_load_float(KVMILL_F32, query, i));
        kvmill_store_float(KVMILL_F32, query, i, dice_once_in(dice, 8) ? 0 : number);
    }
}

static void open_query(struct scene *scene, struct dice *dice, int strange) {
    const struct kvmill_score_shape *shape = scene->problem.shape;
    int64_t count = (int64_t)shape->heads * shape->dim;
    scene->problem.query = open_numbers(&scene->query, count, dice_once_in(dice, 2), dice);
    fill_page(scene->query.data, KVMILL_F32, count, dice, strange);
    if (dice_once_in(dice, 2))
        shorten(scene->query.data, count, dice_once_in(dice, 2) ? KVMILL_F16 : KVMILL_BF16, dice);
    if (scene->meets)
        put_column(scene->query.data, KVMILL_F32, shape->heads, shape->dim, 0);
}

/* Opens weights, or NULL for a kind without weights. */
static void open_weight(struct scene *scene, struct dice *dice, int strange) {
    bool has = scene->problem.shape->kind >= KVMILL_SCORE_WEIGHTED;
    int64_t count = has ? scene->problem.shape->heads : 0;
    float *weight = open_numbers(&scene->weight, count, dice_once_in(dice, 2), dice);
    fill_page(scene->weight.data, KVMILL_F32, count, dice, strange);
    scene->problem.weight = has ? weight : NULL;
}

static void scene_open(struct scene *scene, const struct kvmill_score_shape *shape,
                       struct dice *dice) {
    static const int strange[] = {0, 0, 3, 50, 1000};
    int rare = strange[dice_range(dice, 0, 4)], of_query = strange[dice_range(dice, 0, 4)];
    int64_t pages = dice_once_in(dice, 3) ? dice_range(dice, 0, 3) : dice_range(dice, 0, 100);
    float page[KVMILL_MOST_PAGE_SCORES];
    *scene = (struct scene){.problem = {.shape = shape}, .pool = dice_range(dice, 1, 12)};
    scene->meets = dice_once_in(dice, 3);
    open_ids(scene, pages, dice);
    open_fields(scene, dice, scene->meets ? 0 : rare);
    open_query(scene, dice, scene->meets ? 0 : of_query);
    open_weight(scene, dice, of_query);
    scene->left = 0;
    if (pages > 0)
        scene->left = expected_page(&scene->problem, scene->problem.ids[0], page);
    scene->problem.score = open_numbers(&scene->score, pages * scene->left, true, dice);
}

static void scene_close(struct scene *scene) {
    for (int f = 0; f < fields_of(scene->problem.shape); f++)
        munmap(scene->field[f].memory, scene->field[f].size);
    fence_close(&scene->query);
    fence_close(&scene->weight);
    fence_close(&scene->ids);
    fence_close(&scene->score);
    free(scene->listed);
}

/* Whether the bits are equal; any NaN equals any other. */
static bool same(float a, float b) {
    return (a != a && b != b) || kvmill_bits_of_float(a) == kvmill_bits_of_float(b);
}

/* Runs the pages in two runs in any order; scores of other pages must stay. */
static bool are_runs_right(struct scene *scene, const struct kvmill_kernel *kernel,
                           struct dice *dice) {
    const struct kvmill_score_pages *p = &scene->problem;
    float wanted[KVMILL_MOST_PAGE_SCORES];
    int64_t middle = dice_range(dice, 0, p->pages);
    FREED unsigned char *before = take((int64_t)scene->score.size, 1);
    memcpy(before, scene->score.data, scene->score.size);
    kernel->run(p, middle, p->pages);
    bool right = memcmp(before, p->score, (size_t)(middle * scene->left) * sizeof(float)) == 0;
    kernel->run(p, 0, middle);
    for (int64_t u = 0; u < p->pages && right; u++) {
        int64_t left = expected_page(p, p->ids[u], wanted);
        for (int64_t i = 0; i < left && right; i++) {
            float found = p->score[u * left + i];
            right = same(found, wanted[i]);
            if (!right)
                diag("page %" PRId64 " of %" PRId64 ", score %" PRId64 ": %.9g, wanted %.9g", u,
                     p->pages, i, found, wanted[i]);
        }
    }
    return right && fence_is_intact(&scene->score, NULL);
}

static bool is_score_kernel_right(const struct kvmill_kernel *kernel,
                                  const struct kvmill_score_shape *shape, struct dice *dice) {
    bool right = true;
    fence_explain_traps(kernel->symbol);
    for (int i = 0; i < (is_slow_run() ? few_cases(12) : 40) && right; i++) {
        OWN(scene_close) struct scene scene;
        scene_open(&scene, shape, dice);
        right = are_runs_right(&scene, kernel, dice);
    }
    return right;
}

/* ---- Selection ---- */

static float random_score(struct dice *dice, int64_t kinds) {
    static const float rare[] = {NAN,   INFINITY, -INFINITY, -1e30f, 0.0f,
                                 -0.0f, 1e-45f,   -1e-45f,   3e38f,  -3e38f};
    if (dice_once_in(dice, 12))
        return rare[dice_range(dice, 0, 9)];
    return (float)dice_range(dice, -kinds, kinds) / 8;
}

struct ranked {
    float score;
    int32_t page;
};

static int compare_ranked(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->page < y->page ? -1 : x->page > y->page;
}

static int32_t *expected_list(const float *score, int64_t count, int64_t wanted) {
    FREED struct ranked *ranked = take(count, sizeof *ranked);
    int32_t *list = take(wanted, sizeof *list), *end = list;
    FREED bool *chosen = take(count, sizeof *chosen);
    for (int64_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){score[i] == score[i] ? score[i] : -INFINITY, (int32_t)i};
    qsort(ranked, (size_t)count, sizeof *ranked, compare_ranked);
    for (int64_t i = 0; i < wanted; i++)
        chosen[ranked[i].page] = true;
    for (int32_t page = 0; page < count; page++)
        if (chosen[page])
            *end++ = page;
    return list;
}

static bool is_selection_right(const struct kvmill_kernel *kernel, const float *score,
                               int64_t count, int64_t wanted, struct dice *dice) {
    OWN(fence_close) struct fence scores, list, keys;
    struct kvmill_select_pages problem = {.count = count, .wanted = wanted};
    problem.score = open_numbers(&scores, count, true, dice);
    problem.list = open_numbers(&list, wanted, true, dice);
    problem.keys = open_numbers(&keys, count + KVMILL_SELECT_PADDING, true, dice);
    memcpy(scores.data, score, scores.size);
    FREED int32_t *expected = expected_list(score, count, wanted);
    kernel->run(&problem, 0, 1);
    return (memcmp(list.data, expected, list.size) == 0 && fence_is_intact(&list, NULL) &&
            fence_is_intact(&keys, NULL)) ||
           diag("%" PRId64 " of %" PRId64, wanted, count);
}

static bool are_random_selections_right(const struct kvmill_kernel *kernel, struct dice *dice) {
    bool right = true;
    for (int i = 0; i < (is_slow_run() ? few_cases(40) : 800) && right; i++) {
        int64_t count = dice_range(dice, 0, i % 40 == 0 ? 20000 : i % 8 == 0 ? 3000 : 90);
        int64_t ends[] = {
            0, 1, count - 1, count, dice_range(dice, 0, count), dice_range(dice, 0, count / 8)};
        int64_t wanted = ends[dice_range(dice, 0, 5)];
        int64_t kinds = dice_once_in(dice, 2) ? 0 : dice_range(dice, 1, 100000);
        FREED float *score = take(count, sizeof *score);
        for (int64_t n = 0; n < count; n++)
            score[n] = random_score(dice, kinds == 0 ? dice_range(dice, 0, 3) : kinds);
        wanted = wanted < 0 ? 0 : wanted > count ? count : wanted;
        right = is_selection_right(kernel, score, count, wanted, dice);
    }
    return right;
}

enum { DECIDED = 5000, ALIKE = 7, SIGNS = ALIKE, RISES, FALLS, SAMPLED, DECISIONS };

/* Returns a score of a row: the same for all pages; zeros of both signs; a rising row; a falling
   one; or one in which a sample of the pages is above all others. */
static float decided_score(int kind, int64_t i) {
    static const float alike[ALIKE] = {NAN, INFINITY, -INFINITY, -1e30f, 0.0f, -0.0f, 1};
    int64_t n = (i * 256 + DECIDED - 1) / DECIDED;
    if (kind < ALIKE)
        return alike[kind];
    if (kind == SIGNS)
        return i % 2 ? 0.0f : -0.0f;
    return (float)(kind == FALLS                               ? -i
                   : kind == SAMPLED && n * DECIDED / 256 == i ? DECIDED + n
                                                               : i);
}

static bool are_decided_selections_right(const struct kvmill_kernel *kernel, struct dice *dice) {
    int64_t longest = is_slow_run() ? few_cases(30000) : 600000;
    FREED float *score = take(longest, sizeof *score);
    bool right = true;
    for (int kind = 0; kind < DECISIONS && right; kind++) {
        for (int64_t i = 0; i < DECIDED; i++)
            score[i] = decided_score(kind, i);
        right = is_selection_right(kernel, score, 17, 16, dice);
        for (int64_t wanted = 77; wanted < 1000 && right; wanted *= 3)
            right = is_selection_right(kernel, score, DECIDED, wanted, dice);
    }
    for (int64_t i = 0; i < longest; i++)
        score[i] = (float)dice_range(dice, -1000000, 1000000);
    right = right && is_selection_right(kernel, score, longest, longest / 16, dice);
    return right;
}

static bool is_select_kernel_right(const struct kvmill_kernel *kernel, struct dice *dice) {
    fence_explain_traps(kernel->symbol);
    return are_random_selections_right(kernel, dice) && are_decided_selections_right(kernel, dice);
}

/* ---- All kernels ---- */

static void test_kernel(const struct kvmill_kernel *kernel) {
    struct dice dice = dice_for_kernel(kernel), again = dice;
    bool selects = kernel->family == KVMILL_SELECT_PAGES;
    if (!selects && kernel->family != KVMILL_SCORE_PAGES)
        return;
    if (isa_is_allowed(kernel->isa)) {
        ok(selects ? is_select_kernel_right(kernel, &dice)
                   : is_score_kernel_right(kernel, kernel->shape, &dice),
           "%s", kernel->symbol);
        kernel_ran(kernel);
    }
    if (!selects && strcmp(kernel->isa, "scalar") == 0)
        ok(is_score_kernel_right(&kvmill_portable_score_pages, kernel->shape, &again),
           "the portable kernel on %s", kernel->symbol);
}

TEST(packs) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++)
        test_kernel(kernel);
}

/* Shapes that no pack needs to contain. */
TEST(portable) {
    static const int32_t elements[] = {KVMILL_F32, KVMILL_F16, KVMILL_BF16, KVMILL_E4M3,
                                       KVMILL_E5M2};
    struct dice dice = dice_for("portable");
    bool right = true;
    for (int i = 0; i < 60 && right; i++) {
        struct kvmill_score_shape shape = {
            .kind = (int32_t)dice_range(&dice, KVMILL_SCORE_DOT, KVMILL_SCORE_INDEXER),
            .element = elements[dice_range(&dice, 0, 4)],
            .dim = (int32_t)dice_range(&dice, 1, i % 6 == 0 ? 700 : 90),
            .heads = (int32_t)dice_range(&dice, 2, i % 5 == 0 ? 40 : 6),
            .blocks = (int32_t)dice_range(&dice, 2, 6),
            .folds = (int32_t)dice_range(&dice, 0, 2),
        };
        for (int f = 0; f < 2; f++)
            shape.fold[f].by = (int32_t)dice_range(&dice, 1, 3);
        shape.fold[0].over = (int32_t)dice_range(&dice, 1, 2);
        shape.fold[1].over = 3 - shape.fold[0].over;
        if (shape.kind == KVMILL_SCORE_BOUND) {
            shape.folds = shape.folds > 0;
            shape.fold[0].over = KVMILL_FOLD_HEADS | KVMILL_FOLD_BLOCKS;
        }
        right = is_score_kernel_right(&kvmill_portable_score_pages, &shape, &dice);
    }
    ok(right, "the portable kernel on random shapes");
    ok(is_select_kernel_right(&kvmill_portable_select_pages, &dice), "portable selection");
}
