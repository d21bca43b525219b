/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_scene.h"

#include "../runtime/core/numbers.h"
#include "common.h"

/* ---- Numbers ---- */

/* Returns a random number; many numbers are equal.  Scenes without strange numbers are better
   tests of sums, which strange ones dominate.  It draws once: making caches takes most of a
   scene's time. */
static float random_number(struct dice *dice, bool is_strange) {
    static const float strange[] = {0.0f,   -0.0f, 1e-41f, -3e38f,  65520.0f, 1e-30f,   1e30f,
                                    -90.0f, 90.0f, -1e-7f, 3.4e38f, 2049.0f,  INFINITY, NAN};
    uint64_t bits = dice_bits(dice);
    uint32_t kind = (uint32_t)bits, value = (uint32_t)(bits >> 32);
    if (is_strange && kind % 300 == 0)
        return value % 2 ? NAN : -INFINITY;
    if (is_strange && kind % 40 == 1)
        return strange[value % (COUNT(strange) - 2)];
    return (kind >> 9) % 3 == 0 ? (float)(value % 7) - 3 : ((float)(value % 80001) - 40000) / 8191;
}

/* Only PERIOD numbers are drawn: drawing all numbers of a cache took most of its tests' time.  A
   prime, so that rows are equal only if a row has this length. */
enum { PERIOD = 4099 };

static int64_t drawn(int64_t count) {
    return count < PERIOD ? count : PERIOD;
}

static void fill_floats(struct dice *dice, int element, const struct fence *fence,
                        bool is_strange) {
    int64_t bytes = kvmill_format_parts(element)->bits / 8;
    int64_t count = drawn((int64_t)fence->size / bytes);
    for (int64_t i = 0; i < count; i++)
        kvmill_store_float(element, fence->data, i, random_number(dice, is_strange));
    fence_repeat(fence, (size_t)(count * bytes));
}

/* Fills with codes, any bytes or small ones; scales of blocks are floats. */
static void fill_codes(struct dice *dice, const struct kvmill_format *format,
                       const struct fence *fence, bool is_strange) {
    enum oracle_type type = oracle_of_element(format->element);
    int64_t count = oracle_block(type, format->dim);
    size_t block = oracle_is_blocks(type) ? (size_t)oracle_bytes(type, count) : 0;
    int scale = oracle_block_scale(type) == ORACLE_F32 ? KVMILL_F32 : KVMILL_F16;
    int64_t bytes = drawn((int64_t)fence->size);
    for (int64_t i = 0; i < bytes; i++) {
        uint32_t bits = (uint32_t)dice_bits(dice);
        fence->data[i] = (unsigned char)(bits % 2 ? (bits >> 8) % 3 : bits >> 24);
    }
    fence_repeat(fence, (size_t)bytes);
    for (size_t at = 0; block != 0 && at < fence->size; at += block)
        for (int i = 0; i <= oracle_has_minimum(type); i++)
            kvmill_store_float(scale, fence->data + at, i, random_number(dice, is_strange));
}

static bool are_floats_same(struct flow_scene *scene, int element, const unsigned char *a,
                            const unsigned char *b, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float x = kvmill_load_float(element, a, i), y = kvmill_load_float(element, b, i);
        scene->nan += x != x;
        scene->finite += kvmill_is_finite(x) && x != 0;
        if (memcmp(&x, &y, sizeof x) == 0 || (x != x && y != y))
            continue;
        diag("element %" PRId64 ": %a, the other way %a", i, x, y);
        return false;
    }
    return true;
}

/* ---- A cache: after each page, it has an unused row, or page if transposed ---- */

static int64_t page_rows(const struct flow_scene *scene) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    int64_t more = oracle_is_transposed(&geometry->key) ? geometry->page_size : 1;
    return geometry->page_size + (scene->problem.page_blocks > 1 ? more : 0);
}

static int64_t slots_of(const struct flow_scene *scene) {
    return (scene->pool / scene->problem.page_blocks + 1) * page_rows(scene);
}

static int64_t row_of_block(const struct flow_scene *scene, int64_t block) {
    int64_t blocks = scene->problem.page_blocks;
    return block / blocks * page_rows(scene) + block % blocks * scene->problem.block_size;
}

