/* Changes that must not matter to a step of a sparse flow: other places of pages, another order of
   requests, equal requests, other contents of pages that are in no list; and scopes with the same
   meaning.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "flow_step.h"
#include "packs.h"

/* ---- Results of a run ---- */

/* Lists and output of decode; the output without gaps. */
struct decoded {
    int64_t *starts;
    int32_t *list;
    unsigned char *output;
    size_t bytes; /* of a request's output */
};

static size_t bytes_of_request(const struct fenced_tensor *tensor) {
    return tensor_bytes(&tensor->dl, tensor->shape[1] * tensor->shape[2]);
}

static bool decode(struct flow_step *step, const kvmill_plan_options *options,
                   struct decoded *decoded, struct dice *dice) {
    flow_step_give(step, OP_FLOW_DECODE, true);
    bool ran = flow_step_runs(step, OP_FLOW_DECODE, options, (int)dice_range(dice, 0, 3), dice);
    decoded->starts = flow_step_copy(step, KVMILL_FLOW_SEL_INDPTR);
    decoded->list = flow_step_copy(step, KVMILL_FLOW_SEL);
    const struct fenced_tensor *output = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_ATTN_OUTPUT);
    decoded->output = tensor_gather(output);
    decoded->bytes = bytes_of_request(output);
    return ran;
}

static void decoded_close(struct decoded *decoded) {
    free(decoded->starts);
    free(decoded->list);
    free(decoded->output);
}

/* Whether request a of one run has the results of request b of the other. */
static bool is_same_request(const struct flow_step *step, const struct decoded *x, int64_t a,
                            const struct decoded *y, int64_t b) {
    bool same =
        memcmp(x->output + (size_t)a * x->bytes, y->output + (size_t)b * x->bytes, x->bytes) == 0;
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

/* A row of K or V, or its scales, in the dense arrays. */
struct part {
    unsigned char *array;
    struct oracle_tiles tiles;
    int64_t row, bytes;
};

enum { PARTS = 4 };

/* Returns part 0 (K), 1 (V), 2 or 3 (their scales); without bytes if it does not exist. */
static struct part part_of(const struct oracle_attention *problem, int which, int64_t slot,
                           int64_t head) {
    const struct oracle_side *side = which % 2 ? &problem->value : &problem->key;
    int64_t groups = side->group ? side->dim / side->group : 0;
    int64_t row = oracle_row_of(problem, which % 2, 0, slot, head);
    int64_t bytes = which < 2 ? oracle_bytes(side->type, side->dim)
                    : groups  ? oracle_bytes(side->scale_type, groups)
                              : 0;
    if (which < 2)
        return (struct part){side->data, side->tiles, row, bytes};
    return (struct part){side->scale, {0}, row, bytes};
}

static void take_part(const struct part *part, unsigned char *bytes) {
    oracle_take_row(&part->tiles, part->array, part->row, part->bytes, bytes);
}

static void put_part(const struct part *part, const unsigned char *bytes) {
    oracle_put_row(&part->tiles, part->array, part->row, part->bytes, bytes);
}

/* ---- Pages in other places ---- */

/* Moves rows so that page p is at place[p]. */
static void move_part(const struct flow_step *step, const struct oracle_attention *problem,
                      int which, int64_t head, const int64_t *place) {
    int64_t size = step->attention.op.page_size, slots = step->limits.cache_pages * size;
    int64_t bytes = part_of(problem, which, 0, head).bytes;
    FREED unsigned char *old = take(slots, (size_t)bytes);
    for (int64_t s = 0; s < slots; s++) {
        const struct part part = part_of(problem, which, s, head);
        take_part(&part, old + s * bytes);
    }
    for (int64_t s = 0; s < slots; s++) {
        const struct part part = part_of(problem, which, place[s / size] * size + s % size, head);
        put_part(&part, old + s * bytes);
    }
}

static void move_fields(struct flow_step *step, const int64_t *place) {
    for (int i = KVMILL_FLOW_FIELDS; i < FLOW_STEP_TENSORS; i++) {
        unsigned char *old = flow_step_copy(step, i), *new = flow_step_tensor(step, i)->fence.data;
        int64_t pages = step->limits.cache_pages;
        size_t bytes = flow_step_tensor(step, i)->fence.size / (size_t)(pages + (pages == 0));
        for (int64_t p = 0; p < pages; p++)
            memcpy(new + (size_t)place[p] * bytes, old + (size_t)p * bytes, bytes);
        free(old);
    }
}

static void move_all(struct flow_step *step, struct dice *dice) {
    const struct oracle_attention problem = attention_problem(&step->attention);
    FREED int64_t *place = take(step->limits.cache_pages, sizeof *place);
    dice_order(dice, place, step->limits.cache_pages);
    move_fields(step, place);
    for (int64_t n = 0; n < PARTS * problem.kv_heads; n++)
        move_part(step, &problem, (int)(n % PARTS), n / PARTS, place);
    attention_refresh_caches(&step->attention);
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t p = 0; p < flow_step_pages(step, b); p++)
            *flow_step_page(step, b, p) = (int32_t)place[*flow_step_page(step, b, p)];
}

