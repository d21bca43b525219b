/* What a step must give, by the oracles: its lists, and its output.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/flow.h"
#include "flow_step.h"
#include "oracle/oracle_flow.h"

/* ---- Lists ---- */

/* The scorer of a row: rows of "q" of a kv head or of a query head, and a range of pages. */
struct scorer {
    int64_t request, kv_head, first_head, group, first, pages;
};

static double *query_of(struct flow_step *step, const struct scorer *scorer) {
    const struct fenced_tensor *tensor = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_QUERY);
    int64_t dim = step->attention.op.head_dim, heads = step->attention.op.num_heads;
    int64_t first = (scorer->request * heads + scorer->first_head) * dim;
    double *query = take(scorer->group * dim, sizeof *query);
    for (int64_t i = 0; i < scorer->group * dim; i++)
        query[i] = number_get(tensor->dl.dtype, tensor_element(tensor, first + i));
    return query;
}

static double *field_of(struct flow_step *step, const struct scorer *scorer, size_t field) {
    int64_t count = step->fields[field].rows * step->fields[field].columns;
    double *numbers = take(scorer->pages * count, sizeof *numbers);
    for (int64_t p = 0; p < scorer->pages; p++)
        for (int64_t i = 0; i < count; i++)
            numbers[p * count + i] = oracle_get(
                attention_type(step->fields[field].dtype),
                flow_step_field(step, (int)field,
                                flow_step_block(step, scorer->request, scorer->first + p),
                                scorer->kv_head),
                i);
    return numbers;
}

/* Returns K or V of all rows of the pages; a test's own flow may use them. */
static double *rows_of(struct flow_step *step, const struct scorer *scorer, int v) {
    const struct oracle_attention problem = attention_problem(&step->attention);
    const struct oracle_side *side = v ? &problem.value : &problem.key;
    int64_t size = flow_step_block_size(step);
    double *numbers = take(scorer->pages * size * side->dim, sizeof *numbers);
    for (int64_t r = 0; r < scorer->pages * size; r++) {
        int64_t page = flow_step_block(step, scorer->request, scorer->first + r / size);
        flow_step_read_floats(&problem, v, page * size + r % size, scorer->kv_head,
                              numbers + r * side->dim);
    }
    return numbers;
}

/* Returns the flow with the inputs of this row. */
static kvmill_flow with_inputs(struct flow_step *step, const struct scorer *scorer,
                               kvmill_flow_constant *constants) {
    kvmill_flow flow = step->flow;
    for (size_t i = 0; i < flow.constant_count; i++) {
        constants[i] = flow.constants[i];
        if (constants[i].values == NULL)
            constants[i].values = flow_step_input(step, i, scorer->request, scorer->kv_head);
    }
    flow.constants = constants;
    return flow;
}

/* Adds the scores of pages; `saved` gets the new values of fields. */
static void score(struct flow_step *step, const struct scorer *scorer, double *scores,
                  double *const *saved) {
    double *fields[MOST_STEP_FIELDS], *query = query_of(step, scorer), *rows[2] = {NULL, NULL};
    kvmill_flow_constant constants[KVMILL_MOST_FLOW_CONSTANTS];
    const kvmill_flow flow = with_inputs(step, scorer, constants);
    for (int v = 0; v < 2 && step->own != NULL; v++)
        rows[v] = rows_of(step, scorer, v);
    for (size_t i = 0; i < step->flow.field_count; i++)
        fields[i] = field_of(step, scorer, i);
    oracle_score(&flow, scorer->group, scorer->pages, query, rows[0], rows[1], fields, scores,
                 saved);
    for (size_t i = 0; i < step->flow.field_count; i++)
        free(fields[i]);
    free(rows[0]);
    free(rows[1]);
    free(query);
}

/* Allocates the values of a flow's Save; a field that it does not save is -infinity. */
static void open_saved(struct flow_step *step, const struct scorer *scorer, double **saved) {
    for (size_t f = 0; f < step->flow.field_count; f++) {
        int64_t count = step->fields[f].rows * step->fields[f].columns;
        saved[f] = take(scorer->pages * count, sizeof **saved);
        saved[f][0] = -INFINITY;
    }
}

static void close_saved(struct flow_step *step, const struct scorer *scorer, double **saved,
                        unsigned char *const *fields) {
    for (size_t f = 0; f < step->flow.field_count; f++) {
        int64_t count = step->fields[f].rows * step->fields[f].columns;
        bool is_saved = fields != NULL && saved[f][0] != -INFINITY;
        for (int64_t i = 0; is_saved && i < scorer->pages * count; i++) {
            int64_t block = flow_step_block(step, scorer->request, scorer->first + i / count);
            oracle_put(attention_type(step->fields[f].dtype), fields[f],
                       flow_step_matrix(step, (int)f, block, scorer->kv_head) * count + i % count,
                       saved[f][i]);
        }
        free(saved[f]);
    }
}