static void open_side(struct flow_scene *scene, int v, bool is_strange, struct dice *dice) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    const struct kvmill_format *format = v ? &geometry->value : &geometry->key;
    int64_t slots = slots_of(scene), heads = geometry->kv_heads;
    int64_t bytes = kvmill_format_row_bytes(format), scales = kvmill_format_scale_bytes(format);
    bool together = dice_once_in(dice, 2) && !oracle_is_transposed(format);
    for (int way = 0; way < FLOW_WAYS; way++)
        fence_open(&scene->data[way][v], (size_t)(slots * heads * bytes), FENCE_FLUSH, FENCE_ABOVE,
                   dice);
    fence_open(&scene->scale[v], (size_t)(slots * heads * scales), FENCE_FLUSH, FENCE_ABOVE, dice);
    if (kvmill_is_activation(kvmill_format_alone(format)))
        fill_floats(dice, kvmill_format_alone(format), &scene->data[0][v], is_strange);
    else
        fill_codes(dice, format, &scene->data[0][v], is_strange);
    memcpy(scene->data[1][v].data, scene->data[0][v].data, scene->data[0][v].size);
    if (scales > 0)
        fill_floats(dice, format->scale, &scene->scale[v], is_strange);
    for (int way = 0; way < FLOW_WAYS; way++)
        *(v ? &scene->cache[way].value : &scene->cache[way].key) = (struct kvmill_cache_rows){
            scene->data[way][v].data,           scales ? scene->scale[v].data : NULL,
            together ? heads * bytes : bytes,   together ? bytes : slots * bytes,
            together ? heads * scales : scales, together ? scales : slots * scales};
}

/* Places fields as the flow's layout says. */
static void lay_fields(struct flow_scene *scene, int way, struct dice *dice) {
    static const char *const layouts[] = {"apart", "page", "head"};
    const struct kvmill_flow_problem *problem = &scene->problem;
    DLTensor apart[KVMILL_MOST_FLOW_FIELDS];
    const DLTensor *list[KVMILL_MOST_FLOW_FIELDS];
    int64_t dims[KVMILL_MOST_FLOW_FIELDS][4];
    for (int i = 0; i < problem->field_count; i++) {
        const struct kvmill_flow_field_data *field = &problem->fields[i];
        const int64_t shape[] = {scene->pool, field->heads, field->rows, field->columns};
        memcpy(dims[i], shape, sizeof shape);
        apart[i] = (DLTensor){.data = scene->field[way][i].data,
                              .ndim = 4,
                              .dtype = kvmill_format_parts(field->element)->dtype,
                              .shape = dims[i]};
        list[i] = &apart[i];
    }
    flow_beside_open(&scene->beside[way], layouts[problem->field_layout], list,
                     problem->field_count, dice);
    for (int i = 0; i < problem->field_count; i++)
        scene->cache[way].field[i] = (unsigned char *)list[i]->data + list[i]->byte_offset;
    scene->cache[way].field_blocks = scene->pool;
}

static void open_fields(struct flow_scene *scene, bool is_strange, struct dice *dice) {
    for (int i = 0; i < scene->problem.field_count; i++) {
        const struct kvmill_flow_field_data *field = &scene->problem.fields[i];
        size_t bytes = (size_t)(scene->pool * field->heads * field->bytes);
        for (int way = 0; way < FLOW_WAYS; way++)
            fence_open(&scene->field[way][i], bytes, FENCE_FLUSH, FENCE_ABOVE, dice);
        fill_floats(dice, field->element, &scene->field[0][i], is_strange);
        memcpy(scene->field[1][i].data, scene->field[0][i].data, bytes);
    }
    for (int way = 0; way < FLOW_WAYS; way++)
        lay_fields(scene, way, dice);
}

int64_t flow_scene_query_stride(const struct flow_scene *scene) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    return geometry->key.dim * kvmill_activation_bytes(geometry->activation);
}

void flow_scene_open(struct flow_scene *scene, const kvmill_flow *flow, int64_t pool,
                     bool is_strange, struct dice *dice) {
    kvmill_error error;
    int64_t order[FLOW_MOST_POOL];
    *scene = (struct flow_scene){.pool = pool};
    must(kvmill_flow_verify(flow, &scene->problem, &error) == KVMILL_OK, error.message);
    for (int part = 0; part < KVMILL_FLOW_PROGRAMS; part++)
        kvmill_flow_schedule(&scene->problem, (enum kvmill_flow_part)part, &scene->schedule[part]);
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    open_side(scene, 0, is_strange, dice);
    open_side(scene, 1, is_strange, dice);
    open_fields(scene, is_strange, dice);
    for (int way = 0; way < FLOW_WAYS; way++)
        scene->cache[way].page_rows = page_rows(scene);
    fence_open(&scene->query, (size_t)(geometry->heads * flow_scene_query_stride(scene)),
               FENCE_FLUSH, FENCE_ABOVE, dice);
    fill_floats(dice, geometry->activation, &scene->query, is_strange);
    dice_order(dice, order, scene->pool);
    for (int i = 0; i < scene->pool; i++)
        scene->ids[i] = (int32_t)order[i];
}

void flow_scene_close(struct flow_scene *scene) {
    for (int v = 0; v < 2; v++) {
        for (int way = 0; way < FLOW_WAYS; way++)
            fence_close(&scene->data[way][v]);
        fence_close(&scene->scale[v]);
    }
    for (int way = 0; way < FLOW_WAYS; way++) {
        flow_beside_close(&scene->beside[way]);
        for (int i = 0; i < scene->problem.field_count; i++)
            fence_close(&scene->field[way][i]);
    }
    fence_close(&scene->query);
}

