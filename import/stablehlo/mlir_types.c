/* Types and dense literals of StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../ops/extent.h"
#include "mlir_reader.h"

/* ---- Element types ---- */

static bool copy_number(struct mlir_reader *reader, struct mlir_word word, char text[64]) {
    if (word.length == 0 || word.length >= 64)
        return mlir_refuse(reader,
                           "no number, or one of more than 63 characters; accepted: a number");
    memcpy(text, word.text, word.length);
    text[word.length] = '\0';
    return true;
}

static bool take_double(struct mlir_reader *reader, double *value) {
    char text[64], *end;
    size_t before = reader->at;
    if (!copy_number(reader, mlir_accept_number(reader), text))
        return false;
    *value = strtod(text, &end);
    if (*end == '\0')
        return true;
    reader->at = before;
    return mlir_refuse(reader, "%s is not a number; accepted: digits, a point, an exponent", text);
}

static bool parse_word_element(struct mlir_reader *reader, struct mlir_type *type) {
    size_t before = reader->at;
    struct mlir_word word = mlir_accept_word(reader);
    type->is_index = mlir_word_is(word, "index");
    if (type->is_index) {
        type->element = kvmill_plain_element(kvmill_int64);
        return true;
    }
    if (mlir_word_is(word, "complex") && mlir_accept(reader, "<")) {
        word = mlir_accept_word(reader);
        word = mlir_word_is(word, "f32")   ? (struct mlir_word){"complex<f32>", 12}
               : mlir_word_is(word, "f64") ? (struct mlir_word){"complex<f64>", 12}
                                           : (struct mlir_word){"complex", 7};
        if (word.length > 7 && !mlir_expect(reader, ">"))
            return false;
    }
    if (kvmill_element_by_word(word.text, word.length, &type->element.dtype))
        return true;
    reader->at = before;
    return mlir_refuse(
        reader,
        "%.*s is not a known element type; accepted: i1, i2 to i64, ui2 to ui64, f4 to "
        "f64 and bf16 as StableHLO calls them, complex<f32>, complex<f64>, index, "
        "!quant.uniform<..>",
        (int)(word.length < 40 ? word.length : 40), word.text);
}

static bool set_storage(struct mlir_reader *reader, struct mlir_word word,
                        kvmill_element_type *element) {
    struct mlir_word plain = word;
    char unsigned_word[8];
    if (word.length > 1 && word.length < 4 && word.text[0] == 'u' && isdigit(word.text[1])) {
        snprintf(unsigned_word, sizeof unsigned_word, "ui%.*s", (int)word.length - 1,
                 word.text + 1);
        plain = (struct mlir_word){unsigned_word, strlen(unsigned_word)};
    }
    bool known = kvmill_element_by_word(plain.text, plain.length, &element->dtype);
    enum kvmill_kind kind = known ? kvmill_kind_of(element->dtype) : KVMILL_NO_KIND;
    if ((kind != KVMILL_INT && kind != KVMILL_UINT) || element->dtype.bits > 32)
        return mlir_refuse(reader,
                           "the storage type of !quant.uniform is %.*s; accepted: integers of 2 "
                           "to 32 bits",
                           (int)word.length, word.text);
    int bits = element->dtype.bits;
    element->storage_min = kind == KVMILL_INT ? -((int64_t)1 << (bits - 1)) : 0;
    element->storage_max = ((int64_t)1 << (bits - (kind == KVMILL_INT))) - 1;
    return true;
}

static bool parse_storage_range(struct mlir_reader *reader, kvmill_element_type *element) {
    int64_t least = element->storage_min, most = element->storage_max;
    if (!mlir_accept(reader, "<"))
        return true;
    if (!mlir_accept_integer(reader, &element->storage_min) || !mlir_expect(reader, ":") ||
        !mlir_accept_integer(reader, &element->storage_max) || !mlir_expect(reader, ">"))
        return false;
    return (least <= element->storage_min && element->storage_min < element->storage_max &&
            element->storage_max <= most) ||
           mlir_refuse(reader,
                       "the storage range is %" PRId64 " to %" PRId64
                       "; accepted: within that of its type, %" PRId64 " to %" PRId64,
                       element->storage_min, element->storage_max, least, most);
}

