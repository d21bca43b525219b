/* SPDX-License-Identifier: Apache-2.0 */
#include "attend_family.h"

#include <inttypes.h>
#include <string.h>

#include "../defs/arithmetic.h"
#include "../defs/format.h"
#include "../ops/extent.h"
#include "attend_choice.h"
#include "m4.h"

static const char *const terms[] = {"plain", "cap", "bias", "capbias", NULL};

enum {
    ACTIVATION,
    KEY,
    VALUE,
    KEY_DIM,
    VALUE_DIM,
    KEY_SCALE,
    KEY_GROUP,
    VALUE_SCALE,
    VALUE_GROUP,
    ROWS,
    TERMS,
    MATH,
    CALL_ROWS,
    KEY_STRIDE,
    VALUE_STRIDE,
    KEY_SCALE_STRIDE,
    VALUE_SCALE_STRIDE,
    FIELDS
};

static const struct field attend_fields[] = {
    [ACTIVATION] = {"activation", NULL, NULL, FIELD_FORMAT},
    [KEY] = {"key", NULL, NULL, FIELD_FORMAT},
    [VALUE] = {"value", NULL, NULL, FIELD_FORMAT},
    [KEY_DIM] = {"key_dim", "d", NULL, 0},
    [VALUE_DIM] = {"value_dim", "e", NULL, 0},
    [KEY_SCALE] = {"key_scale", NULL, NULL, FIELD_FORMAT},
    [KEY_GROUP] = {"key_quant_group", "g", NULL, 0},
    [VALUE_SCALE] = {"value_scale", NULL, NULL, FIELD_FORMAT},
    [VALUE_GROUP] = {"value_quant_group", "j", NULL, 0},
    [ROWS] = {"rows", "r", NULL, 0},
    [TERMS] = {"terms", NULL, terms, 0},
    [MATH] = {"math", NULL, kvmill_math_names, 0},
    [CALL_ROWS] = {"rows", "q", NULL, FIELD_CONSTANT},
    [KEY_STRIDE] = {"key_stride", "k", NULL, FIELD_CONSTANT},
    [VALUE_STRIDE] = {"value_stride", "v", NULL, FIELD_CONSTANT},
    [KEY_SCALE_STRIDE] = {"key_scale_stride", "ks", NULL, FIELD_CONSTANT},
    [VALUE_SCALE_STRIDE] = {"value_scale_stride", "vs", NULL, FIELD_CONSTANT},
};

/* In order of preference.  codes: scores are sums of integer products of codes.  pairs: scores are
   sums of 16-bit products.  words: codes become floats in registers, for few query rows.  dims:
   lanes hold dims, for few query rows or long keys.  quads: lanes hold query rows, few of them.
   columns: lanes hold positions. */
static const char *const variants[] = {"codes", "pairs", "words", "dims", "quads", "columns", NULL};

static bool is(const struct kernel *kernel, const char *variant) {
    return strcmp(kernel->variant, variant) == 0;
}

/* Query rows of a call beyond those of one token.  FEW_ROWS: a few tokens, to be verified or at the
   end of a prompt.  MANY_ROWS: a piece of a prompt.  They do not depend on the ratio, so layers
   share kernels.  If one kernel serves both, only one is made. */
enum { FEW_ROWS = 32, MANY_ROWS = 96, MOST_ROWS = 128 };

/* ---- Variants that an instruction set and a format allow ---- */

enum { QUAD = 4, MOST_FEW_ROWS = 8 };

static bool has(const struct isa *isa, unsigned what) {
    return kvmill_isa_giving(isa, what) != NULL;
}

/* Returns the format of K or V; `side` is KEY or VALUE. */
static struct kvmill_format format_of(const struct kernel *kernel, int side) {
    const int64_t *value = kernel->value;
    bool is_key = side == KEY;
    return (struct kvmill_format){
        .element = (int32_t)value[side],
        .dim = (int32_t)value[is_key ? KEY_DIM : VALUE_DIM],
        .scale = (int32_t)value[is_key ? KEY_SCALE : VALUE_SCALE],
        .quant_group = (int32_t)value[is_key ? KEY_GROUP : VALUE_GROUP],
    };
}

