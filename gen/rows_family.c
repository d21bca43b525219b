/* SPDX-License-Identifier: Apache-2.0 */
#include "rows_family.h"

#include <inttypes.h>
#include <string.h>

static const char *const units[] = {"u8", "u4", NULL};
static const char *const modes[] = {"linear", "circular", NULL};

enum { UNIT, HEADS, CAPACITY, ROWS, ROW, MODE, STORE_FIELDS };

static const struct field store_fields[] = {
    [UNIT] = {"unit", NULL, units, FIELD_TYPE},       [HEADS] = {"heads", "h", NULL, 0},
    [CAPACITY] = {"capacity", "m", NULL, 0}, [ROWS] = {"rows", "s", NULL, 0},
    [ROW] = {"row", "d", NULL, 0},           [MODE] = {"mode", NULL, modes, 0},
};

/* line: all heads and rows of a batch entry in straight-line code; heads: the rows of one head in
   straight-line code, in a loop of constant length over the heads; run: runs of rows. */
static const char *const store_variants[] = {"line", "heads", "run", NULL};

/* ---- Predicted size; a test holds it to a quarter ---- */

/* Steps of km_straight: a rest takes one, which overlaps, unless nothing wide came before it. */
static int64_t moves(int64_t bytes, int64_t width) {
    if (bytes < width && bytes > 0)
        return moves(bytes, width / 2);
    return bytes / width + (bytes % width != 0);
}

static int64_t row_code_bytes(const struct kernel *kernel) {
    int64_t row = kernel->value[ROW], width = kernel->isa->move_bytes;
    if (row == ANY_COUNT)
        return 0;
    if (!kernel->value[UNIT])
        return moves(row, width) * kernel->isa->size.move;
    int64_t joins = row / 2 / width + row / 2 % width / 8 + 1; /* wide, then 8 bytes */
    return 60 + (moves(row / 2, width) + joins) * kernel->isa->size.move * 8 / 5;
}

/* Rows that can go around the caches have two loops. */
static int64_t loop_count(const struct kernel *kernel) {
    int64_t stream = kernel->isa->stream_bytes;
    return stream > 0 && !kernel->value[UNIT] && kernel->value[ROW] % stream == 0 ? 2 : 1;
}

/* The body of a loop over the batch that stores `heads` heads. */
static int64_t loop_code_bytes(const struct kernel *kernel, int64_t heads) {
    const struct code_size *size = &kernel->isa->size;
    return size->batch + heads * kernel->value[ROWS] * (size->row + row_code_bytes(kernel));
}

static int64_t straight_code_bytes(const struct kernel *kernel) {
    bool line = strcmp(kernel->variant, "line") == 0;
    int64_t loop = loop_code_bytes(kernel, line ? kernel->value[HEADS] : 1);
    return kernel->isa->size.frame + loop_count(kernel) * loop;
}

static int64_t run_code_bytes(const struct kernel *kernel) {
    const struct code_size *size = &kernel->isa->size;
    return size->run + (kernel->value[MODE] ? size->ring : 0) + row_code_bytes(kernel) +
           (kernel->value[UNIT] ? size->run : 0);
}

static int64_t store_code_bytes(const struct kernel *kernel) {
    return strcmp(kernel->variant, "run") == 0 ? run_code_bytes(kernel)
                                               : straight_code_bytes(kernel);
}

static int64_t keep_code_bytes(const struct kernel *kernel) {
    return kernel->isa->size.keep * (kernel->value[UNIT] ? 2 : 1);
}

/* ---- How a shape is best stored ---- */

static bool is_short(int64_t units) {
    return units > 0 && units <= STRAIGHT_LINE_UNITS;
}

/* Whether the rows of `heads` heads can be one stretch of straight-line code. */
static bool is_stretch(const struct kernel *kernel, int64_t heads) {
    const int64_t *value = kernel->value;
    return is_short(heads) && is_short(value[ROWS]) && is_short(value[ROW]) &&
           is_short(heads * value[ROWS]) && is_short(heads * value[ROWS] * value[ROW]) &&
           loop_code_bytes(kernel, heads) <= STRAIGHT_LINE_CODE;
}

static bool can_be(const struct kernel *kernel, const char *variant) {
    if (strcmp(variant, "line") == 0)
        return is_stretch(kernel, kernel->value[HEADS]);
    return strcmp(variant, "heads") != 0 || (kernel->value[HEADS] > 0 && is_stretch(kernel, 1));
}

/* The first that can be: they stand in order of preference. */
static const char *best_variant(const struct kernel *kernel) {
    int i = 0;
    while (!can_be(kernel, store_variants[i]))
        i++;
    return store_variants[i];
}

static int64_t countable(int64_t count) {
    return count > MOST_COUNT ? ANY_COUNT : count;
}

/* Runs are walked row by row only where rows have gaps; then a short row is straight-line code. */
static void open_for_runs(int64_t *value) {
    value[HEADS] = value[ROWS] = ANY_COUNT;
    if (!value[UNIT] && !is_short(value[ROW]))
        value[ROW] = ANY_COUNT;
}