static bool parse_scale(struct mlir_reader *reader, kvmill_element_type *element) {
    if (!take_double(reader, &element->scale))
        return false;
    if (!(element->scale > 0) || element->scale > 1e300)
        return mlir_refuse(reader, "the scale is %g; accepted: above 0", element->scale);
    if (mlir_accept(reader, ":") && !mlir_accept_integer(reader, &element->zero_point))
        return false;
    return (element->storage_min <= element->zero_point &&
            element->zero_point <= element->storage_max) ||
           mlir_refuse(reader, "the zero point is %" PRId64 "; accepted: %" PRId64 " to %" PRId64,
                       element->zero_point, element->storage_min, element->storage_max);
}

/* Parses a quantised type after "!". */
static bool parse_quantized(struct mlir_reader *reader, struct mlir_type *type) {
    kvmill_element_type *element = &type->element;
    if (!mlir_expect(reader, "quant.uniform") || !mlir_expect(reader, "<") ||
        !set_storage(reader, mlir_accept_word(reader), element) ||
        !parse_storage_range(reader, element) || !mlir_expect(reader, ":"))
        return false;
    struct mlir_word word = mlir_accept_word(reader);
    if (!kvmill_element_by_word(word.text, word.length, &element->expressed) ||
        kvmill_kind_of(element->expressed) != KVMILL_FLOAT)
        return mlir_refuse(reader,
                           "the expressed type of !quant.uniform is %.*s; accepted: a float",
                           (int)(word.length < 40 ? word.length : 40), word.text);
    if (mlir_peek(reader) == ':')
        return mlir_refuse(reader, "a type that is quantized per axis; accepted: per tensor, "
                                   "!quant.uniform<i8:f32, 0.5:-3>");
    return mlir_expect(reader, ",") && parse_scale(reader, element) && mlir_expect(reader, ">");
}

static bool parse_element(struct mlir_reader *reader, struct mlir_type *type) {
    if (mlir_peek(reader) != '!')
        return parse_word_element(reader, type);
    reader->at++;
    return parse_quantized(reader, type);
}

bool mlir_parse_element(struct mlir_reader *reader, kvmill_element_type *element) {
    struct mlir_type type = {0};
    bool done = parse_element(reader, &type);
    *element = type.element;
    return done;
}

/* ---- Tensor types ---- */

static bool take_x(struct mlir_reader *reader) {
    if (mlir_peek(reader) != 'x')
        return mlir_refuse(reader, "an extent without x after it; accepted: tensor<2x3xf32>");
    reader->at++;
    return true;
}

static bool parse_dim(struct mlir_reader *reader, int64_t *dim, bool *is_dim) {
    struct mlir_file *file = reader->file;
    int c = mlir_peek(reader);
    *is_dim = c == '?' || isdigit(c);
    *dim = KVMILL_DYNAMIC;
    if (!*is_dim)
        return true;
    if (c == '?') {
        reader->at++;
    } else {
        size_t begin = reader->at;
        int64_t value = 0;
        bool overflow = false;
        for (; isdigit((unsigned char)file->text[reader->at]); reader->at++)
            overflow |= __builtin_mul_overflow(value, 10, &value) ||
                        __builtin_add_overflow(value, file->text[reader->at] - '0', &value);
        if (overflow) {
            reader->at = begin;
            return mlir_refuse(reader, "the extent does not fit 63 bits; accepted: 0 to 2^63 - 1");
        }
        *dim = value;
    }
    return take_x(reader);
}

static bool parse_dims(struct mlir_reader *reader, struct mlir_type *type) {
    int64_t dims[KVMILL_MOST_RANK];
    bool is_dim = true;
    while (is_dim) {
        int64_t dim;
        if (!parse_dim(reader, &dim, &is_dim))
            return false;
        if (is_dim && type->rank == KVMILL_MOST_RANK)
            return mlir_refuse(reader, "more than %d axes; accepted: at most that many",
                               (int)KVMILL_MOST_RANK);
        if (is_dim)
            dims[type->rank++] = dim;
    }
    type->dims = mlir_allocate(reader, (size_t)type->rank + 1, sizeof *dims);
    if (type->dims != NULL)
        memcpy(type->dims, dims, (size_t)type->rank * sizeof *dims);
    return type->dims != NULL;
}