static bool are_fields_same(struct flow_scene *scene) {
    for (int way = 0; way < FLOW_WAYS; way++)
        if (!flow_beside_read(&scene->beside[way]))
            return diag("the fields' memory was left");
    for (int i = 0; i < scene->problem.field_count; i++) {
        const struct kvmill_flow_field_data *field = &scene->problem.fields[i];
        int64_t count = scene->pool * field->heads * field->rows * field->columns;
        if (!are_floats_same(scene, field->element, scene->field[0][i].data,
                             scene->field[1][i].data, count) ||
            !fence_is_intact(&scene->field[0][i], NULL))
            return diag("field %d", i);
    }
    return true;
}

/* ---- Workspaces ---- */

static void open_workspaces(struct flow_scene *scene, const struct flow_way *way, int64_t pages,
                            struct dice *dice) {
    for (int w = 0; w < FLOW_WAYS; w++) {
        size_t bytes = (size_t)kvmill_flow_workspace(way[w].schedule, pages);
        fence_open(&scene->workspace[w], bytes, 4 * (int)dice_range(dice, 0, 15), FENCE_ABOVE,
                   dice);
        memset(scene->workspace[w].data, 0xff, bytes);
    }
}

static bool close_workspaces(struct flow_scene *scene) {
    bool intact = fence_is_intact(&scene->workspace[0], NULL);
    for (int way = 0; way < FLOW_WAYS; way++)
        fence_close(&scene->workspace[way]);
    return intact;
}

static float *workspace_of(const struct flow_scene *scene, int way) {
    return (float *)(void *)scene->workspace[way].data;
}

/* ---- Both ways ---- */

/* Hides a row; in a transposed page it is single elements. */
static void hide_row(const struct kvmill_format *format, const struct kvmill_cache_rows *side,
                     int64_t slot, int64_t head) {
    const struct oracle_tiles tiles = oracle_tiles_of(format);
    unsigned char none[4096], *rows = side->data + head * side->head_stride;
    int64_t bytes = oracle_data_bytes(format);
    memset(none, 0xff, sizeof none);
    if (tiles.rows > 0)
        oracle_put_row(&tiles, rows, slot, bytes, none);
    else
        memset(rows + slot * side->row_stride, 0xff, (size_t)bytes);
}

/* Whether both ways leave the same rows; rows that programs write are floats. */
static bool are_rows_same(struct flow_scene *scene) {
    for (int v = 0; v < 2; v++) {
        const struct kvmill_format *format =
            v ? &scene->problem.geometry.value : &scene->problem.geometry.key;
        const struct fence *rows[] = {&scene->data[0][v], &scene->data[1][v]};
        bool same =
            scene->problem.writes[v]
                ? are_floats_same(scene, kvmill_format_alone(format), rows[0]->data, rows[1]->data,
                                  (int64_t)rows[0]->size /
                                      kvmill_format_parts(format->element)->bits * 8)
                : memcmp(rows[0]->data, rows[1]->data, rows[0]->size) == 0;
        if (!same || !fence_is_intact(rows[0], NULL))
            return diag("rows of %s", v ? "V" : "K");
    }
    return true;
}

/* Makes rows that a growing page does not have yet NaN: no result may depend on them. */
static void hide_rows(const struct flow_scene *scene, int64_t page, int64_t rows) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    for (int64_t n = 2 * rows; n < 2 * scene->problem.block_size; n++)
        for (int64_t head = 0; head < geometry->kv_heads; head++) {
            const struct kvmill_format *format = n % 2 ? &geometry->value : &geometry->key;
            int64_t slot = row_of_block(scene, page) + n / 2;
            for (int way = 0; way < FLOW_WAYS; way++)
                hide_row(format, n % 2 ? &scene->cache[way].value : &scene->cache[way].key, slot,
                         head);
        }
}

bool flow_scene_sums_up_same(struct flow_scene *scene, const struct flow_way way[FLOW_WAYS],
                             int64_t page, int64_t rows, struct dice *dice) {
    const int64_t slot[] = {-1, page * scene->problem.block_size + rows - 1};
    const struct flow_tokens tokens = {.slot = slot, .tokens = 2};
    const struct flow_span span = {0, 2};
    hide_rows(scene, page, rows);
    open_workspaces(scene, way, 0, dice);
    for (int w = 0; w < FLOW_WAYS; w++)
        kvmill_flow_summarise_span(&scene->problem, way[w].schedule, way[w].kernels,
                                   &scene->cache[w], &tokens, &span, workspace_of(scene, w));
    return close_workspaces(scene) && are_fields_same(scene) && are_rows_same(scene);
}

