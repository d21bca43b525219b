/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_family.h"

#include <inttypes.h>
#include <string.h>

/* In the order of enum kvmill_element; a value is one less than the element. */
static const char *const elements[] = {"f32", "f16", "bf16", "i8", "i4", "q8_0", "q4_0", NULL};
static const char *const activations[] = {"f32", "f16", "bf16", "i8", NULL};
static const char *const scales[] = {"none", "f32", "f16", "bf16", NULL};

enum { ACTIVATION, ELEMENT, SCALE, DIM, GROUP, CONVERT_FIELDS };

static const struct field convert_fields[] = {
    [ACTIVATION] = {"activation", NULL, activations, 0},
    [ELEMENT] = {"element", NULL, elements, 0},
    [SCALE] = {"scale", NULL, scales, 0},
    [DIM] = {"dim", "d", NULL, 0},
    [GROUP] = {"group", "g", NULL, 0},
};

/* Longer rows are left to the library's own kernels. */
enum { MOST_DIM = 8192, BLOCK = 32 };

/* ---- What there is ---- */

/* copy: the bytes as they are; cast: element by element; groups: codes with scales elsewhere;
   blocks: those of llama.cpp. */
static const char *const write_rows_variants[] = {"copy", "cast", "groups", "blocks", NULL};
static const char *const read_rows_variants[] = {"copy", "cast", "groups", "blocks", NULL};

enum { COPY, CAST, GROUPS, BLOCKS };

static int kind_of(const int64_t *value) {
    if (value[ELEMENT] == value[ACTIVATION] && value[SCALE] == 0)
        return COPY;
    switch (value[ELEMENT] + 1) {
    case KVMILL_I8:
    case KVMILL_I4:
        return GROUPS;
    case KVMILL_Q8_0:
    case KVMILL_Q4_0:
        return BLOCKS;
    default:
        return CAST;
    }
}

static bool groups_are_legal(const int64_t *value) {
    bool is_i4 = value[ELEMENT] + 1 == KVMILL_I4;
    return value[SCALE] > 0 && value[GROUP] > 0 && value[DIM] % value[GROUP] == 0 &&
           (!is_i4 || value[GROUP] % 2 == 0);
}

static bool shape_is_legal(const int64_t *value) {
    int kind = kind_of(value);
    if (value[DIM] < 1 || value[DIM] > MOST_DIM)
        return false;
    if (kind == GROUPS)
        return value[ACTIVATION] + 1 != KVMILL_I8 && groups_are_legal(value);
    return value[SCALE] == 0 && value[GROUP] == 0 &&
           (kind == COPY || value[ACTIVATION] + 1 != KVMILL_I8) &&
           (kind != BLOCKS || value[DIM] % BLOCK == 0);
}

static bool convert_is_legal(const struct kernel *kernel) {
    const char *variant = kernel->family->variants[kind_of(kernel->value)];
    return isa_plain(kernel->isa) == kernel->isa && shape_is_legal(kernel->value) &&
           strcmp(kernel->variant, variant) == 0;
}

static bool add_kernel(const struct family *family, const struct kvmill_convert_shape *shape,
                       const struct isa *isa, struct kernel_list *list, struct error *error) {
    const struct kvmill_format *format = &shape->format;
    struct kernel kernel = {
        .family = family,
        .isa = isa_plain(isa),
        .value = {[ACTIVATION] = shape->activation - 1,
                  [ELEMENT] = format->element - 1,
                  [SCALE] = format->scale,
                  [DIM] = format->dim,
                  [GROUP] = format->group},
    };
    kernel.variant = family->variants[kind_of(kernel.value)];
    return !shape_is_legal(kernel.value) || kernel_list_add(list, &kernel, error);
}

bool write_rows_kernels(const struct kvmill_convert_shape *shape, const struct isa *isa,
                        struct kernel_list *list, struct error *error) {
    return add_kernel(&write_rows_family, shape, isa, list, error);
}

bool read_rows_kernels(const struct kvmill_convert_shape *shape, const struct isa *isa,
                       struct kernel_list *list, struct error *error) {
    return add_kernel(&read_rows_family, shape, isa, list, error);
}

/* ---- Predicted size ---- */

/* Code bytes (gcc 12 -O3), fitted over some two hundred kernels: of a kernel without its row; for
   each vector or word of a row; more of these for types that take arithmetic to convert to; where
   groups do not fit vectors.  Without vectors rows are loops. */
struct convert_size {
    int64_t frame, step, more, spread;
};

enum { WRITE, READ, FAMILIES };

static const struct convert_size vector_sizes[FAMILIES][BLOCKS + 1] = {
    [WRITE] = {[COPY] = {340, 16, 0, 0},
               [CAST] = {400, 22, 43, 0},
               [GROUPS] = {1150, 65, 15, 800},
               [BLOCKS] = {1000, 95, 0, 0}},
    [READ] = {[COPY] = {500, 16, 0, 0},
              [CAST] = {450, 22, 43, 0},
              [GROUPS] = {650, 65, 60, 500},
              [BLOCKS] = {600, 45, 60, 0}},
};

