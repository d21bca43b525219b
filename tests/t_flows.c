/* The portable side of sparse flows against the oracle: pages of rows, selection, summaries,
   scores, for the flows that ship and for every op.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../gen/flow.h"
#include "../runtime/flow/flow.h"
#include "../runtime/portable/portable.h"
#include "fence.h"
#include "flow_index.h"
#include "oracle/cache_attention.h"
#include "oracle/flow.h"
#include "tap.h"

static uint64_t seed;
static char file[] = "/tmp/t_flows.XXXXXX";

static void *take(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (memory == NULL)
        bail_out("out of memory");
    return memory;
}

/* ---- Pages of a row ---- */

static kvmill_flow_select select_of(const struct kvmill_flow_budget *budget) {
    return (kvmill_flow_select){.topk_val = budget->k,
                                .reserved_bos = budget->bos,
                                .reserved_eos = budget->eos,
                                .ratio_numerator = budget->numerator,
                                .ratio_denominator = budget->denominator,
                                .cap = budget->cap};
}

/* What must hold of every row, however its budget was found. */
static bool is_sane(const struct kvmill_flow_budget *budget, int64_t size, int64_t length,
                    const struct flow_row *row) {
    bool pages = row->pages * size >= length && (row->pages - 1) * size < length;
    bool last = row->pages == 0 ? length == 0 && row->last_rows == 0
                                : row->last_rows == length - (row->pages - 1) * size &&
                                      row->last_rows >= 1 && row->last_rows <= size;
    bool kept = row->selected == row->pages || row->selected >= budget->bos + budget->eos;
    return pages && last && kept && row->selected <= row->pages;
}

static void test_rows(void) {
    static const int64_t ratios[][2] = {{0, 0}, {0, 1}, {1, 16}, {1, 3}, {1, 2}, {2, 3}, {1, 1}};
    int64_t cases = 0, wrong = 0;
    for (int64_t size = 1; size <= 5; size++)
        for (int64_t length = 0; length <= 4 * size; length++)
            for (int64_t n = 0; n < 4 * 3 * 3 * 7 * 4; n++) {
                const struct kvmill_flow_budget budget = {
                    n % 4,   n / 4 % 3, n / 12 % 3, ratios[n / 36 % 7][0], ratios[n / 36 % 7][1],
                    n / 252, 0};
                const kvmill_flow_select select = select_of(&budget);
                struct flow_row row = kvmill_flow_row_of(&budget, size, length);
                cases++;
                wrong += !is_sane(&budget, size, length, &row) ||
                         row.selected != oracle_selected(&select, row.pages);
            }
    ok(wrong == 0 && cases > 10000, "%" PRId64 " rows of 0 to 4 pages (%" PRId64 " wrong)", cases,
       wrong);
}

static void test_long_rows(void) {
    struct kvmill_flow_budget budget = {29, 1, 2, 1, 16, 0, 0};
    struct flow_row row = kvmill_flow_row_of(&budget, 1, 600000);
    ok(row.pages == 600000 && row.selected == 37500, "600000 pages, a sixteenth");
    row = kvmill_flow_row_of(&budget, 1, INT32_MAX);
    ok(row.pages == INT32_MAX && row.selected == INT32_MAX / 16, "2^31 - 1 pages");
    budget =
        (struct kvmill_flow_budget){INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, 0, 0};
    row = kvmill_flow_row_of(&budget, 1, INT32_MAX);
    ok(flow_is_whole(&row), "budgets do not overflow");
}

/* ---- Batches ---- */

static struct kvmill_flow_problem small_problem(void) {
    struct kvmill_flow_problem problem = {.budget = {1, 1, 1, 0, 0, 0, 0}};
    problem.geometry.page_size = 4;
    problem.geometry.kv_heads = 3;
    problem.geometry.heads = 6;
    return problem;
}

static bool count_rows(const struct kvmill_flow_problem *problem, const struct flow_batch *batch,
                       int64_t *starts) {
    if (kvmill_flow_check_batch(problem, batch, NULL) != KVMILL_OK)
        return false;
    kvmill_flow_count_rows(problem, batch, starts);
    return true;
}

static void test_batch(void) {
    struct kvmill_flow_problem problem = small_problem();
    const int64_t indptr[] = {0, 2, 2, 7}, length[] = {5, 0, 20};
    const int32_t ids[] = {4, 3, 2, 0, 1, 9, 5};
    const struct flow_batch batch = {3, 10, indptr, ids, length, 7};
    int64_t selected[32];
    static const int64_t wanted[] = {0, 2, 4, 6, 6, 6, 6, 9, 12, 15};
    bool done = count_rows(&problem, &batch, selected);
    ok(done && memcmp(selected, wanted, sizeof wanted) == 0, "lists of three requests, one empty");
    problem.scope = KVMILL_SCOPE_QUERY_HEAD;
    done = count_rows(&problem, &batch, selected);
    ok(done && selected[18] == 30, "of query heads");
    problem.scope = KVMILL_SCOPE_REQUEST;
    done = count_rows(&problem, &batch, selected);
    ok(done && selected[1] == 2 && selected[2] == 2 && selected[3] == 5, "of requests");
    const struct flow_batch none = {0, 10, indptr, ids, length, 7};
    done = count_rows(&problem, &none, selected);
    ok(done && selected[0] == 0, "and of none");
}

static void test_bad_batches(void) {
    static const struct {
        const char *name;
        int64_t indptr[3], length[2];
        int32_t ids[4];
        int64_t pages;
        kvmill_status status;
        const char *what;
    } rows[] = {
        {"a first offset",
         {1, 2, 4},
         {4, 8},
         {0, 1, 2, 3},
         9,
         KVMILL_E_INDEX_RANGE,
         "page_indptr[0] is 1; accepted: 0"},
        {"offsets that fall",
         {0, 2, 1},
         {8, 4},
         {0, 1, 2, 3},
         9,
         KVMILL_E_INDEX_RANGE,
         "page_indptr[2] is 1; accepted: 2 or more"},
        {"a length beyond its pages",
         {0, 1, 4},
         {5, 12},
         {0, 1, 2, 3},
         9,
         KVMILL_E_SHAPE,
         "seq_len[0] is 5, in 1 pages; accepted: 2 pages of 4"},
        {"a length of fewer pages",
         {0, 1, 4},
         {4, 8},
         {0, 1, 2, 3},
         9,
         KVMILL_E_SHAPE,
         "seq_len[1] is 8, in 3 pages"},
        {"a negative length",
         {0, 0, 4},
         {-1, 16},
         {0, 1, 2, 3},
         9,
         KVMILL_E_INDEX_NEGATIVE,
         "seq_len[0] is -1; accepted: 0 or more"},
        {"a negative id",
         {0, 1, 4},
         {4, 12},
         {0, 1, -2, 3},
         9,
         KVMILL_E_INDEX_RANGE,
         "page_ids[2] is -2; accepted: 0 to 8"},
        {"an id beyond the cache",
         {0, 1, 4},
         {4, 12},
         {0, 1, 2, 9},
         9,
         KVMILL_E_INDEX_RANGE,
         "page_ids[3] is 9; accepted: 0 to 8"},
        {"more pages than ids",
         {0, 1, 6},
         {4, 20},
         {0, 1, 2, 3},
         9,
         KVMILL_E_SHAPE,
         "page_indptr[2] is 6; accepted: at most 4, as page_ids has"},
        {"ids beyond 32 bits",
         {0, 1, 4},
         {4, 12},
         {0, 1, 2, 3},
         INT32_MAX / 3 + 1,
         KVMILL_E_OVERFLOW,
         "accepted: less than 2^31"},
    };
    const struct kvmill_flow_problem problem = small_problem();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct flow_batch batch = {2,           rows[i].pages,  rows[i].indptr,
                                         rows[i].ids, rows[i].length, 4};
        kvmill_error error;
        kvmill_status status = kvmill_flow_check_batch(&problem, &batch, &error);
        if (!ok(status == rows[i].status && strstr(error.message, rows[i].what) != NULL,
                "refused: %s", rows[i].name))
            diag("%s: %s", kvmill_status_name(status), error.message);
    }
}

/* ---- Selection ---- */

/* Numbers of a few kinds, so that there are ties; and the strange ones. */
static float random_score(struct dice *dice, int64_t kinds) {
    static const float strange[] = {NAN,   INFINITY, -INFINITY, -1e30f, 0.0f,
                                    -0.0f, 1e-45f,   -1e-45f,   3e38f,  -3e38f};
    if (dice_once_in(dice, 8))
        return strange[dice_range(dice, 0, 9)];
    return (float)dice_range(dice, -kinds, kinds) / 8;
}

/* A list that is not long enough traps. */
static bool is_list_right(const struct kvmill_flow_problem *problem, int64_t pages,
                          const float *score, struct dice *dice) {
    kvmill_flow_select select = select_of(&problem->budget);
    struct flow_row row = kvmill_flow_row_of(&problem->budget, 1, pages);
    struct fence fence;
    int32_t *wanted = take((size_t)pages, sizeof *wanted);
    select.order = problem->by_score ? "score" : NULL;
    fence_open(&fence, (size_t)row.selected * sizeof(int32_t), 0, FENCE_ABOVE, dice);
    int32_t *list = (int32_t *)(void *)fence.data;
    const struct flow_selector selector = {
        NULL, take((size_t)(pages + KVMILL_SELECT_PADDING), sizeof(int32_t))};
    if (flow_is_whole(&row))
        kvmill_flow_list_all(&row, list);
    else
        kvmill_flow_list(problem, &row, &selector, score + problem->budget.bos, list);
    free(selector.keys);
    int64_t where, count = oracle_select(&select, pages, score, wanted);
    bool same = count == row.selected && fence_is_intact(&fence, &where) &&
                memcmp(list, wanted, (size_t)count * sizeof *list) == 0;
    fence_close(&fence);
    free(wanted);
    return same;
}