/* ---- Blocks that are in no list ---- */

static bool is_listed(const struct flow_step *step, const struct decoded *decoded, int64_t request,
                      int64_t kv_head, int64_t block) {
    const kvmill_cache_attention *op = &step->attention.op;
    int64_t ratio = op->num_heads / op->num_kv_heads;
    for (int64_t h = kv_head * ratio; h < (kv_head + 1) * ratio; h++) {
        const int64_t *starts =
            decoded->starts + request * step->rows + h * step->rows / op->num_heads;
        for (int64_t i = starts[0]; i < starts[1]; i++)
            if (decoded->list[i] == block)
                return true;
    }
    return false;
}

/* Fills blocks that are in no list with ones: NaN in floats, in scales, and in the scales of
   blocks. Returns how many blocks of kv heads it filled. */
static int poison_rest(struct flow_step *step, const struct decoded *decoded) {
    const struct oracle_attention problem = attention_problem(&step->attention);
    int64_t size = flow_step_block_size(step);
    unsigned char none[4096];
    int poisoned = 0;
    memset(none, 0xff, sizeof none);
    for (int64_t b = 0; b < step->attention.sequences; b++)
        for (int64_t n = 0; n < flow_step_blocks(step, b) * problem.kv_heads; n++) {
            int64_t block = n / problem.kv_heads, head = n % problem.kv_heads;
            if (is_listed(step, decoded, b, head, block))
                continue;
            for (int64_t s = 0; s < PARTS * size; s++) {
                int64_t slot = flow_step_block(step, b, block) * size + s / PARTS;
                const struct part part = part_of(&problem, (int)(s % PARTS), slot, head);
                put_part(&part, none);
            }
            poisoned++;
        }
    attention_refresh_caches(&step->attention);
    return poisoned;
}

/* ---- Requests in another order ---- */

/* Makes request order[b] request b; several may be the same. */
static void order_requests(struct flow_step *step, const int64_t *order) {
    const struct fenced_tensor *query = flow_step_tensor(step, KVMILL_CACHE_ATTENTION_QUERY);
    size_t bytes = bytes_of_request(query);
    FREED unsigned char *old = tensor_gather(query), *rows = tensor_gather(query);
    FREED int32_t *ids = flow_step_copy(step, KVMILL_FLOW_PAGE_IDS);
    int64_t *length = flow_step_data(step, KVMILL_FLOW_SEQ_LEN);
    int64_t *indptr = flow_step_data(step, KVMILL_FLOW_PAGE_INDPTR);
    for (int64_t b = 0; b < step->attention.sequences; b++) {
        int64_t from = order[b], pages = flow_step_pages(step, from);
        memcpy(rows + (size_t)b * bytes, old + (size_t)from * bytes, bytes);
        length[b] = step->length[from];
        indptr[b + 1] = indptr[b] + pages;
        memcpy((int32_t *)flow_step_data(step, KVMILL_FLOW_PAGE_IDS) + indptr[b],
               ids + step->indptr[from], (size_t)pages * sizeof *ids);
    }
    tensor_move(query, rows, false);
}