/* Scores row r of a request from the first candidate on: sums over all kv heads that share the
   row. */
static void score_row(struct flow_step *step, int64_t request, int64_t r, float *scores,
                      unsigned char *const *fields) {
    int64_t heads = step->attention.op.num_heads, ratio = heads / step->kv_heads;
    int64_t bos = step->select.reserved_bos, first = r * heads / step->rows;
    int64_t pages = flow_step_blocks(step, request) - bos - step->select.reserved_eos;
    int64_t kinds = step->rows < step->kv_heads ? step->kv_heads : 1;
    double *own = take(2 * pages, sizeof *own), *saved[MOST_STEP_FIELDS];
    for (int64_t n = 0; n < kinds; n++) {
        const struct scorer scorer = {request,
                                      first / ratio + n,
                                      first + n * ratio,
                                      step->rows > step->kv_heads ? 1 : ratio,
                                      bos,
                                      pages};
        open_saved(step, &scorer, saved);
        score(step, &scorer, own, saved);
        close_saved(step, &scorer, saved, fields);
        for (int64_t i = 0; i < pages; i++)
            scores[i] = (n == 0 ? 0 : scores[i]) + (float)own[i];
    }
    free(own);
}

/* Returns the selection with the request's own number of pages in place of the flow's. */
static kvmill_flow_select select_of(const struct flow_step *step, int64_t request) {
    kvmill_flow_select select = step->select;
    if (step->has_topk && step->topk[request] >= 0) {
        select.topk_val = step->topk[request];
        select.ratio_numerator = select.ratio_denominator = select.cap = 0;
    }
    return select;
}

static bool is_whole(const struct flow_step *step, int64_t request) {
    const kvmill_flow_select select = select_of(step, request);
    int64_t pages = flow_step_blocks(step, request);
    return step->skipped || step->length[request] < select.dense_below ||
           oracle_selected(&select, pages) == pages;
}

/* Whether some of the request's pages are selected by score, or scores are saved. */
static bool is_scored(const struct flow_step *step, int64_t request) {
    const kvmill_flow_select select = select_of(step, request);
    bool needed = oracle_selected(&select, flow_step_blocks(step, request)) >
                  select.reserved_bos + select.reserved_eos;
    for (size_t i = 0; i < step->flow.index_count; i++)
        needed = needed || strcmp(step->flow.index[i].op, "Save") == 0;
    return needed && step->flow.index_count > 0 && !is_whole(step, request);
}

/* Returns where a row's scores begin. */
static int64_t place_of_row(const struct flow_step *step, int64_t request, int64_t r) {
    int64_t room = flow_step_page_blocks(step);
    return step->indptr[request] * room * step->rows + r * flow_step_pages(step, request) * room;
}

static int64_t count_scores(const struct flow_step *step) {
    return step->indptr[step->attention.sequences] * flow_step_page_blocks(step) * step->rows;
}

void flow_step_expect_scores(struct flow_step *step, unsigned char *const *fields) {
    free(step->scores);
    step->scores = take(count_scores(step), sizeof *step->scores);
    for (int64_t i = 0; i < count_scores(step); i++)
        step->scores[i] = NAN;
    for (int64_t n = 0; n < step->attention.sequences * step->rows; n++) {
        int64_t b = n / step->rows, r = n % step->rows;
        if (is_scored(step, b))
            score_row(step, b, r,
                      step->scores + place_of_row(step, b, r) + step->select.reserved_bos, fields);
    }
}

static int64_t list_all(int64_t pages, int32_t *list) {
    for (int64_t p = 0; p < pages; p++)
        list[p] = (int32_t)p;
    return pages;
}

/* Moves the last page to the end of a list, if it is there: it may be partial. */
static void put_last(int32_t *list, int64_t count, int32_t last) {
    for (int64_t i = 0; i + 1 < count; i++)
        if (list[i] == last) {
            list[i] = list[i + 1];
            list[i + 1] = last;
        }
}

static int64_t list_row(struct flow_step *step, int64_t request, int64_t r, bool dense,
                        int32_t *list) {
    int64_t pages = flow_step_blocks(step, request);
    const float *scores =
        step->own != NULL ? flow_step_data(step, KVMILL_FLOW_SCORES) : step->scores;
    const kvmill_flow_select select = select_of(step, request);
    int64_t place = place_of_row(step, request, r);
    if (dense || is_whole(step, request))
        return list_all(pages, list);
    int64_t count = oracle_unite(&select, oracle_second(&step->flow), pages, scores + place,
                                 step->second != NULL ? step->second + place : NULL, list);
    if (select.reserved_eos == 0 && flow_step_block_size(step) > 1)
        put_last(list, count, (int32_t)pages - 1);
    return count;
}