static void test_lists(void) {
    struct dice dice = dice_for(seed, "lists");
    int wrong = 0, cases = is_slow_run() ? few_cases(300) : 6000;
    float score[400];
    for (int i = 0; i < cases; i++) {
        struct kvmill_flow_problem problem = {.by_score = dice_once_in(&dice, 2)};
        int64_t pages = dice_range(&dice, 0, i % 10 == 0 ? 400 : 12);
        problem.budget =
            (struct kvmill_flow_budget){dice_range(&dice, 0, pages),
                                        dice_range(&dice, 0, 3),
                                        dice_range(&dice, 0, 3),
                                        dice_range(&dice, 0, 1),
                                        4,
                                        dice_once_in(&dice, 4) ? dice_range(&dice, 0, 9) : 0,
                                        0};
        int64_t kinds = dice_range(&dice, 0, 40);
        for (int64_t p = 0; p < pages; p++)
            score[p] = random_score(&dice, kinds);
        wrong += !is_list_right(&problem, pages, score, &dice);
    }
    ok(wrong == 0, "%d random lists (%d wrong)", cases, wrong);
}

/* k from none to all but one, of scores that all tie or all differ. */
static void test_every_k(void) {
    enum { PAGES = 40 };
    struct dice dice = dice_for(seed, "every k");
    float score[3][PAGES];
    for (int p = 0; p < PAGES; p++) {
        score[0][p] = 1;
        score[1][p] = (float)(p * 7 % PAGES);
        score[2][p] = -INFINITY;
    }
    int wrong = 0;
    for (int64_t k = 0; k < PAGES; k++)
        for (int s = 0; s < 6; s++) {
            const struct kvmill_flow_problem problem = {.budget = {k, 0, 1, 0, 0, 0, 0},
                                                        .by_score = s >= 3};
            wrong += !is_list_right(&problem, PAGES, score[s % 3], &dice);
        }
    ok(wrong == 0, "every k of 39 candidates (%d wrong)", wrong);
}

static void test_long_list(void) {
    enum { PAGES = 600000 };
    struct dice dice = dice_for(seed, "long list");
    float *score = take(PAGES, sizeof *score);
    for (int64_t p = 0; p < PAGES; p++)
        score[p] = (float)dice_range(&dice, -100000, 100000);
    for (int by_score = 0; by_score < 2; by_score++) {
        const struct kvmill_flow_problem problem = {.budget = {29, 1, 2, 1, 16, 0, 0},
                                                    .by_score = by_score != 0};
        ok(is_list_right(&problem, PAGES, score, &dice), "37500 of 600000 pages%s",
           by_score ? ", by score" : "");
    }
    free(score);
}

static void test_absolute(void) {
    enum { PAGES = 50, HEADS = 7 };
    struct dice dice = dice_for(seed, "absolute");
    int64_t order[PAGES];
    int32_t ids[PAGES], list[PAGES], absolute[PAGES];
    dice_order(&dice, order, PAGES);
    for (int p = 0; p < PAGES; p++) {
        ids[p] = (int32_t)(order[p] + 1000);
        list[p] = (int32_t)(p * 3 % PAGES);
    }
    bool right = true;
    for (int head = 0; head < HEADS; head++) {
        kvmill_flow_absolute(list, PAGES, ids, HEADS, head, absolute);
        for (int i = 0; i < PAGES; i++)
            right = right && absolute[i] / HEADS == ids[list[i]] && absolute[i] % HEADS == head;
    }
    ok(right, "absolute ids are of pages and heads, and back");
}

/* ---- A cache with pages ---- */

struct scene {
    struct spec_list specs;
    const kvmill_flow *flow;
    struct kvmill_flow_problem problem;
    struct flow_schedule cache_schedule, index_schedule;
    int64_t tokens, pages, pool; /* pool: pages of the cache */
    int32_t *ids;
    struct oracle_side side[2];
    struct fence data[2], scale[2], field[KVMILL_MOST_FLOW_FIELDS], query;
    struct flow_cache cache;
    bool used; /* fields have been written before */
};

static enum oracle_type oracle_type_of(int element) {
    static const enum oracle_type types[] = {
        [KVMILL_F32] = ORACLE_F32,  [KVMILL_F16] = ORACLE_F16, [KVMILL_BF16] = ORACLE_BF16,
        [KVMILL_I8] = ORACLE_I8,    [KVMILL_I4] = ORACLE_I4,   [KVMILL_Q8_0] = ORACLE_Q8_0,
        [KVMILL_Q4_0] = ORACLE_Q4_0};
    return types[element];
}

/* Heads together, or apart; 0xff is NaN in all float types. */
static void open_side(struct scene *scene, int v, struct dice *dice) {
    const struct kvmill_format *format =
        v ? &scene->problem.geometry.value : &scene->problem.geometry.key;
    struct kvmill_cache_rows *rows = v ? &scene->cache.value : &scene->cache.key;
    int64_t slots = scene->pool * scene->problem.geometry.page_size;
    int64_t heads = scene->problem.geometry.kv_heads, bytes = kvmill_format_row_bytes(format);
    int64_t scales = kvmill_format_scale_bytes(format);
    int64_t page = scene->problem.geometry.page_size;
    enum { TOGETHER, APART, IN_PAGES, PLACES } place = (int)dice_range(dice, 0, 1);
    if (v == 0)
        scene->cache.page_rows = dice_once_in(dice, 3) ? page * heads : page;
    if (scene->cache.page_rows != page)
        place = IN_PAGES;
    const int64_t rows_apart[PLACES] = {heads, 1, 1}, heads_apart[PLACES] = {1, slots, page};
    scene->side[v] = (struct oracle_side){oracle_type_of(format->element),
                                          oracle_type_of(format->scale),
                                          format->dim,
                                          format->quant_group,
                                          NULL,
                                          NULL};
    fence_open(&scene->data[v], (size_t)(slots * heads * bytes), 0, FENCE_ABOVE, dice);
    fence_open(&scene->scale[v], (size_t)(slots * heads * scales), 0, FENCE_ABOVE, dice);
    memset(scene->data[v].data, 0xff, scene->data[v].size);
    memset(scene->scale[v].data, 0xff, scene->scale[v].size);
    *rows = (struct kvmill_cache_rows){
        scene->data[v].data,        scales ? scene->scale[v].data : NULL,
        rows_apart[place] * bytes,  heads_apart[place] * bytes,
        rows_apart[place] * scales, heads_apart[place] * scales,
    };
}

/* The oracle's view of one row. */
static struct oracle_side row_of(const struct scene *scene, int v, int64_t slot, int64_t head) {
    const struct kvmill_cache_rows *rows = v ? &scene->cache.value : &scene->cache.key;
    struct oracle_side side = scene->side[v];
    int64_t page = scene->problem.geometry.page_size;
    int64_t row = slot / page * scene->cache.page_rows + slot % page;
    side.data = rows->data + row * rows->row_stride + head * rows->head_stride;
    if (rows->scale != NULL)
        side.scale = rows->scale + row * rows->scale_row_stride + head * rows->scale_head_stride;
    return side;
}

static int64_t slot_of(const struct scene *scene, int64_t token) {
    int64_t size = scene->problem.geometry.page_size;
    return scene->ids[token / size] * size + token % size;
}

/* Eighths: dots of a few are exact in float32, means of sixteen are in float16. */
static double random_number(struct dice *dice) {
    return (double)dice_range(dice, -16, 16) / 8;
}

static void write_tokens(struct scene *scene, struct dice *dice) {
    double numbers[1024];
    for (int64_t t = 0; t < scene->tokens; t++)
        for (int64_t n = 0; n < 2 * scene->problem.geometry.kv_heads; n++) {
            struct oracle_side side = row_of(scene, n % 2, slot_of(scene, t), n / 2);
            for (int64_t i = 0; i < side.dim; i++)
                numbers[i] = random_number(dice);
            oracle_write_row(&side, oracle_type_of(scene->problem.geometry.activation), 0, numbers);
        }
}

static void open_fields(struct scene *scene, struct dice *dice) {
    for (int i = 0; i < scene->problem.field_count; i++) {
        int64_t bytes =
            scene->pool * scene->problem.geometry.kv_heads * scene->problem.fields[i].bytes;
        fence_open(&scene->field[i], (size_t)bytes, 0, FENCE_ABOVE, dice);
        memset(scene->field[i].data, 0xff, scene->field[i].size);
        scene->cache.field[i] = scene->field[i].data;
    }
}

static void open_query(struct scene *scene, struct dice *dice) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    enum oracle_type type = oracle_type_of(geometry->activation);
    int64_t count = geometry->heads * geometry->key.dim;
    fence_open(&scene->query, (size_t)oracle_bytes(type, count), 0, FENCE_ABOVE, dice);
    for (int64_t i = 0; i < count; i++)
        oracle_put(type, scene->query.data, i, random_number(dice));
}