static int64_t word_dims(const struct kernel *kernel, int side) {
    return kvmill_format_word_codes(kvmill_format_parts((int)kernel->value[side]));
}

static int64_t group_of(const struct kernel *kernel, int side) {
    const struct kvmill_format format = format_of(kernel, side);
    return kvmill_format_group(&format);
}

static bool in_tiles(const struct kernel *kernel, int side) {
    return kvmill_format_parts((int)kernel->value[side])->tile > 0;
}

static bool is_transposed(const struct kernel *kernel) {
    return kvmill_format_parts((int)kernel->value[KEY])->transposed;
}

/* Whether groups are whole words, rows are whole vectors, and a row has at least four words. */
static bool keys_can_be_codes(const struct kernel *kernel) {
    int64_t word = word_dims(kernel, KEY), dim = kernel->value[KEY_DIM];
    return word > 0 && has(kernel->isa, ISA_INTEGER_PRODUCTS) && dim % 16 == 0 && dim >= 4 * word &&
           group_of(kernel, KEY) % word == 0;
}

/* Whether groups are whole words, and rows are whole blocks of four words. */
static bool keys_can_be_turned(const struct kernel *kernel) {
    int64_t word = word_dims(kernel, KEY);
    return word > 0 && kernel->value[KEY_DIM] % (4 * word) == 0 &&
           group_of(kernel, KEY) % word == 0;
}

static bool keys_can_be_words(const struct kernel *kernel) {
    return keys_can_be_turned(kernel) &&
           (kernel->value[ROWS] <= MOST_FEW_ROWS || in_tiles(kernel, KEY));
}

/* Whether the sum over a group fits 32 bits for all codes. */
static bool keys_can_be_pairs(const struct kernel *kernel) {
    return keys_can_be_turned(kernel) && kernel->value[MATH] >= KVMILL_MATH_NEAR &&
           has(kernel->isa, ISA_PAIR_PRODUCTS) &&
           kernel->value[KEY_DIM] % kernel->isa->lanes == 0 &&
           group_of(kernel, KEY) * (1 << (32 / word_dims(kernel, KEY) - 1)) * INT16_MAX <=
               INT32_MAX;
}

static bool halves_are_wanted(const struct kernel *kernel) {
    return kernel->value[MATH] == KVMILL_MATH_FAST && has(kernel->isa, ISA_HALF_ARITHMETIC) &&
           kernel->value[VALUE_DIM] % (2 * kernel->isa->lanes) == 0;
}

/* Whether values and their scales are in the range of float16. */
static bool values_can_be_halves(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    bool codes = word_dims(kernel, VALUE) > 0 && value[VALUE_SCALE] != KVMILL_F32 &&
                 value[VALUE_SCALE] != KVMILL_BF16;
    return halves_are_wanted(kernel) && (value[VALUE] == KVMILL_F16 || codes);
}

/* Whether the values can be summed as codes, too: a word has four positions, and a scale covers
   whole vectors: two of nibbles or one of bytes. */
static bool values_can_be_codes(const struct kernel *kernel) {
    int64_t dims = word_dims(kernel, VALUE) / 4 * kernel->isa->lanes;
    return is(kernel, "codes") && dims > 0 && kernel->value[VALUE_DIM] % dims == 0 &&
           group_of(kernel, VALUE) % dims == 0;
}

/* Whether each vector of pairs is in one group and in one block. */
static bool values_fit_pairs(const struct kernel *kernel) {
    int64_t dims = word_dims(kernel, VALUE) / 2 * kernel->isa->lanes;
    return dims > 0 && kernel->value[VALUE_DIM] % dims == 0 && group_of(kernel, VALUE) % dims == 0;
}

