/* What must not matter to a step of a sparse flow: where pages lie, in which order requests come,
   who else asks the same, what is in pages that no list has; and scopes that mean the same.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "flow_step.h"
#include "packs.h"

static const kvmill_plan_options options_of[] = {
    {.struct_size = sizeof(kvmill_plan_options), .threads = 2},
    {.struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .threads = 2}};

static const kvmill_plan_options *options; /* of the case */

/* ---- What a run gives ---- */

/* Lists and output of decode; the latter of each request and query head, without gaps. */
struct decoded {
    int64_t *starts;
    int32_t *list;
    unsigned char *output;
    size_t row; /* bytes of a head's output */
};

static void copy_output(struct flow_step *step, struct decoded *decoded) {
    const struct fenced_tensor *tensor = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    int64_t size = tensor->dl.dtype.bits / 8, heads = tensor->shape[1];
    decoded->row = (size_t)(tensor->shape[2] * size);
    decoded->output = flow_step_take(tensor->shape[0] * heads, decoded->row);
    for (int64_t n = 0; n < tensor->shape[0] * heads; n++)
        memcpy(decoded->output + (size_t)n * decoded->row,
               (unsigned char *)flow_step_data(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT) +
                   (n / heads * tensor->strides[0] + n % heads * tensor->strides[1]) * size,
               decoded->row);
}

static bool decode(struct flow_step *step, struct decoded *decoded, struct dice *dice) {
    int64_t rows = step->attention.sequences * step->rows;
    flow_step_give(step, STEP_DECODE, true);
    bool ran = flow_step_runs(step, STEP_DECODE, options, (int)dice_range(dice, 0, 3), dice);
    decoded->starts = flow_step_take(rows + 1, sizeof *decoded->starts);
    if (ran)
        memcpy(decoded->starts, flow_step_data(step, KVMILL_FLOW_SEL_INDPTR),
               (size_t)(rows + 1) * sizeof *decoded->starts);
    decoded->list = flow_step_take(decoded->starts[rows], sizeof *decoded->list);
    memcpy(decoded->list, flow_step_data(step, KVMILL_FLOW_SEL),
           (size_t)decoded->starts[rows] * sizeof *decoded->list);
    copy_output(step, decoded);
    return ran;
}

static void decoded_close(struct decoded *decoded) {
    free(decoded->starts);
    free(decoded->list);
    free(decoded->output);
}

/* Request a of one is request b of the other. */
static bool is_same_request(const struct flow_step *step, const struct decoded *x, int64_t a,
                            const struct decoded *y, int64_t b) {
    size_t bytes = (size_t)step->attention.op.num_heads * x->row;
    bool same = memcmp(x->output + (size_t)a * bytes, y->output + (size_t)b * bytes, bytes) == 0;
    for (int64_t r = 0; same && r < step->rows; r++) {
        const int64_t *first = &x->starts[a * step->rows + r],
                      *second = &y->starts[b * step->rows + r];
        size_t size = (size_t)(first[1] - first[0]) * sizeof *x->list;
        same = first[1] - first[0] == second[1] - second[0] &&
               memcmp(x->list + first[0], y->list + second[0], size) == 0;
    }
    return same;
}

/* ---- Rows of the cache ---- */

/* K or V: bytes of a row and of its scales, and where they are. */
struct rows {
    struct oracle_side side;
    const struct oracle_attention *problem;
    int v;
};

static struct rows rows_of(const struct oracle_attention *problem, int v) {
    return (struct rows){v ? problem->value : problem->key, problem, v};
}

static int64_t number_of(const struct rows *rows, int64_t slot, int64_t head) {
    const struct oracle_cache *cache = &rows->problem->cache;
    return oracle_row(cache, 0, rows->problem->layer, rows->v && cache->sides == 2, slot, head);
}

static size_t row_bytes(const struct rows *rows) {
    return (size_t)oracle_bytes(rows->side.type, rows->side.dim);
}