static void scene_open(struct scene *scene, int64_t tokens, struct dice *dice) {
    kvmill_error error;
    scene->flow = flow_of_spec(&scene->specs.items[0]);
    if (kvmill_flow_verify(scene->flow, &scene->problem, &error) != KVMILL_OK)
        bail_out("%s", error.message);
    kvmill_flow_schedule(&scene->problem, KVMILL_CACHE_PROGRAM, &scene->cache_schedule);
    kvmill_flow_schedule(&scene->problem, KVMILL_INDEX_PROGRAM, &scene->index_schedule);
    int64_t size = scene->problem.geometry.page_size;
    scene->tokens = tokens;
    scene->pages = (tokens + size - 1) / size;
    scene->pool = scene->pages + 3;
    int64_t *order = take((size_t)scene->pool, sizeof *order);
    dice_order(dice, order, scene->pool);
    scene->ids = take((size_t)scene->pool, sizeof *scene->ids);
    for (int64_t p = 0; p < scene->pool; p++)
        scene->ids[p] = (int32_t)order[p];
    free(order);
    open_side(scene, 0, dice);
    open_side(scene, 1, dice);
    open_fields(scene, dice);
    open_query(scene, dice);
    write_tokens(scene, dice);
}

static void scene_close(struct scene *scene) {
    for (int v = 0; v < 2; v++) {
        fence_close(&scene->data[v]);
        fence_close(&scene->scale[v]);
    }
    for (int i = 0; i < scene->problem.field_count; i++)
        fence_close(&scene->field[i]);
    fence_close(&scene->query);
    free(scene->ids);
    spec_list_free(&scene->specs);
}

/* ---- What the oracle sees of it ---- */

/* Rows of a page, [rows, dim]. */
static void read_page(const struct scene *scene, int v, int64_t page, int64_t head, int64_t rows,
                      double *numbers) {
    int64_t first = page * scene->problem.geometry.page_size;
    for (int64_t r = 0; r < rows; r++) {
        struct oracle_side side = row_of(scene, v, first + r, head);
        oracle_read_row_exact(&side, 0, numbers + r * side.dim);
    }
}

static int64_t field_elements(const struct scene *scene, int i) {
    return scene->problem.fields[i].rows * scene->problem.fields[i].columns;
}

static const unsigned char *field_at(const struct scene *scene, int i, int64_t page, int64_t head) {
    return scene->field[i].data +
           (page * scene->problem.geometry.kv_heads + head) * scene->problem.fields[i].bytes;
}

static void read_field(const struct scene *scene, int i, int64_t page, int64_t head,
                       double *numbers) {
    for (int64_t e = 0; e < field_elements(scene, i); e++)
        numbers[e] = oracle_get(oracle_type_of(scene->problem.fields[i].element),
                                field_at(scene, i, page, head), e);
}

/* Equal, or as near as float32 sums are; of halves, a unit in the last place. */
static bool is_near(double found, double wanted, double size, double error) {
    return found == wanted || (isnan(found) && isnan(wanted)) ||
           fabs(found - wanted) <= error * (size > fabs(wanted) ? size : fabs(wanted));
}

static double field_error(const struct scene *scene, int i) {
    static const double errors[] = {
        [KVMILL_F32] = 1e-5, [KVMILL_F16] = 0x1p-10, [KVMILL_BF16] = 0x1p-7};
    return errors[scene->problem.fields[i].element];
}

static int64_t element_room(const struct scene *scene) {
    int64_t room = 1;
    for (int i = 0; i < scene->problem.field_count; i++)
        room += field_elements(scene, i);
    return room;
}

/* ---- Summaries ---- */

static bool is_summary_right(const struct scene *scene, int64_t page, int64_t head, int64_t rows) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    double *k = take((size_t)(rows * geometry->key.dim), sizeof *k);
    double *v = take((size_t)(rows * geometry->value.dim), sizeof *v);
    double *wanted = take((size_t)element_room(scene), sizeof *wanted),
           *found = take((size_t)element_room(scene), sizeof *found);
    double *fields[KVMILL_MOST_FLOW_FIELDS];
    bool right = true;
    for (int i = 0, at = 0; i < scene->problem.field_count; i++) {
        fields[i] = wanted + at;
        at += (int)field_elements(scene, i);
    }
    read_page(scene, 0, page, head, rows, k);
    read_page(scene, 1, page, head, rows, v);
    oracle_summarise(scene->flow, rows, k, v, fields);
    for (int i = 0; i < scene->problem.field_count; i++) {
        read_field(scene, i, page, head, found);
        for (int64_t e = 0; e < field_elements(scene, i) && right; e++) {
            right = is_near(found[e], fields[i][e], 0.01, field_error(scene, i));
            if (!right)
                diag("field %d, page %" PRId64 ", head %" PRId64 ", element %" PRId64
                     ": %.9g, wanted %.9g",
                     i, page, head, e, found[e], fields[i][e]);
        }
    }
    free(k);
    free(v);
    free(wanted);
    free(found);
    return right;
}

static bool is_untouched(const struct scene *scene, int64_t page) {
    for (int i = 0; i < scene->problem.field_count; i++)
        for (int64_t b = 0; b < scene->problem.fields[i].bytes * scene->problem.geometry.kv_heads;
             b++)
            if (field_at(scene, i, page, 0)[b] != 0xff)
                return false;
    return true;
}

/* Of `tokens` tokens so far: pages with a summary have the right one, others have none. */
static bool are_summaries_right(const struct scene *scene, int64_t tokens) {
    int64_t size = scene->problem.geometry.page_size;
    for (int64_t p = 0; p < scene->pool; p++) {
        int64_t rows = tokens - p * size > size ? size : tokens - p * size;
        bool told = rows == size || (rows > 0 && scene->problem.incremental);
        if (!told && !scene->used && !is_untouched(scene, scene->ids[p]))
            return false;
        for (int64_t head = 0; told && head < scene->problem.geometry.kv_heads; head++)
            if (!is_summary_right(scene, scene->ids[p], head, rows))
                return false;
    }
    return true;
}

/* Tokens come in chunks; some slots are padding. */
static bool append(struct scene *scene, int64_t most, struct dice *dice) {
    int64_t slot[256];
    float *workspace = take((size_t)kvmill_flow_workspace(&scene->cache_schedule, 0), sizeof(char));
    bool right = true;
    for (int64_t done = 0; right && done < scene->tokens;) {
        int64_t count = 0;
        for (int64_t wanted = dice_range(dice, 1, most); wanted > 0; wanted--)
            if (!dice_once_in(dice, 9) && done < scene->tokens)
                slot[count++] = slot_of(scene, done++);
            else
                slot[count++] = -1;
        const struct flow_tokens tokens = {.slot = slot, .tokens = count};
        kvmill_flow_summarise_span(&scene->problem, &scene->cache_schedule, NULL, &scene->cache,
                                   &tokens, &(struct flow_span){0, count}, workspace);
        if (most < 8 || done == scene->tokens)
            right = are_summaries_right(scene, done);
    }
    free(workspace);
    return right;
}

/* New K and V of all tokens, of which one more is padding. */
struct appended {
    struct flow_tokens tokens;
    struct fence given[2];
    int64_t *slot;
};

enum { PADDING = 32 };

static void appended_open(const struct scene *scene, struct appended *appended, struct dice *dice) {
    enum oracle_type type = oracle_type_of(scene->problem.geometry.activation);
    int64_t heads = scene->problem.geometry.kv_heads;
    appended->tokens = (struct flow_tokens){.tokens = scene->tokens + 1};
    appended->slot = take((size_t)appended->tokens.tokens, sizeof(int64_t));
    for (int64_t t = 0; t < appended->tokens.tokens; t++)
        appended->slot[t] = t == PADDING ? -1 : slot_of(scene, t - (t > PADDING));
    appended->tokens.slot = appended->slot;
    for (int v = 0; v < 2; v++) {
        int64_t row = oracle_bytes(type, scene->side[v].dim);
        int64_t count = appended->tokens.tokens * heads * scene->side[v].dim;
        fence_open(&appended->given[v], (size_t)(appended->tokens.tokens * heads * row), 0,
                   FENCE_ABOVE, dice);
        for (int64_t i = 0; i < count; i++)
            oracle_put(type, appended->given[v].data, i, random_number(dice));
        appended->tokens.data[v] = appended->given[v].data;
        appended->tokens.token_stride[v] = heads * row;
        appended->tokens.head_stride[v] = row;
    }
}

static void appended_close(struct appended *appended) {
    fence_close(&appended->given[0]);
    fence_close(&appended->given[1]);
    free(appended->slot);
}

static void append_by_oracle(const struct scene *scene, const struct appended *appended) {
    enum oracle_type type = oracle_type_of(scene->problem.geometry.activation);
    int64_t heads = scene->problem.geometry.kv_heads;
    double numbers[1024];
    for (int64_t n = 0; n < appended->tokens.tokens * heads * 2; n++) {
        int64_t t = n / 2 / heads, head = n / 2 % heads;
        if (appended->slot[t] < 0)
            continue;
        struct oracle_side side = row_of(scene, n % 2, appended->slot[t], head);
        for (int64_t i = 0; i < side.dim; i++)
            numbers[i] =
                oracle_get(type, appended->given[n % 2].data, (t * heads + head) * side.dim + i);
        oracle_write_row(&side, type, 0, numbers);
    }
}