static bool values_can_be_pairs(const struct kernel *kernel) {
    return is(kernel, "pairs") && values_fit_pairs(kernel);
}

/* Returns the number of base-256 digits of queries and softmax weights. */
static int64_t digits(const struct kernel *kernel) {
    return kernel->value[MATH] >= KVMILL_MATH_NEAR ? 2 : 3;
}

/* ---- Definitions ---- */

static bool define(const struct kernel *kernel, struct expansion *expansion) {
    return define_integer(expansion, "registers", kernel->isa->registers) &&
           define_integer(expansion, "few_rows", kernel->value[ROWS] <= MOST_FEW_ROWS) &&
           define_integer(expansion, "summing_codes", values_can_be_codes(kernel)) &&
           define_integer(expansion, "summing_halves", values_can_be_halves(kernel)) &&
           define_integer(expansion, "summing_pairs", values_can_be_pairs(kernel));
}

/* ---- The choice of kernels ---- */

static bool can_be(const struct kernel *kernel, const char *variant) {
    if (strcmp(variant, "codes") == 0)
        return keys_can_be_codes(kernel);
    if (strcmp(variant, "pairs") == 0)
        return keys_can_be_pairs(kernel);
    if (strcmp(variant, "words") == 0)
        return keys_can_be_words(kernel);
    if (in_tiles(kernel, KEY)) /* tiles cannot be transposed or spread */
        return false;
    if (is_transposed(kernel)) /* positions are already adjacent */
        return strcmp(variant, "columns") == 0;
    if (strcmp(variant, "dims") == 0 && kernel->isa->lanes == QUAD) /* quads do this */
        return false;
    return strcmp(variant, "quads") != 0 || kernel->value[ROWS] <= MOST_FEW_ROWS;
}

static void measure(const struct kernel *kernel, int64_t number[ATTEND_NUMBERS]) {
    const struct kvmill_format_parts *key = kvmill_format_parts((int)kernel->value[KEY]);
    number[REGISTERS] = kernel->isa->registers;
    number[WANTED_MATH] = kernel->value[MATH];
    number[WANTS_HALVES] = halves_are_wanted(kernel);
    number[QUERY_ROWS] = kernel->value[ROWS];
    number[DIMS_OF_KEY] = kernel->value[KEY_DIM];
    number[KEY_BITS] = key->bits;
    number[KEY_IS_FLOAT] = key->activation;
    number[KEY_WORD] = word_dims(kernel, KEY);
    number[GROUP_OF_KEY] = group_of(kernel, KEY);
    number[GROUPS_ARE_VECTORS] = group_of(kernel, KEY) % kernel->isa->lanes == 0;
    number[KEY_TILES] = in_tiles(kernel, KEY);
    number[CAN_BE_CODES] = keys_can_be_codes(kernel);
    number[VALUES_FIT_PAIRS] = values_fit_pairs(kernel);
}

static const char *best_variant(const struct kernel *kernel) {
    int64_t number[ATTEND_NUMBERS] = {0};
    measure(kernel, number);
    return attend_choose(kernel, number, can_be);
}

/* Returns what an instruction set must give for the variant, or 0 if it needs nothing more. */
static unsigned extension_for(const struct kernel *kernel) {
    if (values_can_be_halves(kernel))
        return ISA_HALF_ARITHMETIC;
    return is(kernel, "codes") ? ISA_INTEGER_PRODUCTS : is(kernel, "pairs") ? ISA_PAIR_PRODUCTS : 0;
}

/* Returns the arithmetic that the kernel has: the wanted one, or a more exact one. */
static int64_t math_of(const struct kernel *kernel) {
    unsigned what = extension_for(kernel);
    return what == 0                     ? KVMILL_MATH_F32
           : what == ISA_HALF_ARITHMETIC ? kernel->value[MATH]
                                         : kvmill_min(kernel->value[MATH], KVMILL_MATH_NEAR);
}