static bool check_size(struct mlir_reader *reader, const struct mlir_type *type) {
    int64_t bytes = kvmill_element_bytes(type->element.dtype);
    bool overflow = false;
    for (int d = 0; d < type->rank; d++) {
        if (type->dims[d] == 0)
            return true;
        if (type->dims[d] != KVMILL_DYNAMIC)
            overflow |= __builtin_mul_overflow(bytes, type->dims[d], &bytes);
    }
    return !overflow ||
           mlir_refuse(reader, "the tensor is too large; accepted: less than 2^63 bytes");
}

/* Parses a tensor type after "tensor". */
static bool parse_tensor(struct mlir_reader *reader, struct mlir_type *type) {
    type->is_tensor = true;
    if (!mlir_expect(reader, "<"))
        return false;
    type->is_unranked = mlir_accept(reader, "*");
    if ((type->is_unranked && !take_x(reader)) || !parse_dims(reader, type) ||
        !parse_element(reader, type) || !check_size(reader, type))
        return false;
    type->has_encoding = mlir_accept(reader, ",");
    return type->has_encoding ? mlir_skip_balanced(reader, '<', '>') : mlir_expect(reader, ">");
}

/* Parses a type that is no tensor, and keeps its text. */
static bool parse_other(struct mlir_reader *reader) {
    struct mlir_word word;
    char c = (char)mlir_peek(reader);
    if (c == '!' ? !mlir_accept_sigil(reader, '!', &word) : mlir_accept_word(reader).length == 0)
        return c != '!' && mlir_refuse(reader, "no type here; accepted: tensor<..>");
    return !mlir_accept(reader, "<") || mlir_skip_balanced(reader, '<', '>');
}

bool mlir_parse_type(struct mlir_reader *reader, const struct mlir_type **parsed) {
    struct mlir_type *type = mlir_allocate(reader, 1, sizeof *type);
    if (type == NULL)
        return false;
    mlir_skip(reader);
    type->at = reader->at;
    *parsed = type;
    bool done = mlir_accept(reader, "tensor") ? parse_tensor(reader, type) : parse_other(reader);
    type->word = (struct mlir_word){reader->file->text + type->at, reader->at - type->at};
    while (type->word.length > 0 && isspace((unsigned char)type->word.text[type->word.length - 1]))
        type->word.length--;
    return done;
}

bool mlir_parse_types(struct mlir_reader *reader, const struct mlir_type ***types, int *count) {
    *count = 0;
    do {
        *types = mlir_grow(reader, *types, *count, sizeof **types);
        if (*types == NULL || !mlir_parse_type(reader, &(*types)[*count]))
            return false;
        ++*count;
    } while (mlir_accept(reader, ","));
    return true;
}

