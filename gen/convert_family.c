/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_family.h"

#include <inttypes.h>
#include <string.h>

#include "../defs/format.h"

enum {
    ACTIVATION,
    ELEMENT,
    SCALE,
    DIM,
    GROUP,
    HEADS,
    REPEAT,
    HEAD_STRIDE,
    CACHE_ROW,
    CACHE_HEAD,
    SCALE_ROW,
    SCALE_HEAD,
    CONVERT_FIELDS
};

static const struct field convert_fields[] = {
    [ACTIVATION] = {"activation", NULL, NULL, FIELD_FORMAT},
    [ELEMENT] = {"element", NULL, NULL, FIELD_FORMAT},
    [SCALE] = {"scale", NULL, NULL, FIELD_FORMAT},
    [DIM] = {"dim", "d", NULL, 0},
    [GROUP] = {"quant_group", "g", NULL, 0},
    [HEADS] = {"heads", "h", NULL, FIELD_CONSTANT},
    [REPEAT] = {"repeat", "x", NULL, FIELD_CONSTANT},
    [HEAD_STRIDE] = {"head_stride", "ah", NULL, FIELD_CONSTANT},
    [CACHE_ROW] = {"cache.row_stride", "cr", NULL, FIELD_CONSTANT},
    [CACHE_HEAD] = {"cache.head_stride", "ch", NULL, FIELD_CONSTANT},
    [SCALE_ROW] = {"cache.scale_row_stride", "sr", NULL, FIELD_CONSTANT},
    [SCALE_HEAD] = {"cache.scale_head_stride", "sh", NULL, FIELD_CONSTANT},
};

/* Longer rows are left to the library's own kernels. */
enum { MOST_DIM = 8192 };

/* ---- Legal kernels ---- */

/* copy: the bytes unchanged; cast: element by element; groups: codes, scales in another tensor;
   blocks: as in llama.cpp; row: a scale, then its codes; pages: pages of transposed keys, element
   by element. */
static const char *const kinds[] = {"copy", "cast", "groups", "blocks", "row", "pages", NULL};

enum { COPY, CAST, GROUPS, BLOCKS, ROW, PAGES };

static struct kvmill_format format_of(const int64_t *value) {
    return (struct kvmill_format){(int32_t)value[ELEMENT], (int32_t)value[DIM],
                                  (int32_t)value[SCALE], (int32_t)value[GROUP]};
}

static int kind_of(const int64_t *value) {
    const struct kvmill_format_parts *parts = kvmill_format_parts((int)value[ELEMENT]);
    if (value[ELEMENT] == value[ACTIVATION] && value[SCALE] == 0)
        return COPY;
    if (parts->transposed)
        return PAGES;
    return parts->scales == KVMILL_SCALES_OF_GROUPS   ? GROUPS
           : parts->scales == KVMILL_SCALES_IN_BLOCKS ? BLOCKS
           : parts->scales == KVMILL_SCALES_IN_ROWS   ? ROW
                                                      : CAST;
}

/* Whether codes are copied without their scales. */
static bool is_raw(const int64_t *value) {
    return value[ACTIVATION] == KVMILL_I8 && value[ELEMENT] == KVMILL_I8 && value[SCALE] == 0 &&
           value[GROUP] == 0;
}

static bool shape_is_legal(const int64_t *value) {
    const struct kvmill_format format = format_of(value);
    return value[DIM] >= 1 && value[DIM] <= MOST_DIM &&
           (is_raw(value) ||
            (kvmill_is_activation((int)value[ACTIVATION]) && kvmill_format_is_legal(&format)));
}

static bool convert_is_legal(const struct kernel *kernel) {
    return kvmill_isa_plain(kernel->isa) == kernel->isa && shape_is_legal(kernel->value) &&
           strcmp(kernel->variant, kernel->family->variants[kind_of(kernel->value)]) == 0;
}

static bool add_kernels(const struct family *family, const struct kvmill_convert_shape *shape,
                        const struct constants *constants, const struct isa *isa,
                        struct kernel_list *list, struct error *error) {
    const struct kvmill_format *format = &shape->format;
    struct kernel kernel = {
        .family = family,
        .isa = kvmill_isa_plain(isa),
        .value = {[ACTIVATION] = shape->activation,
                  [ELEMENT] = format->element,
                  [SCALE] = format->scale,
                  [DIM] = format->dim,
                  [GROUP] = format->quant_group},
    };
    kernel.variant = family->variants[kind_of(kernel.value)];
    struct kernel special = kernel;
    kernel_fix(&special, constants);
    return !shape_is_legal(kernel.value) ||
           (kernel_list_add(list, &kernel, error) && kernel_list_add(list, &special, error));
}

bool write_rows_kernels(const struct kvmill_convert_shape *shape, const struct constants *constants,
                        const struct isa *isa, struct kernel_list *list, struct error *error) {
    return add_kernels(&write_rows_family, shape, constants, isa, list, error);
}

bool read_rows_kernels(const struct kvmill_convert_shape *shape, const struct constants *constants,
                       const struct isa *isa, struct kernel_list *list, struct error *error) {
    return add_kernels(&read_rows_family, shape, constants, isa, list, error);
}

/* ---- Words ---- */

static bool is_copied(const struct kernel *kernel) {
    return kind_of(kernel->value) == COPY;
}

static void print_type(const struct kernel *kernel, FILE *stream) {
    const int64_t *value = kernel->value;
    fprintf(stream, "%s", kvmill_format_name(value[ELEMENT]));
    if (value[SCALE] != 0)
        fprintf(stream, " with a scale of %s for each %" PRId64 " elements",
                kvmill_format_name(value[SCALE]), value[GROUP]);
    else if (value[GROUP] != 0)
        fprintf(stream, " in pages of %" PRId64 ", which are transposed", value[GROUP]);
}

static void explain_write(const struct kernel *kernel, FILE *stream) {
    fprintf(stream,
            "Stores new rows of K or V, %" PRId64 " elements of %s, in their slots of a cache\nas ",
            kernel->value[DIM], kvmill_format_name(kernel->value[ACTIVATION]));
    if (is_copied(kernel))
        fprintf(stream, "they are");
    else
        print_type(kernel, stream);
    fprintf(stream, ": all heads of a token, then the next token.\n");
}

static void explain_read(const struct kernel *kernel, FILE *stream) {
    fprintf(stream, "Reads rows of K or V, %" PRId64 " elements of ", kernel->value[DIM]);
    print_type(kernel, stream);
    fprintf(stream, ", from their slots of a cache\nas %s, once for each head that repeats them.\n",
            is_copied(kernel) ? "they are" : kvmill_format_name(kernel->value[ACTIVATION]));
}

static const char *const libraries[] = {"convert", NULL};

const struct family write_rows_family = {
    .name = "write_rows",
    .folder = "convert",
    .op = "KeyValueCache",
    .libraries = libraries,
    .formats = true,
    .fields = convert_fields,
    .field_count = CONVERT_FIELDS,
    .variants = kinds,
    .tunables = "convert_tunables",
    .legal = convert_is_legal,
    .explain = explain_write,
};

const struct family read_rows_family = {
    .name = "read_rows",
    .folder = "convert",
    .op = "KeyValueCache",
    .libraries = libraries,
    .formats = true,
    .fields = convert_fields,
    .field_count = CONVERT_FIELDS,
    .variants = kinds,
    .tunables = "convert_tunables",
    .legal = convert_is_legal,
    .explain = explain_read,
};