static void write_rows(const struct scene *scene, const struct flow_tokens *tokens) {
    const struct flow_span all = {0, tokens->tokens};
    for (int v = 0; v < 2; v++) {
        const struct kvmill_convert_shape shape =
            kvmill_convert_shape_of(&scene->problem.geometry, v);
        const struct flow_writer writer = {&kvmill_portable_write_rows,
                                           &shape,
                                           v ? scene->cache.value : scene->cache.key,
                                           scene->problem.geometry.kv_heads,
                                           scene->problem.geometry.page_size,
                                           scene->cache.page_rows};
        kvmill_flow_write(&writer, tokens, v, &all);
    }
}

static void summarise(const struct scene *scene, const struct flow_tokens *tokens) {
    float *workspace = take((size_t)kvmill_flow_workspace(&scene->cache_schedule, 0), 1);
    kvmill_flow_summarise_span(&scene->problem, &scene->cache_schedule, NULL, &scene->cache, tokens,
                               &(struct flow_span){0, tokens->tokens}, workspace);
    free(workspace);
}

static bool append_by_flow(const struct scene *scene, const struct appended *appended,
                           struct dice *dice) {
    struct fence seen;
    int64_t where;
    fence_open(&seen, (size_t)(scene->pool + 7) / 8, 0, FENCE_ABOVE, dice);
    bool accepted = kvmill_flow_check_slots(&scene->problem, &appended->tokens, scene->pool,
                                            seen.data, NULL) == KVMILL_OK;
    write_rows(scene, &appended->tokens);
    summarise(scene, &appended->tokens);
    accepted = accepted && fence_is_intact(&seen, &where);
    fence_close(&seen);
    return accepted;
}

/* The bytes of a cache of NaN become what the oracle makes of it. */
static bool is_append_right(struct scene *scene, struct dice *dice) {
    struct fence *const cache[] = {&scene->data[0], &scene->data[1], &scene->scale[0],
                                   &scene->scale[1]};
    unsigned char *wanted[4];
    struct appended appended;
    appended_open(scene, &appended, dice);
    append_by_oracle(scene, &appended);
    for (int f = 0; f < 4; f++) {
        wanted[f] = take(cache[f]->size, 1);
        memcpy(wanted[f], cache[f]->data, cache[f]->size);
        memset(cache[f]->data, 0xff, cache[f]->size);
    }
    bool right = append_by_flow(scene, &appended, dice);
    for (int f = 0; f < 4; f++) {
        right = right && memcmp(wanted[f], cache[f]->data, cache[f]->size) == 0;
        free(wanted[f]);
    }
    appended_close(&appended);
    return right;
}

/* ---- Scores ---- */

struct scored {
    float *found;
    double *wanted;
    double *fields[KVMILL_MOST_FLOW_FIELDS], *saved[KVMILL_MOST_FLOW_FIELDS];
    double *k, *v, *q;
};

static void scored_open(const struct scene *scene, int64_t pages, struct scored *scored) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    size_t rows = (size_t)(pages * geometry->page_size);
    *scored = (struct scored){
        .found = take((size_t)pages, sizeof(float)),
        .wanted = take((size_t)pages, sizeof(double)),
        .k = take(rows * (size_t)geometry->key.dim, sizeof(double)),
        .v = take(rows * (size_t)geometry->value.dim, sizeof(double)),
        .q = take((size_t)(scene->problem.group * geometry->key.dim), sizeof(double)),
    };
    for (int i = 0; i < scene->problem.field_count; i++) {
        scored->fields[i] = take((size_t)(pages * field_elements(scene, i)), sizeof(double));
        scored->saved[i] = take((size_t)(pages * field_elements(scene, i)), sizeof(double));
    }
}

static void scored_close(const struct scene *scene, struct scored *scored) {
    free(scored->found);
    free(scored->wanted);
    free(scored->k);
    free(scored->v);
    free(scored->q);
    for (int i = 0; i < scene->problem.field_count; i++) {
        free(scored->fields[i]);
        free(scored->saved[i]);
    }
}

static struct flow_scoring scoring_of(const struct scene *scene, int64_t first, int64_t pages,
                                      int64_t row) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    int64_t bytes = oracle_bytes(oracle_type_of(geometry->activation), geometry->key.dim);
    bool of_query = scene->problem.scope == KVMILL_SCOPE_QUERY_HEAD;
    int64_t head = of_query ? row : row * geometry->ratio;
    return (struct flow_scoring){.problem = &scene->problem,
                                 .schedule = &scene->index_schedule,
                                 .cache = &scene->cache,
                                 .query = scene->query.data + head * bytes,
                                 .query_stride = bytes,
                                 .ids = scene->ids + first,
                                 .pages = pages,
                                 .kv_head = of_query ? row / geometry->ratio : row};
}

static void ask_oracle(const struct scene *scene, const struct flow_scoring *scoring,
                       struct scored *scored) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    int64_t size = geometry->page_size;
    for (int64_t i = 0; i < scene->problem.group * geometry->key.dim; i++)
        scored->q[i] = oracle_get(oracle_type_of(geometry->activation), scoring->query, i);
    for (int64_t p = 0; p < scoring->pages; p++) {
        int64_t page = scoring->ids[p], head = scoring->kv_head;
        read_page(scene, 0, page, head, size, scored->k + p * size * geometry->key.dim);
        read_page(scene, 1, page, head, size, scored->v + p * size * geometry->value.dim);
        for (int i = 0; i < scene->problem.field_count; i++)
            read_field(scene, i, page, head, scored->fields[i] + p * field_elements(scene, i));
    }
    oracle_score(scene->flow, scene->problem.group, scoring->pages, scored->q, scored->k, scored->v,
                 scored->fields, scored->wanted, scored->saved);
}

/* What is not saved stays. */
static bool are_states_right(const struct scene *scene, const struct flow_scoring *scoring,
                             const struct scored *scored, double size) {
    for (int i = 0; i < scene->problem.field_count; i++)
        for (int64_t p = 0; p < scoring->pages; p++) {
            int64_t count = field_elements(scene, i);
            const double *wanted =
                (scene->problem.fields[i].saved ? scored->saved[i] : scored->fields[i]) + p * count;
            double *found = take((size_t)count, sizeof *found);
            read_field(scene, i, scoring->ids[p], scoring->kv_head, found);
            bool right = true;
            for (int64_t e = 0; e < count; e++)
                right = right && is_near(found[e], wanted[e], size, 2e-5);
            free(found);
            if (!right)
                return false;
        }
    return true;
}

static double largest_of(const double *numbers, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(numbers[i]));
    return largest;
}

/* The candidates' scores of one row, with a workspace of just the size. */
static bool is_row_right(const struct scene *scene, int64_t row, struct dice *dice) {
    const struct kvmill_flow_budget *budget = &scene->problem.budget;
    int64_t pages = scene->pages - budget->bos - budget->eos;
    pages = pages < 0 ? 0 : pages;
    struct flow_scoring scoring = scoring_of(scene, budget->bos, pages, row);
    struct scored scored;
    struct fence workspace;
    int64_t where;
    scored_open(scene, pages, &scored);
    ask_oracle(scene, &scoring, &scored);
    fence_open(&workspace, (size_t)kvmill_flow_workspace(&scene->index_schedule, pages), 0,
               FENCE_ABOVE, dice);
    const float *score = score_all(&scoring, (float *)(void *)workspace.data);
    double size = largest_of(scored.wanted, pages);
    bool right = fence_is_intact(&workspace, &where);
    for (int64_t p = 0; p < pages && right; p++) {
        right = is_near(score[p], scored.wanted[p], size, 2e-5);
        if (!right)
            diag("row %" PRId64 ", page %" PRId64 ": %.9g, wanted %.9g", row, p, score[p],
                 scored.wanted[p]);
    }
    right = right && are_states_right(scene, &scoring, &scored, size);
    fence_close(&workspace);
    scored_close(scene, &scored);
    return right;
}

/* Three steps, for what is saved. */
static bool are_scores_right(struct scene *scene, struct dice *dice) {
    if (scene->flow->index_count == 0)
        return true;
    int64_t rows = scene->problem.scope == KVMILL_SCOPE_QUERY_HEAD
                       ? scene->problem.geometry.heads
                       : scene->problem.geometry.kv_heads;
    for (int step = 0; step < 3; step++)
        for (int64_t row = 0; row < rows; row++)
            if (!is_row_right(scene, row, dice))
                return false;
    return true;
}

static bool are_fences_intact(const struct scene *scene) {
    int64_t where;
    bool intact = true;
    for (int v = 0; v < 2; v++)
        intact = intact && fence_is_intact(&scene->data[v], &where) &&
                 fence_is_intact(&scene->scale[v], &where);
    for (int i = 0; i < scene->problem.field_count; i++)
        intact = intact && fence_is_intact(&scene->field[i], &where);
    return intact;
}

/* ---- Flows ---- */

/* Summaries of chunks of tokens, then scores. */
static void test_scene(struct scene *scene, int64_t tokens, const char *name, struct dice *dice) {
    scene_open(scene, tokens, dice);
    ok(append(scene, dice_once_in(dice, 2) ? 3 : 200, dice), "%s: summaries of %" PRId64 " tokens",
       name, tokens);
    ok(are_scores_right(scene, dice) && are_fences_intact(scene), "%s: scores", name);
    scene_close(scene);
}

