/* SPDX-License-Identifier: Apache-2.0 */
#include "gather_family.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/gather_fold.h"

static const char *const units[] = {"u8", NULL};
static const char *const index_types[] = {"i2", "i4", "i8",  "i16", "i32", "i64", "u2",
                                          "u4", "u8", "u16", "u32", "u64", NULL};
static const char *const modes[] = {"clip", "fill", NULL};

enum { UNIT, INDEX, BOUNDS, COMPONENTS, BYTES, LOOPS, LOOP_FIELDS = 3, FIELDS = LOOPS + 9 };
enum { EXTENT, FROM, TO };

static const struct field gather_fields[] = {
    [UNIT] = {"unit", NULL, units, FIELD_TYPE}, [INDEX] = {"index", NULL, index_types, 0},
    [BOUNDS] = {"bounds", NULL, modes, 0},      [COMPONENTS] = {"components", "c", NULL, 0},
    [BYTES] = {"bytes", "d", NULL, 0},          [LOOPS] = {"extent1", "x", NULL, FIELD_OPTIONAL},
    {"from1", "f", NULL, FIELD_OPTIONAL},       {"to1", "t", NULL, FIELD_OPTIONAL},
    {"extent2", "y", NULL, FIELD_OPTIONAL},     {"from2", "g", NULL, FIELD_OPTIONAL},
    {"to2", "u", NULL, FIELD_OPTIONAL},         {"extent3", "z", NULL, FIELD_OPTIONAL},
    {"from3", "h", NULL, FIELD_OPTIONAL},       {"to3", "v", NULL, FIELD_OPTIONAL},
};

/* windows: the size is a constant; pieces: windows so long that the kernel need not know the
   size. */
static const char *const variants[] = {"windows", "pieces", NULL};

static bool is_pieces(const struct kernel *kernel) {
    return kernel->value[BYTES] == ANY_COUNT;
}

static const int64_t *loop_of(const struct kernel *kernel, int loop) {
    return &kernel->value[LOOPS + loop * LOOP_FIELDS];
}

static int loop_count(const struct kernel *kernel) {
    int count = 0;
    while (count < KVMILL_MOST_WINDOW_LOOPS && loop_of(kernel, count)[EXTENT] != 0)
        count++;
    return count;
}

static bool loops_are_legal(const struct kernel *kernel) {
    int count = loop_count(kernel);
    int64_t most = KVMILL_MOST_WINDOW_BYTES / kernel->value[BYTES];
    for (int i = 0; i < count; i++) {
        const int64_t *loop = loop_of(kernel, i);
        if (loop[EXTENT] < 2 || loop[EXTENT] > most || loop[FROM] < 1 || loop[TO] < 1)
            return false;
        most /= loop[EXTENT];
    }
    for (int k = LOOPS + count * LOOP_FIELDS; k < FIELDS; k++)
        if (kernel->value[k] != 0)
            return false;
    return true;
}

static bool is_legal_gather(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    if (kvmill_isa_plain(kernel->isa) != kernel->isa || value[COMPONENTS] < 0 ||
        value[COMPONENTS] > KVMILL_MOST_GATHER_AXES ||
        strcmp(kernel->variant, variants[is_pieces(kernel)]) != 0)
        return false;
    if (is_pieces(kernel))
        return loop_count(kernel) == 0;
    return value[BYTES] >= 1 && value[BYTES] <= KVMILL_MOST_KNOWN_BYTES && loops_are_legal(kernel);
}

static int64_t index_of(const struct kvmill_gather_shape *shape) {
    char word[8];
    int64_t i = 0;
    snprintf(word, sizeof word, "%c%d", shape->index_signed ? 'i' : 'u', (int)shape->index_bits);
    while (strcmp(index_types[i], word) != 0)
        i++;
    return i;
}

bool gather_kernels(const struct kvmill_gather_shape *shape, const struct isa *isa,
                    struct kernel_list *list, struct error *error) {
    struct kernel kernel = {
        .family = &gather_family,
        .isa = kvmill_isa_plain(isa),
        .value = {[INDEX] = index_of(shape),
                  [BOUNDS] = shape->fill,
                  [COMPONENTS] = shape->components,
                  [BYTES] = shape->bytes},
    };
    for (int i = 0; i < KVMILL_MOST_WINDOW_LOOPS; i++) {
        int64_t *loop = &kernel.value[LOOPS + i * LOOP_FIELDS];
        loop[EXTENT] = shape->loop[i].extent;
        loop[FROM] = shape->loop[i].from;
        loop[TO] = shape->loop[i].to;
    }
    kernel.variant = variants[is_pieces(&kernel)];
    return kernel_list_add(list, &kernel, error);
}

/* ---- Words ---- */

static void explain_window(const struct kernel *kernel, FILE *stream) {
    if (is_pieces(kernel)) {
        fprintf(stream, "windows of any number of adjacent bytes, in pieces");
        return;
    }
    fprintf(stream, "windows of %" PRId64 " bytes", kernel->value[BYTES]);
    for (int i = loop_count(kernel) - 1; i >= 0; i--) {
        const int64_t *loop = loop_of(kernel, i);
        fprintf(stream,
                ", %" PRId64 " times, %" PRId64 " bytes apart in the operand and %" PRId64
                " in the result",
                loop[EXTENT], loop[FROM], loop[TO]);
    }
}

static void explain_gather(const struct kernel *kernel, FILE *stream) {
    int64_t components = kernel->value[COMPONENTS];
    fprintf(stream, "Copies ");
    explain_window(kernel, stream);
    fprintf(stream, ",\nfrom where %" PRId64 " %s start%s of each window say%s; ", components,
            index_types[kernel->value[INDEX]], components == 1 ? "" : "s",
            components == 1 ? "s" : "");
    fprintf(stream, kernel->value[BOUNDS] ? "a window that is not inside becomes fill values.\n"
                                          : "starts outside are clamped.\n");
}

static const char *const libraries[] = {"gather", NULL};

const struct family gather_family = {
    .name = "gather",
    .folder = "gather",
    .op = "stablehlo.gather",
    .libraries = libraries,
    .fields = gather_fields,
    .field_count = FIELDS,
    .variants = variants,
    .tunables = "gather_tunables",
    .legal = is_legal_gather,
    .explain = explain_gather,
};