/* Returns the smallest instruction set that has all that the kernel uses. */
static const struct isa *isa_used(const struct kernel *kernel) {
    unsigned what = extension_for(kernel);
    return what ? kvmill_isa_giving(kernel->isa, what) : kvmill_isa_plain(kernel->isa);
}

static bool is_legal(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    const struct kvmill_format key = format_of(kernel, KEY), of_value = format_of(kernel, VALUE);
    return kvmill_is_activation((int)value[ACTIVATION]) && kvmill_format_is_legal(&key) &&
           kvmill_format_is_legal(&of_value) && value[ROWS] >= 1 && value[ROWS] <= 1024 &&
           value[CALL_ROWS] <= value[ROWS] && can_be(kernel, kernel->variant) &&
           isa_used(kernel) == kernel->isa;
}

static struct kernel kernel_of(const struct kvmill_attend_shape *shape, int64_t rows,
                               const struct isa *isa) {
    struct kernel kernel = {
        .family = &attend_family,
        .isa = isa,
        .value = {[ACTIVATION] = shape->activation,
                  [KEY] = shape->key.element,
                  [VALUE] = shape->value.element,
                  [KEY_DIM] = shape->key.dim,
                  [VALUE_DIM] = shape->value.dim,
                  [KEY_SCALE] = shape->key.scale,
                  [KEY_GROUP] = shape->key.quant_group,
                  [VALUE_SCALE] = shape->value.scale,
                  [VALUE_GROUP] = shape->value.quant_group,
                  [ROWS] = rows,
                  [TERMS] = shape->terms,
                  [MATH] = shape->math},
    };
    kernel.variant = best_variant(&kernel);
    return kernel;
}

/* What all kernels of a spec have in common. */
struct wanted {
    const struct kvmill_attend_shape *shape;
    int64_t ratio;
    const struct isa *isa;
    const struct constants *constants;
};

/* A call has all query rows of a kv head, for as many whole tokens as there is room for. */
static struct kernel with_constants(const struct kernel *kernel, const struct wanted *wanted) {
    struct kernel special = *kernel;
    kernel_fix(&special, wanted->constants);
    if (special.value[CALL_ROWS] != 0)
        special.value[CALL_ROWS] = kernel->value[ROWS] / wanted->ratio * wanted->ratio;
    return special;
}

/* Returns the kernel for the spec, without extensions and cheaper arithmetic that it does not
   use. */
static struct kernel kernel_for(const struct wanted *wanted, int64_t rows) {
    struct kernel kernel = kernel_of(wanted->shape, rows, wanted->isa);
    kernel.value[MATH] = math_of(&kernel);
    kernel.isa = isa_used(&kernel);
    return kernel;
}

static bool add_kernels(const struct wanted *wanted, int64_t rows, struct kernel_list *list,
                        struct error *error) {
    const struct kernel kernel = kernel_for(wanted, rows);
    const struct kernel special = with_constants(&kernel, wanted);
    return kernel_list_add(list, &kernel, error) && kernel_list_add(list, &special, error);
}

/* Whether the kernel for `more` rows also serves calls of `rows` rows: above a few rows, columns
   have the same code for any number of rows and differ only in their room. */
static bool is_served_by(const struct wanted *wanted, int64_t rows, int64_t more) {
    const struct kernel few = kernel_for(wanted, rows), many = kernel_for(wanted, more);
    return rows > MOST_FEW_ROWS && rows < more && wanted->constants->count == 0 &&
           is(&few, "columns") && is(&many, "columns");
}

