/* SPDX-License-Identifier: Apache-2.0 */
#include "scatter_family.h"

#include <inttypes.h>
#include <string.h>

#include "m4.h"

/* StableHLO's names of element types, except for complex numbers and for 16-byte elements that are
   replaced. */
static const char *const elements[] = {"f32", "f64", "f16",  "bf16", "c64",  "c128",  "i1",
                                       "i2",  "i4",  "i8",   "i16",  "i32",  "i64",   "ui2",
                                       "ui4", "ui8", "ui16", "ui32", "ui64", "ui128", NULL};
const char *const scatter_index_types[] = {"i32",  "i64",  "i16",  "i8",  "i4",  "i2", "ui8",
                                           "ui16", "ui32", "ui64", "ui4", "ui2", "i1", NULL};

enum { COMBINER, ELEMENT, INDEX, COMPONENTS, ROW, SCATTER_FIELDS };

static const struct field scatter_fields[] = {
    [COMBINER] = {"combiner", NULL, kvmill_combiner_words, 0},
    [ELEMENT] = {"element", NULL, elements, 0},
    [INDEX] = {"index", NULL, scatter_index_types, 0},
    [COMPONENTS] = {"components", "k", NULL, 0},
    [ROW] = {"row", "r", NULL, 0},
};

/* Longer rows are loops: a constant length gains nothing there. */
enum { MOST_ROW_BYTES = 256 };

/* points: rows of one element, several points at a time; rows: one row at a time. */
static const char *const scatter_variants[] = {"points", "rows", NULL};

DLDataType scatter_type_of(const char *word) {
    static const DLDataType wide = {kDLUInt, 128, 1};
    DLDataType type;
    if (word[0] == 'c')
        return (DLDataType){kDLComplex, word[1] == '6' ? 64 : 128, 1};
    return kvmill_element_by_word(word, strlen(word), &type) ? type : wide;
}

static int64_t element_bytes(const struct kernel *kernel) {
    return kvmill_element_bytes(scatter_type_of(elements[kernel->value[ELEMENT]]));
}

/* ---- Legal kernels ---- */

/* Integers are signed only where the sign changes the result: in minimum and maximum. */
static bool combines(int combiner, DLDataType type) {
    bool is_float = kvmill_kind_of(type) == KVMILL_FLOAT, is_bool = type.code == KVMILL_DL_BOOL;
    bool is_plain = type.code == kDLUInt && type.bits <= 64;
    bool is_complex = type.code == kDLComplex && combiner != KVMILL_COMBINE_MULTIPLY;
    switch (combiner) {
    case KVMILL_COMBINE_REPLACE:
        return type.code == kDLUInt && type.bits >= 8;
    case KVMILL_COMBINE_AND:
    case KVMILL_COMBINE_OR:
    case KVMILL_COMBINE_XOR:
        return is_bool || is_plain;
    case KVMILL_COMBINE_MINIMUM:
    case KVMILL_COMBINE_MAXIMUM:
        return is_float || type.code == kDLInt || is_plain;
    default:
        return is_float || is_complex || is_plain;
    }
}

static bool shape_is_legal(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    return combines((int)value[COMBINER] + KVMILL_COMBINE_REPLACE,
                    scatter_type_of(elements[value[ELEMENT]])) &&
           value[COMPONENTS] >= 0 && value[COMPONENTS] <= MOST_SCATTER_COMPONENTS &&
           (value[ROW] == ANY_COUNT || value[ROW] == 1 ||
            (value[ROW] > 1 && value[ROW] <= MOST_ROW_BYTES / element_bytes(kernel)));
}

static const char *variant_of(const struct kernel *kernel) {
    return scatter_variants[kernel->value[ROW] != 1];
}

static bool scatter_is_legal(const struct kernel *kernel) {
    return kvmill_isa_plain(kernel->isa) == kernel->isa && shape_is_legal(kernel) &&
           strcmp(kernel->variant, variant_of(kernel)) == 0;
}

int64_t scatter_place_of(const char *const *words, int32_t code, int32_t bits) {
    int64_t place = 0;
    while (words[place] != NULL && (scatter_type_of(words[place]).code != code ||
                                    scatter_type_of(words[place]).bits != bits))
        place++;
    return place;
}

bool scatter_kernels(const struct kvmill_scatter_shape *shape, const struct isa *isa,
                     struct kernel_list *list, struct error *error) {
    struct kernel kernel = {
        .family = &scatter_family,
        .isa = kvmill_isa_plain(isa),
        .value = {[COMBINER] = shape->combiner - KVMILL_COMBINE_REPLACE,
                  [ELEMENT] = scatter_place_of(elements, shape->element_code, shape->element_bits),
                  [INDEX] =
                      scatter_place_of(scatter_index_types, shape->index_code, shape->index_bits),
                  [COMPONENTS] = shape->components,
                  [ROW] = shape->row},
    };
    if (elements[kernel.value[ELEMENT]] == NULL || scatter_index_types[kernel.value[INDEX]] == NULL)
        return true;
    if (kernel.value[ROW] > MOST_ROW_BYTES / element_bytes(&kernel))
        kernel.value[ROW] = ANY_COUNT;
    kernel.variant = variant_of(&kernel);
    return !shape_is_legal(&kernel) || kernel_list_add(list, &kernel, error);
}

/* ---- Words ---- */

static void explain_scatter(const struct kernel *kernel, FILE *stream) {
    const int64_t *value = kernel->value;
    fprintf(stream,
            "Applies updates of %s to results, \"%s\" element by element in the order of updates,\n"
            "at places that %" PRId64
            " index component%s of %s tell; elements out of bounds are skipped.\n",
            elements[value[ELEMENT]], kvmill_combiner_words[value[COMBINER]], value[COMPONENTS],
            value[COMPONENTS] == 1 ? "" : "s", scatter_index_types[value[INDEX]]);
    if (value[ROW] == 1)
        fprintf(stream, "One element for each index vector.\n");
    else if (value[ROW] == ANY_COUNT)
        fprintf(stream,
                "Windows of rows of any length, which are vectors where they have no gaps.\n");
    else
        fprintf(stream, "Windows of rows of %" PRId64 " elements in straight-line code.\n",
                value[ROW]);
}

/* ---- Definitions ---- */

static bool define_types(const struct kernel *kernel, struct expansion *expansion) {
    DLDataType element = scatter_type_of(elements[kernel->value[ELEMENT]]);
    DLDataType index = scatter_type_of(scatter_index_types[kernel->value[INDEX]]);
    return define_integer(expansion, "combiner_number",
                          kernel->value[COMBINER] + KVMILL_COMBINE_REPLACE) &&
           define_integer(expansion, "element_code", element.code) &&
           define_integer(expansion, "element_bits", element.bits) &&
           define_integer(expansion, "index_code", index.code) &&
           define_integer(expansion, "index_bits", index.bits);
}

static const char *const libraries[] = {"combine", "scatter", NULL};

const struct family scatter_family = {
    .name = "scatter",
    .folder = "scatter",
    .op = "stablehlo.scatter",
    .libraries = libraries,
    .fields = scatter_fields,
    .field_count = SCATTER_FIELDS,
    .variants = scatter_variants,
    .tunables = "scatter_tunables",
    .legal = scatter_is_legal,
    .explain = explain_scatter,
    .define = define_types,
};