static bool are_scores_same(struct flow_scene *scene, const float *a, const float *b,
                            int64_t pages) {
    return a == NULL ? b == NULL
                     : are_floats_same(scene, KVMILL_F32, (const unsigned char *)a,
                                       (const unsigned char *)b, pages);
}

/* Returns random inputs. */
static const float *inputs(void) {
    static float numbers[1 << 17];
    for (int i = 0; numbers[1] == 0 && i < 1 << 17; i++)
        numbers[i] = (float)(i * 7919 % 17 - 8) / 8;
    return numbers;
}

bool flow_scene_scores_same(struct flow_scene *scene, const struct flow_way way[FLOW_WAYS],
                            int64_t pages, struct dice *dice) {
    const struct flow_span all = {0, pages};
    struct flow_scores scores[FLOW_WAYS];
    open_workspaces(scene, way, pages, dice);
    for (int w = 0; w < FLOW_WAYS; w++) {
        struct flow_scoring scoring = {.problem = &scene->problem,
                                       .schedule = way[w].schedule,
                                       .kernels = way[w].kernels,
                                       .cache = &scene->cache[w],
                                       .query = scene->query.data,
                                       .query_stride = flow_scene_query_stride(scene),
                                       .ids = scene->ids + scene->pool - pages,
                                       .pages = pages,
                                       .kv_head = pages % scene->problem.geometry.kv_heads};
        for (int i = 0; i < scene->problem.constant_count; i++)
            scoring.constant[i] = scene->problem.constants[i].values != NULL
                                      ? scene->problem.constants[i].values
                                      : inputs();
        kvmill_flow_prepare(&scoring, workspace_of(scene, w));
        kvmill_flow_score_span(&scoring, &all, workspace_of(scene, w));
        scores[w] = kvmill_flow_finish(&scoring, workspace_of(scene, w));
    }
    bool same = are_scores_same(scene, scores[0].first, scores[1].first, pages) &&
                are_scores_same(scene, scores[0].second, scores[1].second, pages);
    return close_workspaces(scene) && same && are_fields_same(scene);
}

/* Scores and lists in one step, like the phases of a plan. */
static void list_row(struct flow_scene *scene, const struct flow_way *way, int32_t *list) {
    const struct kvmill_cache_geometry *geometry = &scene->problem.geometry;
    int64_t blocks = scene->problem.page_blocks, pages = scene->pool / blocks;
    const int64_t indptr[] = {0, pages}, length[] = {pages * geometry->page_size};
    int32_t ids[FLOW_MOST_POOL], numbers[FLOW_MOST_POOL];
    const struct flow_batch batch = {1, pages, indptr, ids, length, pages, NULL};
    for (int64_t i = 0, next = 0; i < scene->pool; i++)
        if (scene->ids[i] < pages)
            ids[next++] = scene->ids[i];
    struct flow_queries queries = {.data = scene->query.data,
                                   .head = flow_scene_query_stride(scene)};
    for (int i = 0; i < KVMILL_MOST_FLOW_INPUTS; i++)
        queries.input[i] = inputs();
    struct flow_index index = {
        .problem = &scene->problem,
        .schedule = way->schedule,
        .kernels = way->kernels,
        .cache = &scene->cache[0],
        .batch = &batch,
        .queries = &queries,
        .row_bytes = kvmill_flow_head_workspace(&scene->problem, way->schedule, scene->pool),
        .blocks = numbers};
    const struct flow_span all = {0, kvmill_flow_candidates(&index, 0)};
    int64_t heads = kvmill_flow_scored_heads(&scene->problem);
    index.workspace = calloc((size_t)(heads * index.row_bytes) + 1, 1);
    FREED void *workspace =
        calloc((size_t)kvmill_flow_list_workspace(&scene->problem, scene->pool) + 1, 1);
    kvmill_flow_number_blocks(&index, 0);
    for (int64_t head = 0; head < heads; head++)
        kvmill_flow_prepare_head(&index, 0, head);
    kvmill_flow_score_heads(&index, 0, &all);
    kvmill_flow_list_row(&index, 0, 0, workspace, list, NULL);
    free(index.workspace);
}

bool flow_scene_lists_same(struct flow_scene *scene, const struct flow_way way[FLOW_WAYS]) {
    int64_t size = scene->problem.block_size, blocks = scene->problem.page_blocks;
    struct flow_row row =
        kvmill_flow_row_of(&scene->problem.budget, size, scene->pool / blocks * blocks * size);
    int32_t list[FLOW_WAYS][FLOW_MOST_POOL] = {{0}};
    for (int w = 0; w < FLOW_WAYS; w++)
        list_row(scene, &way[w], list[w]);
    return memcmp(list[0], list[1], (size_t)row.selected * sizeof **list) == 0;
}
