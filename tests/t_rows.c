/* Every kernel of every linked pack against what kvmill_kernel.h says it does: problems that fit
   its shape, in fenced buffers, its units of work in random pieces and order.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "fence.h"
#include "packs.h"
#include "tap.h"
#include "walk.h"

static uint64_t seed;
static int64_t cases;

/* ---- Problems that fit a shape ---- */

enum layout { DENSE, TOKEN_MAJOR, GAPS, BACKWARDS, LAYOUTS };

struct folded {
    struct kvmill_row_strides stride;
    int64_t slots;
    int64_t origin, units; /* unit 0, and how many there are, from the lowest on */
    struct fence fence;
};

struct problem {
    const struct kvmill_kernel *kernel;
    struct kvmill_rows rows;
    int bits;
    bool circular; /* starts may wrap */
    struct folded past, update, present, expected;
    struct fence starts;
    char words[512];
};

static bool is_store(const struct problem *problem) {
    return problem->kernel->family == KVMILL_STORE_ROWS;
}

static int64_t field_or(int64_t field, int64_t choice) {
    return field == KVMILL_ANY ? choice : field;
}

static int64_t any_row(struct dice *dice, bool large) {
    static const int64_t rows[] = {1, 2, 3, 5, 7, 16, 31, 64, 65, 127, 160, 255, 257};
    int64_t row = rows[dice_range(dice, 0, sizeof rows / sizeof *rows - 1)];
    return large ? row + dice_range(dice, 800, 1200) : row;
}

/* Now and then so many rows that runs are longer than 64 KiB. */
static int64_t any_rows(struct dice *dice, int64_t row, int64_t capacity, bool large) {
    int64_t rows = large ? 70000 / row + 1 : dice_range(dice, 0, 9);
    return capacity != KVMILL_ANY && rows > capacity ? dice_range(dice, 0, capacity) : rows;
}

static void choose_counts(struct problem *problem, struct dice *dice) {
    static const int64_t batches[] = {0, 1, 1, 2, 3, 3};
    const struct kvmill_rows_shape *shape = problem->kernel->shape;
    struct kvmill_rows *rows = &problem->rows;
    bool large = dice_once_in(dice, 8);
    rows->batch = large ? 1 : batches[dice_range(dice, 0, 5)];
    rows->heads = field_or(shape->heads, dice_range(dice, 1, large ? 2 : 5));
    rows->row = field_or(shape->row, any_row(dice, large));
    rows->rows = field_or(shape->rows, any_rows(dice, rows->row, shape->capacity, large));
    int64_t spare = dice_once_in(dice, 3) ? 0 : dice_range(dice, 0, large ? 90 : 20);
    rows->capacity = field_or(shape->capacity, rows->rows + spare + !(rows->rows + spare));
    bool may_cut = problem->bits == 8;
    rows->chunks = may_cut ? dice_range(dice, 1, 5) : 1;
    rows->stream_store = rows->stream_keep = dice_range(dice, 0, 1);
}

static int64_t choose_start(const struct problem *problem, struct dice *dice) {
    int64_t capacity = problem->rows.capacity, last = capacity - problem->rows.rows;
    const int64_t linear[] = {0, last, last > 0, dice_range(dice, 0, last)};
    const int64_t wrapped[] = {capacity - 1,
                               last + (last < capacity - 1),
                               dice_range(dice, 0, capacity - 1),
                               capacity,
                               capacity + 1,
                               3 * capacity - 1,
                               INT64_MAX,
                               (int64_t)(dice_bits(dice) >> 1)};
    bool wrap = problem->circular && !dice_once_in(dice, 4);
    return wrap ? wrapped[dice_range(dice, 0, 7)] : linear[dice_range(dice, 0, 3)];
}

/* ---- Memory ---- */

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