static size_t scale_bytes(const struct rows *rows) {
    int64_t groups = rows->side.group ? rows->side.dim / rows->side.group : 0;
    return (size_t)(groups ? oracle_bytes(rows->side.scale_type, groups) : 0);
}

/* All ones: NaN in floats, in scales, and in the scales of blocks. */
static void poison_row(const struct rows *rows, int64_t slot, int64_t head) {
    size_t number = (size_t)number_of(rows, slot, head);
    memset(rows->side.data + number * row_bytes(rows), 0xff, row_bytes(rows));
    if (rows->side.group)
        memset(rows->side.scale + number * scale_bytes(rows), 0xff, scale_bytes(rows));
}

static void move_row(const struct rows *from, const struct rows *to, int64_t old, int64_t new,
                     int64_t head) {
    size_t source = (size_t)number_of(from, old, head), target = (size_t)number_of(to, new, head);
    memcpy(to->side.data + target * row_bytes(to), from->side.data + source * row_bytes(to),
           row_bytes(to));
    if (to->side.group)
        memcpy(to->side.scale + target * scale_bytes(to),
               from->side.scale + source * scale_bytes(to), scale_bytes(to));
}

static void refresh_caches(struct flow_step *step) {
    for (int i = KVMILL_CACHE_ATTENTION_CACHE; i <= KVMILL_CACHE_ATTENTION_VALUE_SCALE; i++)
        if (step->attention.tensor[i].fence.pages != NULL)
            attention_refresh(&step->attention, i);
}

/* ---- Pages elsewhere ---- */

static size_t dense_size(const struct flow_step *step, int which) {
    const DLTensor *tensor = &step->attention.tensor[which].dl;
    size_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)tensor->shape[d];
    return (count * tensor->dtype.bits + 7) / 8;
}

/* The dense arrays of caches as they were: page p will be where place[p] says. */
static void move_pages(struct flow_step *step, const int64_t *place) {
    const struct oracle_attention to = attention_problem(&step->attention);
    struct attention before = step->attention;
    int64_t size = step->attention.op.page_size;
    for (int i = KVMILL_CACHE_ATTENTION_CACHE; i <= KVMILL_CACHE_ATTENTION_VALUE_SCALE; i++)
        if (before.tensor[i].fence.pages != NULL) {
            before.dense[i] = flow_step_take((int64_t)dense_size(step, i), 1);
            memcpy(before.dense[i], step->attention.dense[i], dense_size(step, i));
        }
    const struct oracle_attention from = attention_problem(&before);
    for (int v = 0; v < 2; v++) {
        const struct rows old = rows_of(&from, v), new = rows_of(&to, v);
        for (int64_t s = 0; s < step->limits.cache_pages * size; s++)
            for (int64_t h = 0; h < to.kv_heads; h++)
                move_row(&old, &new, s, place[s / size] * size + s % size, h);
    }
    for (int i = KVMILL_CACHE_ATTENTION_CACHE; i <= KVMILL_CACHE_ATTENTION_VALUE_SCALE; i++)
        if (before.tensor[i].fence.pages != NULL)
            free(before.dense[i]);
    refresh_caches(step);
}

static void move_fields(struct flow_step *step, const int64_t *place) {
    for (int i = KVMILL_FLOW_FIELDS; i < FLOW_STEP_TENSORS; i++) {
        unsigned char *old = flow_step_copy(step, i), *new = flow_step_tensor(step, i)->fence.data;
        size_t bytes = flow_step_tensor(step, i)->fence.size / (size_t)step->limits.cache_pages;
        for (int64_t p = 0; p < step->limits.cache_pages; p++)
            memcpy(new + (size_t)place[p] * bytes, old + (size_t)p * bytes, bytes);
        free(old);
    }
}