bool attend_kernels(const struct kvmill_attend_shape *shape, int64_t ratio,
                    const struct constants *constants, const struct isa *isa,
                    struct kernel_list *list, struct error *error) {
    const struct wanted wanted = {shape, ratio, isa, constants};
    const int64_t one = kvmill_min(ratio, MOST_ROWS);
    const int64_t few = 2 * one > FEW_ROWS ? one : FEW_ROWS;
    const int64_t many = 2 * one > MANY_ROWS ? one : MANY_ROWS;
    return (is_served_by(&wanted, one, many) || add_kernels(&wanted, one, list, error)) &&
           (is_served_by(&wanted, few, many) || add_kernels(&wanted, few, list, error)) &&
           add_kernels(&wanted, many, list, error);
}

bool attend_is_approximate(const struct kernel *kernel) {
    return kernel->family == &attend_family && kernel->value[MATH] != KVMILL_MATH_F32;
}

/* ---- Words ---- */

static void explain_side(const struct kernel *kernel, int side, const char *name, FILE *stream) {
    const struct kvmill_format format = format_of(kernel, side);
    fprintf(stream, "%s of %d %s", name, format.dim, kvmill_format_name(format.element));
    if (format.scale != 0)
        fprintf(stream, " with %s scales for groups of %d", kvmill_format_name(format.scale),
                format.quant_group);
    else if (format.quant_group > 0)
        fprintf(stream, " in pages of %d, which are transposed", format.quant_group);
}

static void explain_how(const struct kernel *kernel, FILE *stream) {
    if (is(kernel, "codes"))
        fprintf(stream,
                "Scores are exact sums of integer products: queries have %" PRId64
                " digits of base 256.\nValues are %s.\n",
                digits(kernel),
                values_can_be_halves(kernel)  ? "summed up in float16"
                : values_can_be_codes(kernel) ? "summed up the same way"
                                              : "converted to float32");
    else if (is(kernel, "pairs"))
        fprintf(
            stream,
            "Scores are exact sums of products of 16 bits: queries have one such digit.\nValues "
            "are %s.\n",
            values_can_be_pairs(kernel) ? "summed up the same way" : "converted to float32");
    else
        fprintf(stream, "%s\n%s",
                is(kernel, "words")   ? "Codes become floats in registers, where a vector holds "
                                        "positions."
                : is(kernel, "dims")  ? "Each key is multiplied where it lies, its dims in the "
                                        "lanes."
                : is(kernel, "quads") ? "Each key is read once, for all query rows together, which "
                                        "lie side by side in vectors."
                : is_transposed(kernel)
                    ? "Pages have the keys of a vector of positions side by side, dim by dim."
                    : "A block of keys is turned, so that a vector holds positions, once for all "
                      "query rows.",
                values_can_be_halves(kernel) ? "Weights and values are float16.\n" : "");
}

static void explain(const struct kernel *kernel, FILE *stream) {
    const int64_t *value = kernel->value;
    fprintf(stream,
            "Attends at most %" PRId64 " query rows of %s over cache rows of one kv head:\n",
            value[ROWS], kvmill_format_name(value[ACTIVATION]));
    explain_side(kernel, KEY, "keys", stream);
    explain_side(kernel, VALUE, ", values", stream);
    fprintf(stream, ".\nScore terms in addition to scale, window and sink:%s%s%s.\n",
            value[TERMS] & KVMILL_TERM_SOFTCAP ? " soft-cap" : "",
            value[TERMS] & KVMILL_TERM_BIAS ? " ALiBi and mask" : "", value[TERMS] ? "" : " none");
    explain_how(kernel, stream);
}

static const char *const attend_libraries[] = {
    "attend",       "find_rows",    "load",  "prefetch",         "softmax",
    "unseen",       "accumulate",   "run",   "accumulate_codes", "accumulate_halves",
    "score_turned", "query_digits", "units", "accumulate_pairs", NULL};

const struct family attend_family = {
    .name = "attend",
    .folder = "attend",
    .op = "MultiHeadCacheAttention",
    .libraries = attend_libraries,
    .formats = true,
    .fields = attend_fields,
    .field_count = FIELDS,
    .variants = variants,
    .tunables = "attend_tunables",
    .legal = is_legal,
    .explain = explain,
    .define = define,
};