bool mlir_same_shape(const struct mlir_type *a, const struct mlir_type *b) {
    return a->is_tensor && b->is_tensor && a->is_unranked == b->is_unranked && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

bool mlir_type_equal(const struct mlir_type *a, const struct mlir_type *b) {
    if (a == b)
        return true;
    if (!a->is_tensor || !b->is_tensor)
        return a->is_tensor == b->is_tensor && a->word.length == b->word.length &&
               memcmp(a->word.text, b->word.text, a->word.length) == 0;
    return mlir_same_shape(a, b) && a->is_index == b->is_index &&
           kvmill_element_equal(&a->element, &b->element);
}

int64_t mlir_type_count(const struct mlir_type *type) {
    return kvmill_count_of(type->dims, type->rank);
}

/* ---- Dense literals ---- */

/* A literal whose elements are being read; count: elements so far. */
struct filling {
    struct mlir_reader *reader;
    const struct mlir_type *type;
    unsigned char *data;
    int64_t count;
};

static bool parse_truth(struct mlir_reader *reader, uint64_t *bits) {
    *bits = mlir_accept(reader, "true");
    return *bits || mlir_accept(reader, "false") ||
           mlir_refuse(reader, "an element of i1; accepted: true, false");
}

static bool parse_integer(struct mlir_reader *reader, DLDataType type, uint64_t *bits) {
    char text[64], *end;
    size_t before = reader->at;
    if (!copy_number(reader, mlir_accept_number(reader), text))
        return false;
    bool negative = text[0] == '-', is_signed = type.code == kDLInt;
    errno = 0;
    uint64_t magnitude = strtoull(text + negative, &end, text[negative + 1] == 'x' ? 16 : 10);
    uint64_t most = type.bits == 64 ? UINT64_MAX : ((uint64_t)1 << type.bits) - 1;
    uint64_t least = is_signed ? (uint64_t)1 << (type.bits - 1) : 0;
    *bits = (negative ? 0 - magnitude : magnitude) & most;
    if (*end == '\0' && errno == 0 && magnitude <= (negative ? least : most) &&
        (!negative || is_signed))
        return true;
    reader->at = before;
    return mlir_refuse(reader, "%s is not an element of %s; accepted: integers that fit", text,
                       kvmill_element_word(type));
}

static bool parse_float(struct mlir_reader *reader, DLDataType type, uint64_t *bits) {
    char text[64], *end;
    size_t before = reader->at;
    if (!copy_number(reader, mlir_accept_number(reader), text))
        return false;
    if (text[0] != '-' && text[1] == 'x') {
        errno = 0;
        *bits = strtoull(text, &end, 16);
        bool fits = errno == 0 && (type.bits == 64 || *bits >> type.bits == 0);
        if (*end == '\0' && fits)
            return true;
    } else {
        *bits = kvmill_bits_of(type, strtod(text, &end));
        if (*end == '\0')
            return true;
    }
    reader->at = before;
    return mlir_refuse(reader,
                       "%s is not an element of %s; accepted: 1.5, 1.5e+00, or its bits as 0x..",
                       text, kvmill_element_word(type));
}

static bool parse_complex(struct mlir_reader *reader, DLDataType type,
                          struct kvmill_scalar *scalar) {
    DLDataType half = {kDLFloat, (uint8_t)(type.bits / 2), 1};
    uint64_t real, imaginary;
    if (!mlir_expect(reader, "(") || !parse_float(reader, half, &real) ||
        !mlir_expect(reader, ",") || !parse_float(reader, half, &imaginary) ||
        !mlir_expect(reader, ")"))
        return false;
    *scalar = kvmill_complex_of(type, real, imaginary);
    return true;
}

static bool parse_scalar(struct filling *filling) {
    struct mlir_reader *reader = filling->reader;
    DLDataType type = filling->type->element.dtype;
    struct kvmill_scalar scalar = {{0, 0}};
    enum kvmill_kind kind = kvmill_kind_of(type);
    bool done = kind == KVMILL_BOOL      ? parse_truth(reader, &scalar.word[0])
                : kind == KVMILL_FLOAT   ? parse_float(reader, type, &scalar.word[0])
                : kind == KVMILL_COMPLEX ? parse_complex(reader, type, &scalar)
                                         : parse_integer(reader, type, &scalar.word[0]);
    if (done)
        kvmill_scalar_store(type, scalar,
                            filling->data + filling->count++ * kvmill_element_bytes(type));
    return done;
}

/* Parses "[", elements of axis d or deeper, "]". */
static bool parse_list(struct filling *filling, int d) {
    struct mlir_reader *reader = filling->reader;
    const struct mlir_type *type = filling->type;
    int64_t count = 0, wanted = d < type->rank ? type->dims[d] : 0;
    if (d == type->rank)
        return parse_scalar(filling);
    if (!mlir_expect(reader, "["))
        return false;
    while (mlir_peek(reader) != ']') {
        if (count++ == wanted)
            return mlir_refuse(reader,
                               "more elements on axis %d than the type says; accepted: %" PRId64, d,
                               wanted);
        if (!parse_list(filling, d + 1))
            return false;
        if (!mlir_accept(reader, ","))
            break;
    }
    if (count != wanted)
        return mlir_refuse(
            reader, "%" PRId64 " elements on axis %d; accepted: %" PRId64 ", as the type says",
            count, d, wanted);
    return mlir_expect(reader, "]");
}

static int hex_value(int c) {
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

/* Parses raw little-endian bytes, "0x...". */
static bool parse_blob(struct mlir_reader *reader, struct mlir_literal *literal) {
    struct mlir_word word;
    DLDataType type = literal->type->element.dtype;
    int64_t bytes = kvmill_element_bytes(type), count = mlir_type_count(literal->type);
    size_t before = reader->at;
    if (!mlir_accept_string(reader, &word))
        return false;
    int64_t have = word.length >= 2 ? (int64_t)(word.length - 2) / 2 : 0;
    literal->is_splat = have == bytes && count != 1;
    bool fits = word.length % 2 == 0 && word.length >= 2 && memcmp(word.text, "0x", 2) == 0 &&
                (literal->is_splat || have == count * bytes) && type.code != KVMILL_DL_BOOL;
    literal->data = mlir_allocate(reader, (size_t)have + 16, 1);
    if (literal->data == NULL)
        return false;
    for (int64_t i = 0; fits && i < have; i++) {
        int high = hex_value(word.text[2 * i + 2]), low = hex_value(word.text[2 * i + 3]);
        fits = high >= 0 && low >= 0;
        literal->data[i] = (unsigned char)(high * 16 + low);
    }
    if (fits)
        return true;
    reader->at = before;
    return mlir_refuse(reader,
                       "a literal of %" PRId64 " bytes as text; accepted: \"0x..\", two digits a "
                       "byte, %" PRId64 " elements or 1 of %" PRId64 " bytes, and not i1",
                       have, count, bytes);
}

static bool parse_elements(struct mlir_reader *reader, struct mlir_literal *literal) {
    struct filling filling = {.reader = reader, .type = literal->type};
    int64_t count = mlir_type_count(literal->type);
    int first = mlir_peek(reader);
    if (first == '>')
        return count == 0 || mlir_refuse(reader, "no elements; accepted: %" PRId64, count);
    if (first == '"')
        return parse_blob(reader, literal);
    literal->is_splat = first != '[';
    if (!literal->is_splat && (uint64_t)count > reader->file->length)
        return mlir_refuse(reader,
                           "a list of %" PRId64 " elements cannot be here; accepted: all of them, "
                           "or one for all",
                           count);
    int64_t room = literal->is_splat ? 1 : count;
    filling.data = literal->data = mlir_allocate(
        reader, (size_t)room + 1, (size_t)kvmill_element_bytes(literal->type->element.dtype));
    if (filling.data == NULL)
        return false;
    return literal->is_splat ? parse_scalar(&filling) : parse_list(&filling, 0);
}

static bool skip_literal(struct mlir_reader *reader) {
    struct mlir_word string;
    while (mlir_peek(reader) != '>') {
        if (mlir_peek(reader) == 0)
            return mlir_refuse(reader, "dense< without end; accepted: dense<..> : tensor<..>");
        if (mlir_peek(reader) != '"')
            reader->at++;
        else if (!mlir_accept_string(reader, &string))
            return false;
    }
    return true;
}

static bool check_literal_type(struct mlir_reader *reader, const struct mlir_type *type) {
    if (!type->is_tensor || type->is_unranked)
        return mlir_refuse(reader, "dense<..> of %.*s; accepted: a ranked tensor",
                           (int)(type->word.length < 60 ? type->word.length : 60), type->word.text);
    for (int d = 0; d < type->rank; d++)
        if (type->dims[d] == KVMILL_DYNAMIC)
            return mlir_refuse(reader, "dense<..> of a type with ?; accepted: known extents");
    return true;
}

/* The type comes after the elements, but is needed to read them. */
bool mlir_parse_dense(struct mlir_reader *reader, struct mlir_literal *literal) {
    if (!mlir_expect(reader, "<"))
        return false;
    size_t begin = reader->at;
    if (!skip_literal(reader) || !mlir_expect(reader, ">") || !mlir_expect(reader, ":") ||
        !mlir_parse_type(reader, &literal->type) || !check_literal_type(reader, literal->type))
        return false;
    size_t end = reader->at;
    reader->at = begin;
    if (!parse_elements(reader, literal) || !mlir_expect(reader, ">"))
        return false;
    reader->at = end;
    return true;
}