/* Steps between rows, heads and batch entries; only rows of whole bytes may lie apart. */
static void choose_layout(const struct problem *problem, struct folded *cache, struct dice *dice) {
    const struct kvmill_rows *rows = &problem->rows;
    enum layout layout = problem->bits == 8 ? dice_range(dice, 0, LAYOUTS - 1) : DENSE;
    int64_t gap = layout == DENSE ? 0 : dice_range(dice, 0, 40);
    struct kvmill_row_strides stride = {.row = rows->row, .head = rows->row * cache->slots};
    if (layout == TOKEN_MAJOR)
        stride = (struct kvmill_row_strides){.head = rows->row + gap,
                                             .row = (rows->row + gap) * rows->heads};
    if (layout == GAPS || layout == BACKWARDS)
        stride = (struct kvmill_row_strides){.row = rows->row + gap,
                                             .head = (rows->row + gap) * cache->slots + gap};
    stride.batch = rows->row * rows->heads * cache->slots + gap * (rows->heads + 1) * cache->slots +
                   gap * rows->heads;
    if (layout == BACKWARDS)
        stride.batch = -stride.batch;
    cache->stride = stride;
}

static void open_folded(const struct problem *problem, struct folded *cache, struct dice *dice) {
    const struct kvmill_rows *rows = &problem->rows;
    int64_t back = (rows->batch - 1) * cache->stride.batch;
    bool empty = rows->batch == 0 || cache->slots == 0;
    cache->origin = !empty && back < 0 ? -back : 0;
    cache->units = empty ? 0
                         : magnitude(back) + (rows->heads - 1) * cache->stride.head +
                               (cache->slots - 1) * cache->stride.row + rows->row;
    int misalignment = dice_once_in(dice, 2) ? FENCE_FLUSH : (int)dice_range(dice, 0, 63);
    enum fence_side side = dice_once_in(dice, 3) ? FENCE_BELOW : FENCE_ABOVE;
    size_t bytes = (size_t)(cache->units * problem->bits + 7) / 8;
    fence_open(&cache->fence, bytes, misalignment, side, dice);
}

static unsigned char *first_unit(const struct problem *problem, const struct folded *cache) {
    return cache->fence.data + cache->origin * problem->bits / 8;
}

/* Indices at any address, next to each other or apart, also in reverse. */
static void open_starts(struct problem *problem, struct dice *dice) {
    struct kvmill_rows *rows = &problem->rows;
    int64_t step = dice_range(dice, 1, 3) * (dice_once_in(dice, 4) ? -1 : 1);
    int64_t reach = rows->batch > 0 ? (rows->batch - 1) * step : 0;
    size_t size = rows->batch > 0 ? (size_t)(magnitude(reach) + 1) * 8 : 0;
    fence_open(&problem->starts, size, (int)dice_range(dice, FENCE_FLUSH, 63), FENCE_ABOVE, dice);
    rows->starts = NULL;
    if (dice_once_in(dice, 8))
        return;
    unsigned char *first = problem->starts.data + (reach < 0 ? -reach * 8 : 0);
    rows->starts = (const kvmill_index *)(const void *)first;
    rows->starts_stride = step;
    for (int64_t b = 0; b < rows->batch; b++) {
        int64_t start = choose_start(problem, dice);
        memcpy(first + b * step * 8, &start, sizeof start);
    }
}

static void open_caches(struct problem *problem, struct dice *dice) {
    struct kvmill_rows *rows = &problem->rows;
    problem->past.slots = problem->present.slots = rows->capacity;
    problem->update.slots = rows->rows;
    struct folded *source = is_store(problem) ? &problem->update : &problem->past;
    choose_layout(problem, source, dice);
    choose_layout(problem, &problem->present, dice);
    open_folded(problem, source, dice);
    open_folded(problem, &problem->present, dice);
    problem->expected = problem->present;
    fence_open(&problem->expected.fence, problem->present.fence.size, FENCE_FLUSH, FENCE_ABOVE,
               dice);
    memcpy(problem->expected.fence.data, problem->present.fence.data, problem->present.fence.size);
    /* What the family has no use for, it must not look at. */
    rows->past = is_store(problem) ? NULL : first_unit(problem, source);
    rows->update = is_store(problem) ? first_unit(problem, source) : NULL;
    rows->present = first_unit(problem, &problem->present);
    rows->past_stride = problem->past.stride;
    rows->update_stride = problem->update.stride;
    rows->present_stride = problem->present.stride;
}