static void move_all(struct flow_step *step, struct dice *dice) {
    int64_t *place = flow_step_take(step->limits.cache_pages, sizeof *place);
    dice_order(dice, place, step->limits.cache_pages);
    if (step->limits.cache_pages > 0)
        move_fields(step, place);
    move_pages(step, place);
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t p = 0; p < flow_step_pages(step, b); p++)
            *flow_step_page(step, b, p) = (int32_t)place[*flow_step_page(step, b, p)];
    free(place);
}

/* ---- Pages that no list has ---- */

static bool is_listed(const struct flow_step *step, const struct decoded *decoded, int64_t request,
                      int64_t kv_head, int64_t page) {
    const kvmill_cache_attention *op = &step->attention.op;
    int64_t ratio = op->num_heads / op->num_kv_heads;
    for (int64_t h = kv_head * ratio; h < (kv_head + 1) * ratio; h++) {
        const int64_t *starts =
            decoded->starts + request * step->rows + h * step->rows / op->num_heads;
        for (int64_t i = starts[0]; i < starts[1]; i++)
            if (decoded->list[i] == page)
                return true;
    }
    return false;
}

/* How many pages of heads were. */
static int poison_rest(struct flow_step *step, const struct decoded *decoded) {
    const struct oracle_attention problem = attention_problem(&step->attention);
    int64_t size = step->attention.op.page_size;
    int poisoned = 0;
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t n = 0; n < flow_step_pages(step, b) * problem.kv_heads; n++) {
            int64_t page = n / problem.kv_heads, head = n % problem.kv_heads;
            if (is_listed(step, decoded, b, head, page))
                continue;
            for (int64_t s = 0; s < 2 * size; s++) {
                const struct rows rows = rows_of(&problem, (int)(s % 2));
                poison_row(&rows, *flow_step_page(step, b, page) * size + s / 2, head);
            }
            poisoned++;
        }
    refresh_caches(step);
    return poisoned;
}

/* ---- Requests in another order ---- */

static void move_query(struct flow_step *step, const unsigned char *old, int64_t from, int64_t to) {
    const struct fenced_tensor *query = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_QUERY);
    int64_t size = query->dl.dtype.bits / 8, first = (int64_t)query->dl.byte_offset;
    int64_t row = ((query->shape[1] - 1) * query->strides[1] + query->shape[2]) * size;
    memcpy((unsigned char *)query->dl.data + first + to * query->strides[0] * size,
           old + first + from * query->strides[0] * size, (size_t)row);
}

/* Request order[b] becomes request b; several may be the same one. */
static void order_requests(struct flow_step *step, const int64_t *order) {
    unsigned char *query = flow_step_copy(step, KVMILL_CACHE_ATTENTION_QUERY);
    int32_t *ids = flow_step_copy(step, KVMILL_FLOW_PAGE_IDS);
    int64_t *length = flow_step_data(step, KVMILL_FLOW_SEQ_LEN);
    int64_t *indptr = flow_step_data(step, KVMILL_FLOW_PAGE_INDPTR);
    for (int64_t b = 0; b < step->attention.sequences; b++) {
        int64_t from = order[b], pages = flow_step_pages(step, from);
        move_query(step, query, from, b);
        length[b] = step->length[from];
        indptr[b + 1] = indptr[b] + pages;
        memcpy((int32_t *)flow_step_data(step, KVMILL_FLOW_PAGE_IDS) + indptr[b],
               ids + step->indptr[from], (size_t)pages * sizeof *ids);
    }
    free(query);
    free(ids);
}

/* ---- Cases ---- */

enum { MOVED, POISONED, ORDERED, ALIKE, TESTS };

/* What must not matter; request order[b] becomes request b.  Alike: the shortest in place of all,
   whose lists there is room for. */
