/* SCORE_PAGES for every shape: the ops of flows, on a piece of a row at a time.

   SPDX-License-Identifier: Apache-2.0 */
#include "../core/lanes.h"
#include "../core/numbers.h"
#include "../flow/flow_portable.h"
#include "portable.h"

/* Elements that are converted together: a multiple of LANES. */
enum { PIECE = 256 };

struct piece {
    int64_t first, count;
    float field[2][PIECE];
};

/* ---- Scores of one block ---- */

static void load_piece(const struct kvmill_score_pages *problem, int64_t page, int64_t block,
                       struct piece *piece) {
    const struct kvmill_score_shape *shape = problem->shape;
    piece->count = kvmill_min(PIECE, shape->dim - piece->first);
    for (int f = 0; f < (shape->kind == KVMILL_SCORE_BOUND ? 2 : 1); f++)
        for (int64_t i = 0; i < piece->count; i++)
            piece->field[f][i] =
                kvmill_load_float(shape->element, problem->field[f] + page * problem->stride,
                                  block * shape->dim + piece->first + i);
}

static void add_bounds(float lane[LANES], const float *query, const struct piece *piece) {
    for (int64_t i = 0; i < piece->count; i++) {
        float first = query[i] * piece->field[0][i], second = query[i] * piece->field[1][i];
        lane[i % LANES] += first > second ? first : second;
    }
}

static void add_piece(const struct kvmill_score_pages *problem, const struct piece *piece,
                      float lane[][LANES]) {
    const struct kvmill_score_shape *shape = problem->shape;
    for (int64_t h = 0; h < shape->heads; h++) {
        const float *query = problem->query + h * shape->dim + piece->first;
        if (shape->kind == KVMILL_SCORE_BOUND)
            add_bounds(lane[h], query, piece);
        else
            add_products(lane[h], query, piece->field[0], piece->count);
    }
}

static bool is_positive(int32_t kind) {
    return kind == KVMILL_SCORE_POSITIVE || kind == KVMILL_SCORE_INDEXER;
}

static bool is_weighted(int32_t kind) {
    return kind == KVMILL_SCORE_WEIGHTED || kind == KVMILL_SCORE_INDEXER;
}

static float head_score(const struct kvmill_score_pages *problem, int64_t head, float sum) {
    int32_t kind = problem->shape->kind;
    float score = is_positive(kind) && !(sum >= 0) ? 0 : sum;
    return is_weighted(kind) ? score * problem->weight[head] : score;
}

/* For each head; heads are `step` apart. */
static void score_block(const struct kvmill_score_pages *problem, int64_t page, int64_t block,
                        float *score, int64_t step) {
    const struct kvmill_score_shape *shape = problem->shape;
    float lane[KVMILL_MOST_PAGE_SCORES][LANES];
    struct piece piece;
    memset(lane, 0, (size_t)shape->heads * sizeof *lane);
    for (piece.first = 0; piece.first < shape->dim; piece.first += PIECE) {
        load_piece(problem, page, block, &piece);
        add_piece(problem, &piece, lane);
    }
    for (int64_t h = 0; h < shape->heads; h++)
        score[h * step] = head_score(problem, h, add_lanes(lane[h]));
}

/* ---- Folds ---- */

/* The scores of a page, and how many are left of them. */
struct scores {
    float score[KVMILL_MOST_PAGE_SCORES];
    int64_t rows, columns;
};

static struct scores score_page(const struct kvmill_score_pages *problem, int64_t page) {
    const struct kvmill_score_shape *shape = problem->shape;
    bool dot = shape->kind != KVMILL_SCORE_BOUND;
    struct scores scores;
    scores.rows = dot ? shape->blocks : shape->heads * shape->blocks;
    scores.columns = dot ? shape->heads : 1;
    for (int64_t b = 0; b < shape->blocks; b++)
        score_block(problem, page, b, scores.score + (dot ? b * shape->heads : b),
                    dot ? 1 : shape->blocks);
    return scores;
}

/* Heads are along columns, except for bounds. */
static void fold(const struct kvmill_score_shape *shape, int number, struct scores *scores) {
    static const int codes[] = {[KVMILL_FOLD_MAX] = KVMILL_FLOW_MAX,
                                [KVMILL_FOLD_MEAN] = KVMILL_FLOW_MEAN,
                                [KVMILL_FOLD_SUM] = KVMILL_FLOW_SUM};
    bool columns =
        shape->kind != KVMILL_SCORE_BOUND && shape->fold[number].over == KVMILL_FOLD_HEADS;
    const struct scores before = *scores;
    const struct kvmill_flow_step step = {.code = codes[shape->fold[number].by],
                                          .dims = columns ? 1u << 2 : 1u << 1};
    scores->rows = columns ? before.rows : 1;
    scores->columns = columns ? 1 : before.columns;
    const struct flow_eval eval = {.step = &step,
                                   .in = {{before.score, before.rows, before.columns}},
                                   .rows = scores->rows,
                                   .columns = scores->columns,
                                   .out = scores->score};
    kvmill_flow_eval(&eval);
}

static void run_score(const void *pointer, int64_t first, int64_t last) {
    const struct kvmill_score_pages *problem = pointer;
    for (int64_t u = first; u < last; u++) {
        struct scores scores = score_page(problem, problem->ids[u]);
        for (int i = 0; i < problem->shape->folds; i++)
            fold(problem->shape, i, &scores);
        int64_t left = scores.rows * scores.columns;
        memcpy(problem->score + u * left, scores.score, (size_t)left * sizeof(float));
    }
}

const struct kvmill_kernel kvmill_portable_score_pages = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SCORE_PAGES,
    .symbol = "kvmill_score_pages__portable",
    .isa = "portable",
    .run = run_score,
};