static void close_problem(struct problem *problem) {
    fence_close(&problem->past.fence);
    fence_close(&problem->update.fence);
    fence_close(&problem->present.fence);
    fence_close(&problem->expected.fence);
    fence_close(&problem->starts);
}

/* ---- The families in plain words ---- */

static void copy_unit(const struct problem *problem, unsigned char *to, int64_t at,
                      const unsigned char *from, int64_t begin) {
    if (problem->bits == 8) {
        to[at] = from[begin];
        return;
    }
    unsigned nibble = begin % 2 ? from[begin / 2] >> 4 : from[begin / 2] & 0x0f;
    unsigned byte = to[at / 2];
    to[at / 2] = (unsigned char)(at % 2 ? (byte & 0x0f) | nibble << 4 : (byte & 0xf0) | nibble);
}

static void copy_row(struct problem *problem, int64_t b, int64_t h, int64_t slot,
                     const struct folded *source, int64_t row) {
    const struct kvmill_row_strides *to = &problem->expected.stride, *from = &source->stride;
    int64_t at = problem->expected.origin + b * to->batch + h * to->head + slot * to->row;
    int64_t begin = source->origin + b * from->batch + h * from->head + row * from->row;
    for (int64_t i = 0; i < problem->rows.row; i++)
        copy_unit(problem, problem->expected.fence.data, at + i, source->fence.data, begin + i);
}

static int64_t start_of(const struct problem *problem, int64_t b) {
    const struct kvmill_rows *rows = &problem->rows;
    return rows->starts == NULL ? 0 : rows->starts[b * rows->starts_stride] % rows->capacity;
}

static void store_head(struct problem *problem, int64_t b, int64_t h) {
    for (int64_t s = 0; s < problem->rows.rows; s++)
        copy_row(problem, b, h, (start_of(problem, b) + s) % problem->rows.capacity,
                 &problem->update, s);
}

static void keep_head(struct problem *problem, int64_t b, int64_t h) {
    int64_t capacity = problem->rows.capacity, start = start_of(problem, b);
    for (int64_t slot = 0; slot < capacity; slot++)
        if ((slot - start + capacity) % capacity >= problem->rows.rows)
            copy_row(problem, b, h, slot, &problem->past, slot);
}

static void compute_expected(struct problem *problem) {
    for (int64_t b = 0; b < problem->rows.batch; b++)
        for (int64_t h = 0; h < problem->rows.heads; h++)
            (is_store(problem) ? store_head : keep_head)(problem, b, h);
}

/* ---- Running: random pieces of [0, units), shuffled ---- */

enum { MOST_PIECES = 7 };