static void change(struct flow_step *step, int test, const struct decoded *decoded,
                   int64_t order[MOST_SEQUENCES], int *poisoned, struct dice *dice) {
    int64_t least = 0;
    for (int64_t b = 0; b < step->attention.sequences; b++) {
        least = flow_step_pages(step, b) < flow_step_pages(step, least) ? b : least;
        order[b] = b;
    }
    if (test == MOVED)
        move_all(step, dice);
    if (test == POISONED)
        *poisoned += poison_rest(step, decoded);
    if (test == ORDERED)
        dice_order(dice, order, step->attention.sequences);
    for (int64_t b = 0; test == ALIKE && b < step->attention.sequences; b++)
        order[b] = least;
    if (test >= ORDERED)
        order_requests(step, order);
}

static bool test_case(int test, int64_t number, int *poisoned, uint64_t seed) {
    struct flow_step step;
    struct decoded wanted, other;
    int64_t order[MOST_SEQUENCES];
    char words[32];
    snprintf(words, sizeof words, "case %d %" PRId64, test, number);
    struct dice dice = dice_for(seed, words);
    options = &options_of[number % 3 != 0];
    flow_step_choose(&step, number, &dice);
    flow_step_open(&step, &dice);
    bool right = decode(&step, &wanted, &dice);
    change(&step, test, &wanted, order, poisoned, &dice);
    right = decode(&step, &other, &dice) && right;
    for (int64_t b = 0; b < step.attention.sequences; b++)
        right = is_same_request(&step, &wanted, order[b], &other, b) && right;
    if (!right)
        diag("%s, scope %s", step.attention.words, step.select.scope);
    decoded_close(&wanted);
    decoded_close(&other);
    flow_step_close(&step);
    return right;
}

static void test_moves(uint64_t seed) {
    static const char *const names[TESTS] = {
        "pages may lie anywhere", "pages that no list has may hold NaN",
        "requests may come in any order", "requests that are equal have equal results"};
    int64_t count = is_slow_run() ? few_cases(9) : 63;
    int poisoned = 0;
    for (int test = 0; test < TESTS; test++) {
        bool right = true;
        for (int64_t n = 0; n < count; n++)
            right = test_case(test, n, &poisoned, seed) && right;
        ok(right, "%s, %" PRId64 " cases", names[test], count);
    }
    ok(poisoned > count, "%d pages held NaN", poisoned);
}

/* ---- Scopes that mean the same ---- */

/* With a query head to each kv head, or one kv head: the same lists, and the same bits. */
static void test_scopes(uint64_t seed) {
    static const struct {
        int64_t heads, kv_heads;
        const char *scope, *like;
    } pairs[] = {{8, 8, "query_head", "kv_head"}, {5, 1, "request", "kv_head"}};
    for (int i = 0; i < 2; i++) {
        bool right = true;
        for (int64_t n = 0; n < few_cases(18); n++) {
            struct decoded decoded[2];
            struct flow_step step;
            for (int k = 0; k < 2; k++) {
                struct dice dice = dice_for(seed, pairs[i].scope);
                dice.state += (uint64_t)n;
                options = &options_of[n % 2];
                flow_step_choose(&step, n, &dice);
                step.attention.op.num_heads = pairs[i].heads;
                step.attention.op.num_kv_heads = pairs[i].kv_heads;
                step.select.scope = k ? pairs[i].scope : pairs[i].like;
                flow_step_open(&step, &dice);
                right = decode(&step, &decoded[k], &dice) && right;
                if (k == 0)
                    flow_step_close(&step);
            }
            for (int64_t b = 0; b < step.attention.sequences; b++)
                right = right && is_same_request(&step, &decoded[0], b, &decoded[1], b);
            flow_step_close(&step);
            decoded_close(&decoded[0]);
            decoded_close(&decoded[1]);
        }
        ok(right, "%" PRId64 " heads of %" PRId64 ": scope %s is %s", pairs[i].heads,
           pairs[i].kv_heads, pairs[i].scope, pairs[i].like);
    }
}

int main(void) {
    uint64_t seed = dice_seed();
    test_moves(seed);
    test_scopes(seed);
    return done_testing();
}