static void read_json(json_t *json, struct scene *scene) {
    struct error error;
    if (json_dump_file(json, file, 0) != 0)
        bail_out("cannot write %s: %s", file, strerror(errno));
    *scene = (struct scene){.tokens = 0};
    if (!specs_read(file, &scene->specs, &error))
        bail_out("%s", error.text);
}

/* Heads, dims and types of a cache. */
struct setting {
    const char *name, *attention;
};

static const struct setting settings[] = {
    {"one head of float32",
     "{\"num_heads\": 1, \"num_kv_heads\": 1, \"head_dim\": 32, \"T1\": \"float32\"}"},
    {"3 on 1 of float16",
     "{\"num_heads\": 3, \"num_kv_heads\": 1, \"head_dim\": 80, \"T1\": \"float16\"}"},
    {"8 on 2 of bfloat16",
     "{\"num_heads\": 8, \"num_kv_heads\": 2, \"head_dim\": 96, \"T1\": \"bfloat16\"}"},
    {"4 on 2, values of another dim",
     "{\"num_heads\": 4, \"num_kv_heads\": 2, \"head_dim\": 48, \"T1\": \"float32\", "
     "\"value_head_dim\": 20}"},
    {"int8", "{\"num_heads\": 4, \"num_kv_heads\": 2, \"head_dim\": 64, \"T1\": \"float32\", "
             "\"quant_bit\": 8, \"quant_group\": 16}"},
    {"int4", "{\"num_heads\": 5, \"num_kv_heads\": 1, \"head_dim\": 32, \"T1\": \"float16\", "
             "\"quant_bit\": 4, \"quant_group\": 8}"},
    {"llama.cpp's q8_0",
     "{\"num_heads\": 2, \"num_kv_heads\": 2, \"head_dim\": 64, \"T1\": \"float16\", "
     "\"cache_format\": \"q8_0\"}"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static const char *const shipped[] = {
    "block_sparse",     "gqa_block_sparse",
    "gqa_quest",        "lserve_sparse",
    "lserve_centroid",  "masked_quest",
    "h2o_sparse",       "running_avg_block_sparse",
    "gqa_h2o",          "centered_block_sparse",
    "h2o_token",        "venergy_gated_centroid",
    "gqa_h2o_token",    "infllm",
    "token_index",      "quest_growing",
    "sinks_and_window", "dense",
};

static json_t *flow_json(const char *name) {
    const char *srcdir = getenv("srcdir");
    char path[512];
    snprintf(path, sizeof path, "%s/configs/flows/%s.json", srcdir ? srcdir : ".", name);
    json_t *json = json_load_file(path, 0, NULL);
    if (json == NULL)
        bail_out("cannot read %s", path);
    return json;
}

/* With few pages kept, so that some are scored. */
static void bind(json_t *json, const struct setting *setting) {
    json_t *attention = json_loads(setting->attention, 0, NULL);
    json_t *page = json_object_get(json_object_get(json, "attention"), "page_size");
    json_t *select = json_object_get(json, "select");
    json_object_set(attention, "page_size", page);
    json_object_set_new(json, "attention", attention);
    json_object_set_new(select, "reserved_bos", json_integer(1));
    json_object_set_new(select, "reserved_eos", json_integer(2));
}

static void test_shipped(void) {
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++)
        for (int s = 0; s < SETTINGS; s++) {
            char name[128];
            struct scene scene;
            json_t *json = flow_json(shipped[i]);
            if (is_slow_run() && ((int)i + s) % 7 != 0) {
                json_decref(json);
                continue;
            }
            snprintf(name, sizeof name, "%s, %s", shipped[i], settings[s].name);
            struct dice dice = dice_for(seed, name);
            bind(json, &settings[s]);
            read_json(json, &scene);
            json_decref(json);
            int64_t size = flow_of_spec(&scene.specs.items[0])->attention->page_size;
            test_scene(&scene, dice_range(&dice, 4 * size, 11 * size), name, &dice);
        }
}

/* Page sizes, head sizes and group sizes, odd ones too; one of each at least once. */
static void test_grid(void) {
    static const char *const flows[] = {"block_sparse", "gqa_quest", "quest_growing",
                                        "centered_block_sparse"};
    static const int sizes[] = {1, 5, 8, 16, 32, 64, 128}, groups[] = {1, 2, 3, 5, 7, 16, 4};
    static const int dims[] = {32, 64, 80, 96, 112, 128, 256, 33};
    for (int i = 0; i < (is_slow_run() ? few_cases(4) : 56); i++) {
        struct scene scene;
        char name[128];
        int group = groups[i / 7 % 7], dim = dims[i % 8], size = sizes[i % 7];
        json_t *json = flow_json(flows[i % 4]), *select = json_object_get(json, "select");
        snprintf(name, sizeof name, "%s, pages of %d, heads of %d, %d on one", flows[i % 4], size,
                 dim, group);
        struct dice dice = dice_for(seed, name);
        json_t *attention =
            json_pack("{s:i, s:i, s:i, s:i, s:s}", "num_heads", 2 * group, "num_kv_heads", 2,
                      "head_dim", dim, "page_size", size, "T1", i % 3 ? "float16" : "float32");
        json_object_set_new(json, "attention", attention);
        json_object_set_new(select, "reserved_eos", json_integer(1));
        read_json(json, &scene);
        json_decref(json);
        test_scene(&scene, dice_range(&dice, 2 * size, 5 * size), name, &dice);
    }
}

/* ---- Every op ---- */

#define FIELD "{\"name\": \"f\", \"shape\": [2, \"head_dim\"], \"dtype\": \"float32\"}"
#define HALVES                                                                                     \
    "{\"op\": \"MeanInterleave\", \"inputs\": [\"k\"], \"dim\": 1, \"group\": 3, "                 \
    "\"output\": \"f\"}"
#define SUMS                                                                                       \
    "{\"op\": \"Sum\", \"inputs\": [\"t\"], \"dim\": 1, \"output\": \"t1\"}, "                     \
    "{\"op\": \"Sum\", \"inputs\": [\"t1\"], \"dim\": 2, \"output\": \"s\"}, "                     \
    "{\"op\": \"topK\", \"inputs\": [\"s\"]}"
#define FLOW(fields, cache, constants, index)                                                      \
    "{\"op\": \"flow\", \"attention\": {\"num_heads\": 6, \"num_kv_heads\": 2, \"head_dim\": 20, " \
    "\"page_size\": 6, \"T1\": \"float32\"}, \"fields\": [" fields "], \"cache\": [" cache "], "   \
    "\"constants\": [" constants "], \"index\": [" index SUMS "], \"select\": {\"topk_val\": 1}}"
#define INDEX(index)    FLOW(FIELD, HALVES, "", index)
#define CONSTANT(shape) "{\"name\": \"w\", \"shape\": " shape ", \"values\": 0.75}"
#define OP(op, in, more, o)                                                                        \
    "{\"op\": \"" op "\", \"inputs\": [" in "]" more ", \"output\": \"" o "\"}, "
#define UNARY(op, more) INDEX(OP(op, "\"f\"", more, "t"))
/* Numbers that are equal in both arithmetics. */
#define BINARY(op) INDEX(OP("Max", "\"q\"", ", \"dim\": 1", "m") OP(op, "\"m\", \"f\"", "", "t"))
/* A cache program whose field `f` has the given shape. */
#define CACHE(shape, cache)                                                                        \
    FLOW("{\"name\": \"f\", \"shape\": " shape ", \"dtype\": \"float32\"}", cache, "",             \
         OP("Add_Mul", "\"f\"", "", "t"))
#define LAST(op, in, more) "{\"op\": \"" op "\", \"inputs\": [" in "]" more ", \"output\": \"f\"}"

static const struct {
    const char *name, *text;
} every[] = {
    {"GeMM", INDEX(OP("GeMM", "\"q\", \"f\"", "", "t"))},
    {"GeMM, pages first", INDEX(OP("GeMM", "\"f\", \"q\"", "", "t"))},
    {"GeMM of pages", INDEX(OP("GeMM", "\"f\", \"k\"", "", "t"))},
    {"GeMM with values", INDEX(OP("GeMM", "\"f\", \"v\"", "", "t"))},
    {"Sum 1", UNARY("Sum", ", \"dim\": 1")},
    {"Sum 2", UNARY("Sum", ", \"dim\": 2")},
    {"Sum 0",
     INDEX(OP("Sum", "\"f\"", ", \"dim\": 0", "a") OP("Multiply", "\"a\", \"f\"", "", "t"))},
    {"Mean 1", UNARY("Mean", ", \"dim\": 1")},
    {"Mean 2", UNARY("Mean", ", \"dim\": 2")},
    {"Mean 0", INDEX(OP("Mean", "\"k\"", ", \"dim\": 0", "a") OP("GeMM", "\"a\", \"f\"", "", "t"))},
    {"Max 1", UNARY("Max", ", \"dim\": 1")},
    {"Max 2", UNARY("Max", ", \"dim\": 2")},
    {"Max 0",
     INDEX(OP("Max", "\"f\"", ", \"dim\": 0", "a") OP("Multiply", "\"f\", \"a\"", "", "t"))},
    {"Min 1", UNARY("Min", ", \"dim\": 1")},
    {"Min 2", UNARY("Min", ", \"dim\": 2")},
    {"Min 0",
     INDEX(OP("Min", "\"f\"", ", \"dim\": 0", "a") OP("Multiply", "\"f\", \"a\"", "", "t"))},
    {"L2Norm 1", UNARY("L2Norm", ", \"dim\": 1")},
    {"L2Norm 2", UNARY("L2Norm", ", \"dim\": 2")},
    {"L2Norm 0",
     INDEX(OP("L2Norm", "\"f\"", ", \"dim\": 0", "a") OP("Multiply", "\"f\", \"a\"", "", "t"))},
    {"Multiply", BINARY("Multiply")},
    {"Maximum", BINARY("Maximum")},
    {"Minimum", BINARY("Minimum")},
    {"Add", INDEX(OP("Mean", "\"q\"", ", \"dim\": 1", "m")
                      OP("Add", "\"m\", \"f\"", ", \"alpha\": 0.5, \"beta\": -2", "t"))},
    {"WhereEqual", BINARY("WhereEqual")},
    {"WhereNotEqual", BINARY("WhereNotEqual")},
    {"WhereGreater", BINARY("WhereGreater")},
    {"WhereGreaterEqual", BINARY("WhereGreaterEqual")},
    {"WhereLess", BINARY("WhereLess")},
    {"WhereLessEqual", BINARY("WhereLessEqual")},
    {"Kron 1", INDEX(OP("Kron", "\"q\", \"f\"", ", \"dim\": 1", "t"))},
    {"Kron 2", INDEX(OP("Mean", "\"q\"", ", \"dim\": 1", "m")
                         OP("Kron", "\"m\", \"f\"", ", \"dim\": 2", "t"))},
    {"Kron 1 and 2", INDEX(OP("Kron", "\"f\", \"q\"", ", \"dim\": [1, 2]", "t"))},
    {"Relu", UNARY("Relu", ", \"alpha\": 0.125, \"beta\": -1")},
    {"Sigmoid", UNARY("Sigmoid", ", \"alpha\": 0.5, \"beta\": -1")},
    {"Silu", UNARY("Silu", ", \"alpha\": 0.5, \"beta\": -1")},
    {"Add_Mul", UNARY("Add_Mul", ", \"alpha\": 0.5, \"beta\": -1.5")},
    {"Abs", UNARY("Abs", ", \"alpha\": 0.5, \"beta\": 2")},
    {"Log",
     INDEX(OP("Abs", "\"f\"", "", "a") OP("Log", "\"a\"", ", \"alpha\": 1, \"beta\": 3", "t"))},
    {"Exp", UNARY("Exp", ", \"alpha\": 0.5, \"beta\": -1")},
    {"Softmax",
     INDEX(OP("GeMM", "\"q\", \"f\"", "", "d") OP("Softmax", "\"d\"", ", \"scale\": 0.5", "w")
               OP("Max", "\"w\"", ", \"dim\": 2", "t"))},
    {"Softmax of a field", UNARY("Softmax", "")},
    {"Softmax of large numbers",
     INDEX(OP("Softmax", "\"f\"", ", \"scale\": 64", "w") OP("Max", "\"w\"", ", \"dim\": 1", "t"))},
    {"Normalize", INDEX(OP("Normalize", "\"f\"", "", "t"))},
    {"Conv1d",
     FLOW(FIELD, HALVES, CONSTANT("[3, 2, \"head_dim\"]"), OP("Conv1d", "\"f\", \"w\"", "", "t"))},
    {"Conv1d of four taps, later",
     FLOW(FIELD, HALVES, CONSTANT("[4, 1, 1]"),
          OP("Max", "\"f\"", ", \"dim\": 1", "a") OP("Sum", "\"a\"", ", \"dim\": 2", "b")
              OP("Conv1d", "\"b\", \"w\"", "", "c") OP("Multiply", "\"c\", \"b\"", "", "t"))},
    {"a constant",
     FLOW(FIELD, HALVES, CONSTANT("[2, 1]"), OP("Multiply", "\"f\", \"w\"", "", "t"))},
    {"Transpose", INDEX(OP("Transpose", "\"f\"", "", "a") OP("Max", "\"a\"", ", \"dim\": 1", "t"))},
    {"Reshape", INDEX(OP("Reshape", "\"f\"", ", \"shape\": [8, 5]", "a")
                          OP("Max", "\"a\"", ", \"dim\": 1", "t"))},
    {"MaskSlice 1", INDEX(OP("MaskSlice", "\"f\"",
                             ", \"dim\": 1, \"start\": 1, \"end\": 2, \"alpha\": 2, \"beta\": -1",
                             "a") OP("Multiply", "\"f\", \"a\"", "", "t"))},
    {"MaskSlice 2", INDEX(OP("MaskSlice", "\"q\"",
                             ", \"dim\": 2, \"start\": 3, \"end\": 9, \"alpha\": 2, \"beta\": 0",
                             "a") OP("GeMM", "\"a\", \"f\"", "", "t"))},
    {"over pages twice",
     INDEX(OP("Mean", "\"f\"", ", \"dim\": 0", "a") OP("Add", "\"f\", \"a\"", ", \"beta\": -1", "b")
               OP("Normalize", "\"b\"", "", "c") OP("Max", "\"c\"", ", \"dim\": 0", "d")
                   OP("Multiply", "\"d\", \"b\"", "", "e") OP("Add", "\"e\", \"f\"", "", "t"))},

    {"cache: GeMM", CACHE("[\"page_size\", \"page_size\"]", LAST("GeMM", "\"k\", \"v\"", ""))},
    {"cache: Mean", CACHE("[1, \"head_dim\"]", LAST("Mean", "\"v\"", ", \"dim\": 1"))},
    {"cache: Mean 2", CACHE("[\"page_size\", 1]", LAST("Mean", "\"k\"", ", \"dim\": 2"))},
    {"cache: Max", CACHE("[1, \"head_dim\"]", LAST("Max", "\"v\"", ", \"dim\": 1"))},
    {"cache: Min", CACHE("[\"page_size\", 1]", LAST("Min", "\"k\"", ", \"dim\": 2"))},
    {"cache: L2Norm", CACHE("[1, \"head_dim\"]", LAST("L2Norm", "\"k\"", ", \"dim\": 1"))},
    {"cache: MeanInterleave",
     CACHE("[\"page_size\", 5]", LAST("MeanInterleave", "\"k\"", ", \"dim\": 2, \"group\": 4"))},
    {"cache: MaxInterleave",
     CACHE("[3, \"head_dim\"]", LAST("MaxInterleave", "\"k\"", ", \"dim\": 1, \"group\": 2"))},
    {"cache: MinInterleave",
     CACHE("[\"page_size\", 10]", LAST("MinInterleave", "\"v\"", ", \"dim\": 2, \"group\": 2"))},
    {"cache: L2NormInterleave",
     CACHE("[2, \"head_dim\"]", LAST("L2NormInterleave", "\"v\"", ", \"dim\": 1, \"group\": 3"))},
    {"cache: Multiply",
     CACHE("[\"page_size\", \"head_dim\"]", LAST("Multiply", "\"k\", \"v\"", ""))},
    {"cache: Maximum", CACHE("[\"page_size\", \"head_dim\"]", LAST("Maximum", "\"k\", \"v\"", ""))},
    {"cache: Minimum", CACHE("[\"page_size\", \"head_dim\"]", LAST("Minimum", "\"k\", \"v\"", ""))},
    {"cache: Add",
     CACHE("[1, \"head_dim\"]",
           OP("Mean", "\"k\"", ", \"dim\": 1", "a") OP("Max", "\"v\"", ", \"dim\": 1", "b")
               LAST("Add", "\"a\", \"b\"", ", \"alpha\": 2, \"beta\": -0.5"))},
    {"cache: WhereLess",
     CACHE("[\"page_size\", \"head_dim\"]", LAST("WhereLess", "\"k\", \"v\"", ""))},
    {"cache: unary", CACHE("[1, \"head_dim\"]",
                           OP("Mean", "\"k\"", ", \"dim\": 1", "a")
                               OP("Abs", "\"a\"", ", \"beta\": 2", "b")
                                   OP("Exp", "\"b\"", ", \"beta\": -1", "c")
                                       OP("Relu", "\"c\"", ", \"alpha\": 0.5", "d")
                                           OP("Silu", "\"d\"", ", \"beta\": -1", "e")
                                               OP("Sigmoid", "\"e\"", ", \"beta\": 1", "g")
                                                   OP("Add_Mul", "\"g\"", ", \"alpha\": 1", "h")
                                                       LAST("Log", "\"h\"", ", \"beta\": 2"))},
    {"cache: MaskSlice",
     CACHE("[\"page_size\", \"head_dim\"]", OP("MaskSlice", "\"k\"",
                                               ", \"dim\": 1, \"start\": 0, \"end\": 2, "
                                               "\"alpha\": 1, \"beta\": 0",
                                               "a") LAST("Multiply", "\"a\", \"k\"", ""))},
    {"cache: rows in groups, then all of them",
     CACHE("[1, \"head_dim\"]", OP("MaxInterleave", "\"k\"", ", \"dim\": 1, \"group\": 3", "a")
                                    LAST("Mean", "\"a\"", ", \"dim\": 1"))},
    {"cache: Reshape, then rows", CACHE("[1, 40]", OP("Reshape", "\"k\"", ", \"shape\": [3, 40]",
                                                      "a") LAST("Mean", "\"a\"", ", \"dim\": 1"))},
    {"cache: Reshape", CACHE("[3, 40]", LAST("Reshape", "\"k\"", ", \"shape\": [3, 40]"))},
    {"cache: Fill", CACHE("[2, 3]", "{\"op\": \"Fill\", \"alpha\": 1.5, \"output\": \"f\"}")},
    {"cache: a field of a field",
     FLOW("{\"name\": \"f\", \"shape\": [2, \"head_dim\"], \"dtype\": \"bfloat16\"}, {\"name\": "
          "\"g\", \"shape\": [1, \"head_dim\"], \"dtype\": \"float32\"}",
          HALVES ", {\"op\": \"Mean\", \"inputs\": [\"f\"], \"dim\": 1, \"output\": \"g\"}", "",
          OP("Multiply", "\"f\", \"g\"", "", "t"))},
};

static void test_every_op(void) {
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        for (int64_t pages = 2; pages <= 9; pages += 7) {
            struct dice dice = dice_for(seed, every[i].name);
            struct scene scene;
            json_error_t where;
            json_t *json = json_loads(every[i].text, 0, &where);
            if (json == NULL)
                bail_out("%s: %s", every[i].name, where.text);
            read_json(json, &scene);
            json_decref(json);
            test_scene(&scene, pages * 6 - 1, every[i].name, &dice);
        }
}

/* No op of the table is left out; Load and Save are those of flows that ship. */
static void test_all_named(void) {
    for (int code = 0; code < KVMILL_FLOW_CODES; code++) {
        char words[64];
        bool found = code == KVMILL_FLOW_LOAD || code == KVMILL_FLOW_SAVE;
        snprintf(words, sizeof words, "\"op\": \"%s\"", kvmill_flow_kind_at(code)->name);
        for (size_t i = 0; !found && i < sizeof every / sizeof *every; i++)
            found = strstr(every[i].text, words) != NULL;
        ok(found, "%s is tried", kvmill_flow_kind_at(code)->name);
    }
}

/* ---- Appending ---- */

/* Bytes as the oracle writes them, others as they were; the summaries, too. */
static void test_append(void) {
    for (int s = 0; s < SETTINGS; s++) {
        struct dice dice = dice_for(seed, settings[s].name);
        struct scene scene;
        json_t *json = flow_json("gqa_quest");
        bind(json, &settings[s]);
        read_json(json, &scene);
        json_decref(json);
        scene_open(&scene, 70, &dice);
        bool right = is_append_right(&scene, &dice);
        ok(right && are_summaries_right(&scene, scene.tokens) && are_fences_intact(&scene),
           "tokens are appended, %s", settings[s].name);
        scene_close(&scene);
    }
}

static void test_bad_slots(void) {
    static const struct {
        const char *name;
        int64_t slot[6];
        kvmill_status status;
        const char *what;
    } rows[] = {
        {"in order", {4, 5, 6, 7, 0, 1}, KVMILL_OK, ""},
        {"padding between", {4, -1, 20, 21, -1, -1}, KVMILL_OK, ""},
        {"a page not in order",
         {4, 6, 5, 7, 0, 1},
         KVMILL_E_ALIAS,
         "slot_mapping[2] is 5, of the page of the token before; accepted: above its 6"},
        {"a row twice",
         {4, 5, 5, 7, 0, 1},
         KVMILL_E_ALIAS,
         "slot_mapping[2] is 5, of the page of the token before; accepted: above its 5"},
        {"below -1",
         {4, 5, -2, 7, 0, 1},
         KVMILL_E_INDEX_RANGE,
         "slot_mapping[2] is -2; accepted: -1 to 39"},
        {"beyond the cache",
         {4, 5, 40, 7, 0, 1},
         KVMILL_E_INDEX_RANGE,
         "slot_mapping[2] is 40; accepted: -1 to 39"},
        {"a page again",
         {4, 5, 8, 9, 6, 7},
         KVMILL_E_ALIAS,
         "slot_mapping[4] is 6, of a page that earlier tokens have left"},
        {"a page behind padding again",
         {4, -1, 5, 6, 7, 8},
         KVMILL_E_ALIAS,
         "slot_mapping[2] is 5"},
    };
    const struct kvmill_flow_problem problem = small_problem();
    unsigned char seen[2] = {0xff, 0xff};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct flow_tokens tokens = {.slot = rows[i].slot, .tokens = 6};
        kvmill_error error;
        kvmill_status status = kvmill_flow_check_slots(&problem, &tokens, 10, seen, &error);
        if (!ok(status == rows[i].status && strstr(error.message, rows[i].what) != NULL,
                "slots: %s", rows[i].name))
            diag("%s: %s", kvmill_status_name(status), error.message);
    }
}