static int compare_cuts(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Neighbouring rows of nibbles share bytes: only every second boundary is on a whole byte. */
static int64_t choose_cut(const struct problem *problem, int64_t units, struct dice *dice) {
    int64_t cut = dice_range(dice, 0, units);
    return problem->bits == 4 && cut != units ? cut / 2 * 2 : cut;
}

static void run_in_pieces(const struct problem *problem, struct dice *dice) {
    const struct kvmill_rows *rows = &problem->rows;
    int64_t units =
        problem->kernel->whole_batch ? rows->batch : rows->batch * rows->heads * rows->chunks;
    int64_t pieces = dice_range(dice, 1, MOST_PIECES), cuts[MOST_PIECES + 1] = {0};
    int64_t order[MOST_PIECES];
    for (int64_t i = 1; i < pieces; i++)
        cuts[i] = choose_cut(problem, units, dice);
    cuts[pieces] = units;
    qsort(cuts, (size_t)pieces + 1, sizeof *cuts, compare_cuts);
    dice_order(dice, order, pieces);
    for (int64_t i = 0; i < pieces; i++)
        problem->kernel->run(rows, cuts[order[i]], cuts[order[i] + 1]);
}

static void protect_inputs(const struct problem *problem, bool read_only) {
    const struct folded *source = is_store(problem) ? &problem->update : &problem->past;
    fence_protect(&source->fence, read_only);
    fence_protect(&problem->starts, read_only);
}

static void put_into_words(struct problem *problem) {
    const struct kvmill_rows *rows = &problem->rows;
    const struct folded *source = is_store(problem) ? &problem->update : &problem->past;
    snprintf(
        problem->words, sizeof problem->words,
        "%s: batch %" PRId64 ", heads %" PRId64 ", capacity %" PRId64 ", rows %" PRId64
        ", row %" PRId64 ", chunks %" PRId64 ", stream %" PRId64 ", starts %" PRId64 " %" PRId64
        " %" PRId64 ", present steps %" PRId64 " %" PRId64 " %" PRId64
        " at %d, source steps %" PRId64 " %" PRId64 " %" PRId64 " at %d",
        problem->kernel->symbol, rows->batch, rows->heads, rows->capacity, rows->rows, rows->row,
        rows->chunks, rows->stream_store, rows->batch > 0 ? start_of(problem, 0) : -1,
        rows->batch > 1 ? start_of(problem, 1) : -1, rows->batch > 2 ? start_of(problem, 2) : -1,
        rows->present_stride.batch, rows->present_stride.head, rows->present_stride.row,
        (int)((uintptr_t)rows->present % 64), source->stride.batch, source->stride.head,
        source->stride.row, (int)((uintptr_t)first_unit(problem, source) % 64));
}

/* ---- Judging ---- */

static bool is_as_expected(const struct problem *problem) {
    const struct fence *have = &problem->present.fence, *want = &problem->expected.fence;
    size_t i = 0;
    while (i < have->size && have->data[i] == want->data[i])
        i++;
    if (i == have->size)
        return true;
    diag("%s", problem->words);
    diag("byte %zu of %zu of present: have %02x, want %02x", i, have->size, have->data[i],
         want->data[i]);
    return false;
}

static bool is_intact(const struct problem *problem) {
    const struct fence *const fences[] = {
        &problem->present.fence, is_store(problem) ? &problem->update.fence : &problem->past.fence,
        &problem->starts};
    int64_t where;
    for (int i = 0; i < 3; i++)
        if (!fence_is_intact(fences[i], &where)) {
            diag("%s", problem->words);
            diag("byte %" PRId64 " of buffer %d of %zu bytes is outside, but was written", where, i,
                 fences[i]->size);
            return false;
        }
    return true;
}

/* Bytes moved, or -1 after a failure. */
static int64_t run_case(const struct kvmill_kernel *kernel, struct dice *dice) {
    const struct kvmill_rows_shape *shape = kernel->shape;
    struct problem problem = {
        .kernel = kernel, .bits = shape->unit_bits, .circular = shape->circular};
    choose_counts(&problem, dice);
    open_starts(&problem, dice);
    open_caches(&problem, dice);
    put_into_words(&problem);
    fence_explain_traps(problem.words);
    compute_expected(&problem);
    protect_inputs(&problem, true);
    run_in_pieces(&problem, dice);
    protect_inputs(&problem, false);
    bool good = is_as_expected(&problem) && is_intact(&problem);
    int64_t moved = (int64_t)problem.present.fence.size;
    close_problem(&problem);
    cases++;
    return good ? moved : -1;
}

/* ---- The walk ---- */

static void test_kernel(const struct kvmill_kernel *kernel) {
    int most_cases = is_slow_run() ? 6 : 400;
    int64_t most_bytes = is_slow_run() ? 2000000 : 60000000, moved = 0;
    if (!isa_is_allowed(kernel->isa)) {
        skip_test("%s: this CPU or KVMILL_ISA rules out %s", kernel->symbol, kernel->isa);
        return;
    }
    struct dice dice = dice_for_kernel(seed, kernel);
    bool good = true;
    for (int i = 0; good && i < most_cases && (i < 4 || moved < most_bytes); i++) {
        int64_t bytes = run_case(kernel, &dice);
        good = bytes >= 0;
        moved += bytes;
    }
    ok(good, "%s", kernel->symbol);
}

int main(void) {
    seed = dice_seed();
    for (size_t p = 0; p < PACKS; p++)
        for (uint32_t k = 0; k < packs[p]->count; k++)
            if (packs[p]->kernels[k]->family == KVMILL_STORE_ROWS ||
                packs[p]->kernels[k]->family == KVMILL_KEEP_ROWS)
                test_kernel(packs[p]->kernels[k]);
    ok(cases > 0, "%" PRId64 " problems were run", cases);
    return done_testing();
}