/* ---- Cases ---- */

enum { MOVED, POISONED, ORDERED, ALIKE, TESTS };

/* Makes a change that must not matter; request order[b] becomes request b.  ALIKE: all become the
   shortest, since the lists have room for it. */
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

static bool test_case(int test, int64_t number, int *poisoned) {
    OWN(flow_step_close) struct flow_step step;
    OWN(decoded_close) struct decoded wanted, other;
    int64_t order[MOST_SEQUENCES];
    char words[32];
    snprintf(words, sizeof words, "case %d %" PRId64, test, number);
    struct dice dice = dice_for(words);
    const kvmill_plan_options *options = &two_threads[number % 3 != 0];
    flow_step_choose(&step, number, &dice);
    flow_step_open(&step, &dice);
    bool right = decode(&step, options, &wanted, &dice);
    change(&step, test, &wanted, order, poisoned, &dice);
    right = decode(&step, options, &other, &dice) && right;
    for (int64_t b = 0; b < step.attention.sequences; b++)
        right = is_same_request(&step, &wanted, order[b], &other, b) && right;
    return right || diag("%s, scope %s", step.attention.words, step.select.scope);
}

TEST(moves) {
    static const char *const names[TESTS] = {
        "pages may lie anywhere", "pages that no list has may hold NaN",
        "requests may come in any order", "requests that are equal have equal results"};
    int64_t count = is_slow_run() ? few_cases(9) : 63;
    int poisoned = 0;
    for (int test = 0; test < TESTS; test++) {
        bool right = true;
        for (int64_t n = 0; n < count; n++)
            right = test_case(test, n, &poisoned) && right;
        ok(right, "%s, %" PRId64 " cases", names[test], count);
    }
    ok(poisoned > count, "%d blocks held NaN", poisoned);
}

/* ---- Scopes with the same meaning ---- */

/* Whether the same step has the same lists and bits with both scopes. */
static bool is_same_with(const char *const scopes[2], int64_t heads, int64_t kv_heads, int64_t n) {
    struct decoded decoded[2];
    struct flow_step step;
    bool same = true;
    for (int k = 0; k < 2; k++) {
        struct dice dice = dice_for(scopes[0]);
        dice.state += (uint64_t)n;
        flow_step_choose(&step, n, &dice);
        step.attention.op.num_heads = heads;
        step.attention.op.num_kv_heads = kv_heads;
        step.attention.op.alibi_heads = step.attention.op.alibi_first = 0;
        step.select.scope = scopes[k];
        flow_step_open(&step, &dice);
        same = decode(&step, &two_threads[n % 2], &decoded[k], &dice) && same;
        for (int64_t b = 0; k == 1 && b < step.attention.sequences; b++)
            same = same && is_same_request(&step, &decoded[0], b, &decoded[1], b);
        flow_step_close(&step);
    }
    decoded_close(&decoded[0]);
    decoded_close(&decoded[1]);
    return same;
}

/* Tests one query head for each kv head, and one kv head. */
TEST(scopes) {
    static const struct {
        int64_t heads, kv_heads;
        const char *scopes[2];
    } pairs[] = {{8, 8, {"query_head", "kv_head"}}, {5, 1, {"request", "kv_head"}}};
    for (int i = 0; i < 2; i++) {
        bool right = true;
        for (int64_t n = 0; n < few_cases(18); n++)
            right = is_same_with(pairs[i].scopes, pairs[i].heads, pairs[i].kv_heads, n) && right;
        ok(right, "%" PRId64 " heads of %" PRId64 ": scope %s is %s", pairs[i].heads,
           pairs[i].kv_heads, pairs[i].scopes[0], pairs[i].scopes[1]);
    }
}