/* ---- Lists of a batch ---- */

/* Scores of eighths are the same in float32 and double: lists are equal. */
static const char *const exact[] = {"block_sparse", "gqa_quest",        "masked_quest",
                                    "infllm",       "lserve_centroid",  "lserve_sparse",
                                    "token_index",  "sinks_and_window", "dense"};
enum { EXACT = sizeof exact / sizeof *exact, REQUESTS = 4 };

/* Requests of the scene: the first of no token, one page, some, and all the rest. */
static void cut(const struct scene *scene, int64_t indptr[REQUESTS + 1], int64_t length[REQUESTS]) {
    int64_t size = scene->problem.geometry.page_size, pages[] = {0, 1, scene->pages / 3, 0};
    pages[3] = scene->pages - pages[1] - pages[2];
    indptr[0] = 0;
    for (int b = 0; b < REQUESTS; b++) {
        indptr[b + 1] = indptr[b] + pages[b];
        length[b] = pages[b] * size;
    }
    length[3] -= scene->pages * size - scene->tokens;
}

/* What the oracle lists for a row. */
static int64_t list_by_oracle(const struct scene *scene, int64_t first, int64_t pages, int64_t r,
                              int32_t *list) {
    const struct kvmill_flow_budget *budget = &scene->problem.budget;
    const kvmill_flow_select *select = &scene->flow->select;
    bool all_heads = scene->problem.scope == KVMILL_SCOPE_REQUEST;
    int64_t candidates = pages - budget->bos - budget->eos;
    float *score = take((size_t)pages, sizeof *score);
    double *sums = take((size_t)pages, sizeof *sums);
    for (int64_t head = all_heads ? 0 : r;
         oracle_selected(select, pages) < pages && scene->flow->index_count > 0 &&
         head < (all_heads ? scene->problem.geometry.kv_heads : r + 1);
         head++) {
        struct flow_scoring scoring = scoring_of(scene, first + budget->bos, candidates, head);
        struct scored scored;
        scored_open(scene, candidates, &scored);
        ask_oracle(scene, &scoring, &scored);
        for (int64_t i = 0; i < candidates; i++)
            sums[i] += scored.wanted[i];
        scored_close(scene, &scored);
    }
    for (int64_t i = 0; i < candidates; i++)
        score[budget->bos + i] = (float)sums[i];
    int64_t count = oracle_select(select, pages, score, list);
    free(score);
    free(sums);
    return count;
}