static void expect_lists(struct flow_step *step, bool dense) {
    int64_t rows = step->attention.sequences * step->rows;
    step->starts = take(rows + 1, sizeof *step->starts);
    step->list =
        take(step->indptr[step->attention.sequences] * flow_step_page_blocks(step) * step->rows,
             sizeof *step->list);
    for (int64_t row = 0; row < rows; row++)
        step->starts[row + 1] =
            step->starts[row] + list_row(step, row / step->rows, row % step->rows, dense,
                                         step->list + step->starts[row]);
}

void flow_step_put_lists(struct flow_step *step) {
    int64_t rows = step->attention.sequences * step->rows;
    memcpy(flow_step_data(step, KVMILL_FLOW_SEL_INDPTR), step->starts,
           (size_t)(rows + 1) * sizeof *step->starts);
    memcpy(flow_step_data(step, KVMILL_FLOW_SEL), step->list,
           (size_t)step->starts[rows] * sizeof *step->list);
}

/* ---- Outputs ---- */

/* Sets the keys that a query head of a request attends to: tokens of the blocks of its list, within
   the window.  `rows` gets their K and V. */
static int64_t see(struct flow_step *step, const struct oracle_attention *problem, int64_t request,
                   int64_t head, struct oracle_key *keys, double *rows) {
    int64_t heads = problem->heads, size = flow_step_block_size(step), count = 0;
    int64_t row = request * step->rows + head * step->rows / heads;
    int64_t kv_head = head * step->kv_heads / heads, window = problem->window;
    for (int64_t i = step->starts[row] * size; i < step->starts[row + 1] * size; i++) {
        int64_t token = step->list[i / size] * size + i % size;
        int64_t distance = token - (step->length[request] - 1);
        if (distance > 0 || (window > 0 && distance <= -window))
            continue;
        int64_t slot = flow_step_block(step, request, step->list[i / size]) * size + i % size;
        double *k = rows, *v = k + problem->key.dim;
        oracle_see_row(problem, 0, 0, slot, kv_head, k);
        oracle_see_row(problem, 1, 0, slot, kv_head, v);
        rows = v + problem->value.dim;
        double bias = oracle_alibi(problem, head, distance);
        keys[count++] = (struct oracle_key){.k = k, .v = v, .bias = bias, .size = fabs(bias)};
    }
    return count;
}

static void expect_head(struct flow_step *step, int64_t request, int64_t head) {
    const struct oracle_attention problem = attention_problem(&step->attention);
    const struct scorer scorer = {.request = request, .first_head = head, .group = 1};
    int64_t row = request * problem.heads + head, dim = step->value_dim;
    int64_t most = step->limits.pages * step->attention.op.page_size;
    FREED struct oracle_key *keys = take(most, sizeof *keys);
    FREED double *rows = take(most * (problem.key.dim + dim), sizeof *rows);
    FREED double *query = query_of(step, &scorer);
    struct oracle_answer answer = {step->result.output + row * dim,
                                   step->result.output_error + row * dim, 0, 0};
    int64_t count = see(step, &problem, request, head, keys, rows);
    oracle_attend_keys(&problem, head, query, keys, count, &answer);
    step->result.lse[row] = answer.lse;
    step->result.lse_error[row] = answer.lse_error;
}

static void forget_result(struct flow_step *step) {
    free(step->result.output);
    free(step->result.output_error);
    free(step->result.lse);
    free(step->result.lse_error);
    step->result = (struct oracle_result){0};
}

void flow_step_expect_output(struct flow_step *step) {
    int64_t rows = step->attention.sequences * step->attention.op.num_heads,
            numbers = rows * step->value_dim;
    forget_result(step);
    step->result =
        (struct oracle_result){take(numbers, 8), take(numbers, 8), take(rows, 8), take(rows, 8)};
    for (int64_t n = 0; n < rows; n++)
        expect_head(step, n / step->attention.op.num_heads, n % step->attention.op.num_heads);
}

void flow_step_forget(struct flow_step *step) {
    free(step->starts);
    free(step->list);
    step->starts = NULL;
    step->list = NULL;
    forget_result(step);
}

void flow_step_expect(struct flow_step *step, bool dense) {
    flow_step_forget(step);
    if (step->own == NULL)
        flow_step_expect_scores(step, NULL);
    expect_lists(step, dense);
    flow_step_expect_output(step);
}