/* A linear cache has no end that matters to the kernel. */
static struct kernel store_kernel(const struct kvmill_rows_shape *shape, const struct isa *isa) {
    struct kernel kernel = {
        .family = &store_rows_family,
        .isa = isa,
        .value = {[UNIT] = shape->unit_bits == 4,
                  [HEADS] = countable(shape->heads),
                  [CAPACITY] = shape->circular ? countable(shape->capacity) : ANY_COUNT,
                  [ROWS] = countable(shape->rows),
                  [ROW] = countable(shape->row),
                  [MODE] = shape->circular},
    };
    kernel.variant = best_variant(&kernel);
    if (strcmp(kernel.variant, "run") == 0)
        open_for_runs(kernel.value);
    return kernel;
}

static struct kernel keep_kernel(const struct kvmill_rows_shape *shape, const struct isa *isa) {
    return (struct kernel){
        .family = &keep_rows_family,
        .isa = isa,
        .value = {[UNIT] = shape->unit_bits == 4},
        .variant = keep_rows_family.variants[0],
    };
}

/* Rows of an odd number of nibbles need to know that number. */
static bool has_kernels(const struct kvmill_rows_shape *shape) {
    return shape->heads != 0 && shape->capacity != 0 && shape->row != 0 &&
           (shape->unit_bits == 8 || (shape->row > 0 && shape->row <= MOST_COUNT));
}

bool rows_kernels(const struct kvmill_rows_shape *shape, const struct isa *isa,
                  struct kernel_list *list, struct error *error) {
    struct kernel store = store_kernel(shape, isa_plain(isa));
    struct kernel keep = keep_kernel(shape, isa_plain(isa));
    if (!has_kernels(shape))
        return true;
    return (shape->rows == 0 || kernel_list_add(list, &store, error)) &&
           kernel_list_add(list, &keep, error);
}

static bool store_is_legal(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    return isa_plain(kernel->isa) == kernel->isa && can_be(kernel, kernel->variant) &&
           value[CAPACITY] != 0 && value[ROW] != 0 &&
           (!value[UNIT] || value[ROW] % 2 == 1) && (value[MODE] || value[CAPACITY] == ANY_COUNT);
}

static bool keep_is_legal(const struct kernel *kernel) {
    return isa_plain(kernel->isa) == kernel->isa;
}

/* ---- Words ---- */

static void print_count(FILE *stream, int64_t count, const char *unit) {
    if (count == ANY_COUNT)
        fprintf(stream, "any number of %ss", unit);
    else
        fprintf(stream, "%" PRId64 " %s%s", count, unit, count == 1 ? "" : "s");
}

static void explain_how(const struct kernel *kernel, FILE *stream) {
    if (strcmp(kernel->variant, "line") == 0)
        fprintf(stream, "Straight-line loads and stores for all heads of a batch entry.\n");
    else if (strcmp(kernel->variant, "heads") == 0)
        fprintf(stream, "Straight-line loads and stores for one head, in a loop over the heads.\n");
    else
        fprintf(stream, "Rows that follow each other in memory are copied as one run.\n");
}

static void explain_store(const struct kernel *kernel, FILE *stream) {
    const int64_t *value = kernel->value;
    fprintf(stream, "Stores ");
    print_count(stream, value[ROWS], "new row");
    fprintf(stream, " of ");
    print_count(stream, value[ROW], value[UNIT] ? "nibble" : "byte");
    fprintf(stream, " for each of ");
    print_count(stream, value[HEADS], "head");
    fprintf(stream, " of every batch entry,\nfrom slot write_indices[b] on");
    if (value[MODE]) {
        fprintf(stream, ", wrapping around at the end of a ring of ");
        print_count(stream, value[CAPACITY], "slot");
    }
    fprintf(stream, ".\n");
    explain_how(kernel, stream);
}

static void explain_keep(const struct kernel *kernel, FILE *stream) {
    fprintf(stream,
            "Copies the rows of past_cache that no new row replaces to present_cache, %s by %s,\n"
            "large caches with stores that bypass the cache, four pages at a time.\n",
            kernel->value[UNIT] ? "nibble" : "byte", kernel->value[UNIT] ? "nibble" : "byte");
}

static const char *const libraries[] = {"rows", NULL};

const struct family store_rows_family = {
    .name = "store_rows",
    .op = "TensorScatter",
    .libraries = libraries,
    .fields = store_fields,
    .field_count = STORE_FIELDS,
    .variants = store_variants,
    .tunables = "rows_tunables",
    .legal = store_is_legal,
    .explain = explain_store,
    .code_bytes = store_code_bytes,
};

static const char *const keep_variants[] = {"pages4", NULL};

const struct family keep_rows_family = {
    .name = "keep_rows",
    .op = "TensorScatter",
    .libraries = libraries,
    .fields = store_fields,
    .field_count = HEADS,
    .variants = keep_variants,
    .tunables = "rows_tunables",
    .legal = keep_is_legal,
    .explain = explain_keep,
    .code_bytes = keep_code_bytes,
};