static bool are_lists_right(const struct scene *scene, struct dice *dice) {
    int64_t indptr[REQUESTS + 1], length[REQUESTS], where;
    int64_t rows = kvmill_flow_rows_of_request(&scene->problem);
    cut(scene, indptr, length);
    const struct flow_batch batch = {REQUESTS,   scene->pool, indptr,
                                     scene->ids, length,      scene->pages};
    const struct flow_queries queries = {
        scene->query.data, 0,
        oracle_bytes(oracle_type_of(scene->problem.geometry.activation),
                     scene->problem.geometry.key.dim)};
    int64_t heads = kvmill_flow_scored_heads(&scene->problem);
    struct flow_index index = {.problem = &scene->problem,
                               .schedule = &scene->index_schedule,
                               .cache = &scene->cache,
                               .batch = &batch,
                               .queries = &queries};
    int64_t *begin = take((size_t)(REQUESTS * rows), sizeof *begin);
    int32_t *wanted = take((size_t)scene->pages, sizeof *wanted);
    int32_t *list = take((size_t)scene->pages, sizeof *list);
    bool right = count_rows(&scene->problem, &batch, begin);
    for (int64_t n = 0; right && n < REQUESTS * rows; n++) {
        int64_t b = n / rows, pages = indptr[b + 1] - indptr[b];
        struct fence workspace, scores;
        index.row_bytes =
            kvmill_flow_head_workspace(&scene->problem, &scene->index_schedule, pages);
        fence_open(&scores, (size_t)((b + 1) * heads * index.row_bytes), 0, FENCE_ABOVE, dice);
        fence_open(&workspace, (size_t)kvmill_flow_list_workspace(&scene->problem, pages), 0,
                   FENCE_ABOVE, dice);
        index.workspace = scores.data;
        list_row(&index, b, n % rows, workspace.data, list);
        int64_t count = list_by_oracle(scene, indptr[b], pages, n % rows, wanted);
        right = count == begin[n + 1] - begin[n] && fence_is_intact(&workspace, &where) &&
                fence_is_intact(&scores, &where) &&
                memcmp(list, wanted, (size_t)count * sizeof *list) == 0;
        fence_close(&scores);
        fence_close(&workspace);
    }
    free(begin);
    free(wanted);
    free(list);
    return right;
}