static const struct convert_size scalar_sizes[FAMILIES][BLOCKS + 1] = {
    [WRITE] = {[COPY] = {200, 14, 0, 0},
               [CAST] = {550, 0, 0, 0},
               [GROUPS] = {2700, 0, 0, 0},
               [BLOCKS] = {3800, 0, 0, 0}},
    [READ] = {[COPY] = {300, 14, 0, 0},
              [CAST] = {620, 0, 0, 0},
              [GROUPS] = {1600, 0, 0, 0},
              [BLOCKS] = {2600, 0, 0, 0}},
};

/* On vectors, elements are floats. */
enum { LANE_BYTES = 4 };

static int64_t element_bytes(int64_t element) {
    return element + 1 == KVMILL_F32 ? 4 : element + 1 == KVMILL_I8 ? 1 : 2;
}

static int64_t row_bytes(const int64_t *value, int64_t element) {
    switch (element + 1) {
    case KVMILL_I4:
        return value[DIM] / 2;
    case KVMILL_Q8_0:
        return value[DIM] / BLOCK * 34;
    case KVMILL_Q4_0:
        return value[DIM] / BLOCK * 18;
    default:
        return value[DIM] * element_bytes(element);
    }
}

static int64_t step_count(const struct kernel *kernel) {
    int64_t width = kernel->isa->move_bytes, dim = kernel->value[DIM];
    int64_t bytes = kind_of(kernel->value) == COPY
                        ? row_bytes(kernel->value, kernel->value[ELEMENT])
                        : dim * LANE_BYTES;
    return (bytes + width - 1) / width;
}

/* Rows that are whole lines of the cache have two copies of the code. */
static int64_t copy_count(const struct kernel *kernel, int64_t target) {
    return kernel->isa->stream_bytes > 0 && row_bytes(kernel->value, target) % 64 == 0 ? 2 : 1;
}

static bool is_spread(const struct kernel *kernel) {
    int64_t lanes = kernel->isa->move_bytes / LANE_BYTES, group = kernel->value[GROUP];
    return group > 0 && group % lanes != 0 && !(lanes == 16 && group == 8);
}

static int64_t code_bytes(const struct kernel *kernel, int family, int64_t target) {
    bool has_vectors = kernel->isa->stream_bytes > 0;
    int kind = kind_of(kernel->value);
    const struct convert_size *size =
        has_vectors ? &vector_sizes[family][kind] : &scalar_sizes[family][kind];
    bool takes_more = kind == GROUPS && family == WRITE
                          ? kernel->value[ACTIVATION] + 1 != KVMILL_F16
                          : target + 1 == KVMILL_BF16;
    int64_t step = size->step + (takes_more ? size->more : 0);
    return size->frame + copy_count(kernel, target) * step_count(kernel) * step +
           (is_spread(kernel) ? size->spread : 0);
}

static int64_t write_code_bytes(const struct kernel *kernel) {
    return code_bytes(kernel, WRITE, kernel->value[ELEMENT]);
}

static int64_t read_code_bytes(const struct kernel *kernel) {
    return code_bytes(kernel, READ, kernel->value[ACTIVATION]);
}

/* ---- Words ---- */

static bool is_copied(const struct kernel *kernel) {
    return kind_of(kernel->value) == COPY;
}

static void print_type(const struct kernel *kernel, FILE *stream) {
    const int64_t *value = kernel->value;
    fprintf(stream, "%s", elements[value[ELEMENT]]);
    if (value[SCALE] != 0)
        fprintf(stream, " with a scale of %s for each %" PRId64 " elements", scales[value[SCALE]],
                value[GROUP]);
}

static void explain_write(const struct kernel *kernel, FILE *stream) {
    fprintf(stream,
            "Stores new rows of K or V, %" PRId64 " elements of %s, in their slots of a cache\nas ",
            kernel->value[DIM], activations[kernel->value[ACTIVATION]]);
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
            is_copied(kernel) ? "they are" : activations[kernel->value[ACTIVATION]]);
}

static const char *const libraries[] = {"convert", NULL};

const struct family write_rows_family = {
    .name = "write_rows",
    .op = "KeyValueCache",
    .libraries = libraries,
    .fields = convert_fields,
    .field_count = CONVERT_FIELDS,
    .variants = write_rows_variants,
    .tunables = "convert_tunables",
    .legal = convert_is_legal,
    .explain = explain_write,
    .code_bytes = write_code_bytes,
};

const struct family read_rows_family = {
    .name = "read_rows",
    .op = "KeyValueCache",
    .libraries = libraries,
    .fields = convert_fields,
    .field_count = CONVERT_FIELDS,
    .variants = read_rows_variants,
    .tunables = "convert_tunables",
    .legal = convert_is_legal,
    .explain = explain_read,
    .code_bytes = read_code_bytes,
};
