/* Types of StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../ops/extent.h"
#include "mlir_reader.h"

/* ---- Element types ---- */

bool mlir_copy_number(struct mlir_reader *reader, struct mlir_word word, char text[64]) {
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
    if (!mlir_copy_number(reader, mlir_accept_number(reader), text))
        return false;
    *value = strtod(text, &end);
    if (*end == '\0')
        return true;
    reader->at = before;
    return mlir_refuse(reader, "%s is not a number; accepted: digits, a point, an exponent", text);
}

const char mlir_known_elements[] =
    "i1, i2 to i64, ui2 to ui64, f4 to f64 and bf16 as StableHLO calls them, complex<f32>, "
    "complex<f64>, index, !quant.uniform<..> per tensor";

/* Takes <..>, if it comes next. */
static bool skip_parameters(struct mlir_reader *reader) {
    return !mlir_accept(reader, "<") || mlir_skip_balanced(reader, '<', '>');
}

static bool parse_word_element(struct mlir_reader *reader, struct mlir_type *type) {
    size_t before = reader->at;
    struct mlir_word word = mlir_accept_word(reader);
    if (word.length == 0)
        return mlir_refuse(reader, "no element type here; accepted: %s", mlir_known_elements);
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
    mlir_accept_word(reader);
    type->is_unknown = true;
    return skip_parameters(reader);
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

/* Parses a quantised type after "!quant.uniform". */
static bool parse_quantized(struct mlir_reader *reader, struct mlir_type *type) {
    kvmill_element_type *element = &type->element;
    if (!mlir_expect(reader, "<") || !set_storage(reader, mlir_accept_word(reader), element) ||
        !parse_storage_range(reader, element) || !mlir_expect(reader, ":"))
        return false;
    struct mlir_word word = mlir_accept_word(reader);
    if (!kvmill_element_by_word(word.text, word.length, &element->expressed) ||
        kvmill_kind_of(element->expressed) != KVMILL_FLOAT)
        return mlir_refuse(reader,
                           "the expressed type of !quant.uniform is %.*s; accepted: a float",
                           (int)(word.length < 40 ? word.length : 40), word.text);
    type->is_unknown = mlir_peek(reader) == ':'; /* quantised per axis */
    if (type->is_unknown)
        return mlir_skip_balanced(reader, '<', '>');
    return mlir_expect(reader, ",") && parse_scale(reader, element) && mlir_expect(reader, ">");
}

static bool parse_element(struct mlir_reader *reader, struct mlir_type *type) {
    struct mlir_word name;
    if (mlir_peek(reader) != '!')
        return parse_word_element(reader, type);
    if (!mlir_accept_sigil(reader, '!', &name))
        return false;
    if (mlir_word_is(name, "quant.uniform"))
        return parse_quantized(reader, type);
    type->is_unknown = true;
    return skip_parameters(reader);
}

bool mlir_parse_element(struct mlir_reader *reader, kvmill_element_type *element) {
    struct mlir_type type = {0};
    size_t before = reader->at;
    bool done = parse_element(reader, &type);
    *element = type.element;
    if (done && type.is_unknown) {
        reader->at = before;
        return mlir_refuse(reader, "not an element type that kvmill has; accepted: %s",
                           mlir_known_elements);
    }
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
    if (type->is_unknown)
        return true;
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
    return skip_parameters(reader);
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

static bool mlir_same_shape(const struct mlir_type *a, const struct mlir_type *b) {
    return a->is_tensor && b->is_tensor && a->is_unranked == b->is_unranked && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

bool mlir_type_equal(const struct mlir_type *a, const struct mlir_type *b) {
    if (a == b)
        return true;
    if (!a->is_tensor || !b->is_tensor || a->is_unknown || b->is_unknown)
        return a->is_tensor == b->is_tensor && a->word.length == b->word.length &&
               memcmp(a->word.text, b->word.text, a->word.length) == 0;
    return mlir_same_shape(a, b) && a->is_index == b->is_index &&
           kvmill_element_equal(&a->element, &b->element);
}

int64_t mlir_type_count(const struct mlir_type *type) {
    return kvmill_count_of(type->dims, type->rank);
}

bool mlir_is_literal_of(const struct mlir_attr *value, const struct mlir_type *type) {
    return value->kind == MLIR_DENSE && !type->is_unranked &&
           mlir_same_shape(value->literal.type, type) &&
           kvmill_dtype_equal(value->literal.type->element.dtype, type->element.dtype);
}