static void test_batch_lists(void) {
    static const char *const scopes[] = {"kv_head", "query_head", "request"};
    static const struct setting setting = {
        "", "{\"num_heads\": 8, \"num_kv_heads\": 2, \"head_dim\": 32, \"T1\": \"float32\"}"};
    for (int i = 0; i < EXACT * 6; i++) {
        char name[64];
        struct scene scene;
        json_t *json = flow_json(exact[i / 6]), *select = json_object_get(json, "select");
        snprintf(name, sizeof name, "%s, %s%s", exact[i / 6], scopes[i % 3],
                 i / 3 % 2 ? ", by score" : "");
        struct dice dice = dice_for(seed, name);
        bind(json, &setting);
        if (json_is_integer(json_object_get(select, "topk_val")) && i / 6 != EXACT - 2)
            json_object_set_new(select, "topk_val", json_integer(3));
        json_object_set_new(select, "scope", json_string(scopes[i % 3]));
        json_object_set_new(select, "order", json_string(i / 3 % 2 ? "score" : "logical"));
        read_json(json, &scene);
        json_decref(json);
        int64_t size = flow_of_spec(&scene.specs.items[0])->attention->page_size;
        scene_open(&scene, 24 * size - size / 3, &dice);
        bool right = append(&scene, 200, &dice);
        ok(right && are_lists_right(&scene, &dice), "lists of a batch: %s", name);
        scene_close(&scene);
    }
}

/* ---- Properties ---- */

/* A maximum in bfloat16 is not below any float32 key, a minimum not above; of channels that are
   negative, positive, and both. */
static void test_bounds(void) {
    struct dice dice = dice_for(seed, "bounds");
    struct scene scene;
    json_t *json = flow_json("gqa_quest");
    bind(json, &settings[0]);
    for (int f = 0; f < 2; f++)
        json_object_set_new(json_array_get(json_object_get(json, "fields"), (size_t)f), "dtype",
                            json_string("bfloat16"));
    read_json(json, &scene);
    json_decref(json);
    scene_open(&scene, 160, &dice);
    for (int64_t t = 0; t < 160; t++) {
        double numbers[32];
        struct oracle_side side = row_of(&scene, 0, slot_of(&scene, t), 0);
        for (int i = 0; i < 32; i++)
            numbers[i] =
                (double)dice_range(&dice, i % 3 == 1 ? 0 : -1000000, i % 3 == 0 ? 0 : 1000000) /
                999;
        oracle_write_row(&side, ORACLE_F32, 0, numbers);
    }
    bool bounded = append(&scene, 200, &dice);
    for (int64_t t = 0; t < 160; t++) {
        double key[32], high[32], low[32];
        struct oracle_side side = row_of(&scene, 0, slot_of(&scene, t), 0);
        oracle_read_row_exact(&side, 0, key);
        read_field(&scene, 0, scene.ids[t / 16], 0, high);
        read_field(&scene, 1, scene.ids[t / 16], 0, low);
        for (int i = 0; i < 32; i++)
            bounded = bounded && low[i] <= key[i] && key[i] <= high[i];
    }
    ok(bounded, "narrow fields are bounds");
    scene_close(&scene);
}

/* The lists of all rows of one request of 40 pages, whose data depend on the seed alone. */
struct lists {
    int64_t rows, selected;
    int32_t page[8][40];
};

static struct lists lists_of(const char *flow, const char *attention, const char *scope) {
    const struct setting setting = {"", attention};
    struct dice dice = dice_for(seed, "lists of one request");
    struct scene scene;
    struct lists lists;
    json_t *json = flow_json(flow), *select = json_object_get(json, "select");
    memset(&lists, 0, sizeof lists);
    bind(json, &setting);
    json_object_set_new(select, "topk_val", json_integer(7));
    json_object_set_new(select, "topk_ratio", json_integer(0));
    json_object_set_new(select, "scope", json_string(scope));
    read_json(json, &scene);
    json_decref(json);
    scene_open(&scene, 40 * 16 - 5, &dice);
    append(&scene, 200, &dice);
    const int64_t indptr[] = {0, scene.pages};
    const struct flow_batch batch = {1, scene.pool, indptr, scene.ids, &scene.tokens, scene.pages};
    const struct flow_queries queries = {
        scene.query.data, 0,
        oracle_bytes(oracle_type_of(scene.problem.geometry.activation),
                     scene.problem.geometry.key.dim)};
    struct flow_index index = {.problem = &scene.problem,
                               .schedule = &scene.index_schedule,
                               .cache = &scene.cache,
                               .batch = &batch,
                               .queries = &queries,
                               .row_bytes = kvmill_flow_head_workspace(
                                   &scene.problem, &scene.index_schedule, scene.pages)};
    index.workspace = take((size_t)(kvmill_flow_scored_heads(&scene.problem) * index.row_bytes), 1);
    void *workspace = take((size_t)kvmill_flow_list_workspace(&scene.problem, scene.pages), 1);
    lists.rows = kvmill_flow_rows_of_request(&scene.problem);
    lists.selected =
        kvmill_flow_row_of(&scene.problem.budget, scene.problem.geometry.page_size, scene.tokens)
            .selected;
    for (int64_t r = 0; r < lists.rows; r++)
        list_row(&index, 0, r, workspace, lists.page[r]);
    free(index.workspace);
    free(workspace);
    scene_close(&scene);
    return lists;
}

static bool lists_equal(const struct lists *a, const struct lists *b) {
    return a->selected == 10 && memcmp(a, b, sizeof *a) == 0;
}

#define ATTENTION(heads, kv_heads)                                                                 \
    "{\"num_heads\": " #heads ", \"num_kv_heads\": " #kv_heads                                     \
    ", \"head_dim\": 32, \"T1\": \"float32\"}"

/* Scopes that mean the same, flows that select the same, and some that do not. */
static void test_equal_lists(void) {
    struct lists of_kv = lists_of("gqa_quest", ATTENTION(3, 3), "kv_head");
    struct lists of_query = lists_of("gqa_quest", ATTENTION(3, 3), "query_head");
    ok(lists_equal(&of_kv, &of_query), "a query head for each kv head: two scopes are equal");
    of_kv = lists_of("gqa_quest", ATTENTION(4, 1), "kv_head");
    of_query = lists_of("gqa_quest", ATTENTION(4, 1), "query_head");
    struct lists of_request = lists_of("gqa_quest", ATTENTION(4, 1), "request");
    ok(lists_equal(&of_kv, &of_request), "one kv head: two scopes are equal");
    ok(of_query.rows == 4 && memcmp(of_query.page[0], of_query.page[1], 40) != 0,
       "and query heads have lists of their own");
    struct lists plain = lists_of("block_sparse", ATTENTION(8, 2), "kv_head");
    struct lists centred = lists_of("centered_block_sparse", ATTENTION(8, 2), "kv_head");
    struct lists quest = lists_of("gqa_quest", ATTENTION(8, 2), "kv_head");
    ok(lists_equal(&plain, &centred), "scores less their mean select the same");
    ok(plain.selected == 10 && !lists_equal(&plain, &quest),
       "the best head does not select what the mean of heads does");
}

/* What was kept of a page is gone when its last slot is written again; rolled back, it grows anew.
 */
static void test_recycling(void) {
    static const char *const flows[] = {"running_avg_block_sparse", "quest_growing"};
    for (int f = 0; f < 2; f++) {
        struct dice dice = dice_for(seed, flows[f]);
        struct scene scene;
        json_t *json = flow_json(flows[f]);
        bind(json, &settings[2]);
        read_json(json, &scene);
        json_decref(json);
        scene_open(&scene, 96, &dice);
        bool right = append(&scene, 200, &dice) && are_scores_right(&scene, &dice);
        write_tokens(&scene, &dice);
        scene.used = true;
        right = right && append(&scene, 3, &dice);
        ok(right, "%s: pages that are used again", flows[f]);
        float *workspace = take((size_t)kvmill_flow_workspace(&scene.cache_schedule, 0), 1);
        int64_t slots[] = {slot_of(&scene, 80), slot_of(&scene, 81)};
        const struct flow_tokens tokens = {.slot = slots, .tokens = 2};
        kvmill_flow_summarise_span(&scene.problem, &scene.cache_schedule, NULL, &scene.cache,
                                   &tokens, &(struct flow_span){0, 2}, workspace);
        ok(is_summary_right(&scene, scene.ids[5], 1, scene.problem.incremental ? 2 : 16),
           "%s: a page that is rolled back", flows[f]);
        free(workspace);
        scene_close(&scene);
    }
}

int main(void) {
    int descriptor = mkstemp(file);
    if (descriptor < 0)
        bail_out("cannot make %s: %s", file, strerror(errno));
    close(descriptor);
    seed = dice_seed();
    test_rows();
    test_long_rows();
    test_batch();
    test_bad_batches();
    test_lists();
    test_every_k();
    test_long_list();
    test_absolute();
    test_shipped();
    test_grid();
    test_every_op();
    test_all_named();
    test_append();
    test_bad_slots();
    test_batch_lists();
    test_bounds();
    test_equal_lists();
    test_recycling();
    unlink(file);
    return done_testing();
}
