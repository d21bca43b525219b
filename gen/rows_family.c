/* SPDX-License-Identifier: Apache-2.0 */
#include "rows_family.h"

#include <inttypes.h>
#include <string.h>

#include "../ops/extent.h"

static const char *const units[] = {"u8", "u4", NULL};
static const char *const modes[] = {"linear", "circular", NULL};

enum {
    UNIT,
    HEADS,
    CAPACITY,
    ROWS,
    ROW,
    MODE,
    PRESENT_BATCH,
    PRESENT_HEAD,
    PRESENT_ROW,
    UPDATE_BATCH,
    UPDATE_HEAD,
    UPDATE_ROW,
    STORE_FIELDS
};

static const struct field store_fields[] = {
    [UNIT] = {"unit", NULL, units, FIELD_TYPE},
    [HEADS] = {"heads", "h", NULL, 0},
    [CAPACITY] = {"capacity", "m", NULL, 0},
    [ROWS] = {"new_rows", "s", NULL, 0},
    [ROW] = {"row", "d", NULL, 0},
    [MODE] = {"mode", NULL, modes, 0},
    [PRESENT_BATCH] = {"present_stride.batch", "pb", NULL, FIELD_CONSTANT},
    [PRESENT_HEAD] = {"present_stride.head", "ph", NULL, FIELD_CONSTANT},
    [PRESENT_ROW] = {"present_stride.row", "pr", NULL, FIELD_CONSTANT},
    [UPDATE_BATCH] = {"update_stride.batch", "ub", NULL, FIELD_CONSTANT},
    [UPDATE_HEAD] = {"update_stride.head", "uh", NULL, FIELD_CONSTANT},
    [UPDATE_ROW] = {"update_stride.row", "ur", NULL, FIELD_CONSTANT},
};

/* line: straight-line code for all heads and rows of a batch entry.  heads: straight-line code for
   the rows of one head, in a loop over a constant number of heads.  run: runs of rows. */
static const char *const store_variants[] = {"line", "heads", "run", NULL};

/* ---- The best variant of a shape ---- */

int64_t straight_line_units(const struct isa *isa) {
    return kvmill_min(STRAIGHT_LINE_UNITS, STRAIGHT_LINE_LOADS * isa->move_bytes);
}

static bool is_short(const struct kernel *kernel, int64_t units) {
    return units > 0 && units <= straight_line_units(kernel->isa);
}

/* The most rows in straight-line code, by unit.  The code should be much smaller than an
   instruction cache, and rows of nibbles take more instructions. */
static const int64_t most_rows[] = {256, 64};

/* Whether the rows of `heads` heads can be one stretch of straight-line code. */
static bool is_stretch(const struct kernel *kernel, int64_t heads) {
    const int64_t *value = kernel->value;
    return is_short(kernel, heads) && is_short(kernel, value[ROWS]) &&
           is_short(kernel, value[ROW]) && is_short(kernel, heads * value[ROWS] * value[ROW]) &&
           heads * value[ROWS] <= most_rows[value[UNIT]];
}

static bool can_be(const struct kernel *kernel, const char *variant) {
    if (strcmp(variant, "line") == 0)
        return is_stretch(kernel, kernel->value[HEADS]);
    return strcmp(variant, "heads") != 0 || (kernel->value[HEADS] > 0 && is_stretch(kernel, 1));
}

/* Returns the first variant that is possible; the variants are in order of preference. */
static const char *best_variant(const struct kernel *kernel) {
    int i = 0;
    while (!can_be(kernel, store_variants[i]))
        i++;
    return store_variants[i];
}

static int64_t countable(int64_t count) {
    return count > MOST_COUNT ? ANY_COUNT : count;
}

/* A run is copied row by row only if its rows have gaps; then a short row is straight-line code. */
static void open_for_runs(struct kernel *kernel) {
    int64_t *value = kernel->value;
    value[HEADS] = value[ROWS] = ANY_COUNT;
    if (!value[UNIT] && !is_short(kernel, value[ROW]))
        value[ROW] = ANY_COUNT;
}

/* Returns the kernel that stores.  In a linear cache it need not know the capacity. */
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
        open_for_runs(&kernel);
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

/* Rows of an odd number of nibbles have kernels only if that number is known. */
static bool has_kernels(const struct kvmill_rows_shape *shape) {
    return shape->heads != 0 && shape->capacity != 0 && shape->row != 0 &&
           (shape->unit_bits == 8 || (shape->row > 0 && shape->row <= MOST_COUNT));
}

bool rows_kernels(const struct kvmill_rows_shape *shape, const struct constants *constants,
                  const struct isa *isa, struct kernel_list *list, struct error *error) {
    struct kernel store = store_kernel(shape, kvmill_isa_plain(isa)), special = store;
    struct kernel keep = keep_kernel(shape, kvmill_isa_plain(isa));
    if (!has_kernels(shape))
        return true;
    kernel_fix(&special, constants);
    return (shape->rows == 0 ||
            (kernel_list_add(list, &store, error) && kernel_list_add(list, &special, error))) &&
           kernel_list_add(list, &keep, error);
}

static bool store_is_legal(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    return kvmill_isa_plain(kernel->isa) == kernel->isa && can_be(kernel, kernel->variant) &&
           value[CAPACITY] != 0 && value[ROW] != 0 && (!value[UNIT] || value[ROW] % 2 == 1) &&
           (value[MODE] || value[CAPACITY] == ANY_COUNT);
}

static bool keep_is_legal(const struct kernel *kernel) {
    return kvmill_isa_plain(kernel->isa) == kernel->isa;
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
    .folder = "rows",
    .op = "TensorScatter",
    .libraries = libraries,
    .fields = store_fields,
    .field_count = STORE_FIELDS,
    .variants = store_variants,
    .tunables = "rows_tunables",
    .legal = store_is_legal,
    .explain = explain_store,
};

static const char *const keep_variants[] = {"pages4", NULL};

const struct family keep_rows_family = {
    .name = "keep_rows",
    .folder = "rows",
    .op = "TensorScatter",
    .libraries = libraries,
    .fields = store_fields,
    .field_count = HEADS,
    .variants = keep_variants,
    .tunables = "rows_tunables",
    .legal = keep_is_legal,
    .explain = explain_keep,
};