/* ---- Judging ---- */

/* Returns the id of a block as vFlow numbers them: by pages, then by heads. */
static int64_t id_of(struct flow_step *step, int64_t request, int64_t kv_head, int64_t block) {
    int64_t blocks = flow_step_page_blocks(step);
    int64_t page = *flow_step_page(step, request, block / blocks);
    return (page * step->kv_heads + kv_head) * blocks + block % blocks;
}

static bool is_list_right(struct flow_step *step, int64_t row) {
    const int32_t *list = flow_step_data(step, KVMILL_FLOW_SEL);
    const void *ids = flow_step_data(step, KVMILL_FLOW_BLOCK_IDS);
    bool wide = flow_step_tensor(step, KVMILL_FLOW_BLOCK_IDS)->dl.dtype.bits == 64;
    int64_t request = row / step->rows;
    int64_t kv_head = row % step->rows * step->kv_heads / step->rows;
    for (int64_t i = step->starts[row]; i < step->starts[row + 1]; i++) {
        int64_t id = id_of(step, request, kv_head, step->list[i]);
        int64_t have = wide ? ((const int64_t *)ids)[i] : ((const int32_t *)ids)[i];
        if (list[i] != step->list[i] || have != id)
            return diag("sel[%" PRId64 "] of row %" PRId64 " is %d, id %" PRId64
                        ", wanted %d, %" PRId64 "; %s",
                        i, row, (int)list[i], have, (int)step->list[i], id, step->attention.words);
    }
    return true;
}

/* Whether the numbers are equal, or differ by at most `error` times the larger size; for float16,
   `error` is a unit in the last place. */
static bool is_near(double found, double wanted, double size, double error) {
    return found == wanted || (isnan(found) && isnan(wanted)) ||
           fabs(found - wanted) <= error * fmax(size, fabs(wanted));
}

bool flow_step_are_near(const struct flow_step *step, const char *name, enum oracle_type type,
                        const void *have, const void *wanted, int64_t count, double size,
                        double error) {
    for (int64_t i = 0; i < count; i++) {
        double found = oracle_get(type, have, i), known = oracle_get(type, wanted, i);
        if (!is_near(found, known, size, error))
            return diag("%s, element %" PRId64 ": %.9g, wanted %.9g; %s", name, i, found, known,
                        step->attention.words);
    }
    return true;
}

double flow_step_largest(enum oracle_type type, const void *numbers, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(oracle_get(type, numbers, i));
        largest = isfinite(x) && x > largest && x < 1e29 ? x : largest;
    }
    return largest;
}

/* Whether the scores are right; those of Quest are exact. */
static bool are_scores_right(struct flow_step *step) {
    int64_t count = count_scores(step);
    return flow_step_are_near(step, "scores", ORACLE_F32, flow_step_data(step, KVMILL_FLOW_SCORES),
                              step->scores, count,
                              flow_step_largest(ORACLE_F32, step->scores, count),
                              step->own == NULL            ? 0
                              : oracle_rounds(&step->flow) ? 0x1p-6
                                                           : 2e-5);
}

/* Whether a caller counts the same list lengths before a run. */
static bool is_count_right(struct flow_step *step) {
    int64_t rows = step->attention.sequences * step->rows;
    FREED int64_t *starts = take(rows + 1, sizeof *starts);
    return (kvmill_flow_count(&step->flow, step->attention.sequences, step->length,
                              step->has_topk ? step->topk : NULL, starts, NULL) == KVMILL_OK &&
            memcmp(starts, step->starts, (size_t)(rows + 1) * sizeof *starts) == 0) ||
           diag("kvmill_flow_count; %s", step->attention.words);
}

bool flow_step_lists_are_right(struct flow_step *step) {
    int64_t rows = step->attention.sequences * step->rows;
    bool right = memcmp(flow_step_data(step, KVMILL_FLOW_SEL_INDPTR), step->starts,
                        (size_t)(rows + 1) * sizeof *step->starts) == 0;
    if (!right)
        diag("sel_indptr; %s", step->attention.words);
    for (int64_t row = 0; right && row < rows; row++)
        right = is_list_right(step, row);
    return right && are_scores_right(step) && is_count_right(step);
}

bool flow_step_output_is_right(struct flow_step *step) {
    const struct oracle_result *result = &step->result;
    const char *words = step->attention.words;
    return (!step->attention.op.partial ||
            tensor_is_close(flow_step_tensor(step, KVMILL_CACHE_ATTENTION_LSE), result->lse,
                            result->lse_error, "lse", words)) &&
           tensor_is_close(flow_step_tensor(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT),
                           result->output, result->output_error, "attn_output", words);
}
