/* Dense literals of StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../defs/dtype.h"
#include "mlir_reader.h"

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
    if (!mlir_copy_number(reader, mlir_accept_number(reader), text))
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
    if (!mlir_copy_number(reader, mlir_accept_number(reader), text))
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

/* Sets data to the bytes of "0x..", two digits each; false if it is something else. */
static bool read_hex(struct mlir_word word, unsigned char *data) {
    bool fits = word.length % 2 == 0 && word.length >= 2 && memcmp(word.text, "0x", 2) == 0;
    for (size_t i = 2; fits && i < word.length; i += 2) {
        int high = hex_value(word.text[i]), low = hex_value(word.text[i + 1]);
        fits = high >= 0 && low >= 0;
        data[i / 2 - 1] = (unsigned char)(high * 16 + low);
    }
    return fits;
}

/* Makes a byte of each bit: MLIR writes i1 as bits, the first one lowest. */
static bool unpack_bits(struct mlir_reader *reader, struct mlir_literal *literal, int64_t count) {
    unsigned char *bits = literal->data;
    literal->data = mlir_allocate(reader, (size_t)count + 16, 1);
    for (int64_t i = 0; literal->data != NULL && i < count; i++)
        literal->data[i] = bits[i / 8] >> i % 8 & 1;
    return literal->data != NULL;
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
    bool packed = type.code == KVMILL_DL_BOOL && have == count / 8 + (count % 8 > 0);
    literal->is_splat = have == bytes && count != 1 && !packed;
    literal->data = mlir_allocate(reader, (size_t)have + 16, 1);
    if (literal->data == NULL)
        return false;
    bool fits = read_hex(word, literal->data);
    if (fits && packed)
        return unpack_bits(reader, literal, count);
    for (int64_t i = 0; type.code == KVMILL_DL_BOOL && i < have; i++)
        literal->data[i] = literal->data[i] != 0;
    if (fits && (literal->is_splat || (have % bytes == 0 && have / bytes == count)))
        return true;
    reader->at = before;
    return mlir_refuse(reader,
                       "a literal of %" PRId64 " bytes as text; accepted: \"0x..\", two digits a "
                       "byte, %" PRId64 " elements or 1 of %" PRId64 " bytes; i1 also as bits",
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
    if (type->is_unranked)
        return mlir_refuse(reader, "dense<..> of %.*s; accepted: a ranked tensor",
                           mlir_word_length(type->word), type->word.text);
    for (int d = 0; d < type->rank; d++)
        if (type->dims[d] == KVMILL_DYNAMIC)
            return mlir_refuse(reader, "dense<..> of a type with ?; accepted: known extents");
    return true;
}

/* The type comes after the elements, but is needed to read them. */
bool mlir_parse_dense(struct mlir_reader *reader, struct mlir_attr *attr) {
    struct mlir_literal *literal = &attr->literal;
    attr->kind = MLIR_OPAQUE;
    if (!mlir_expect(reader, "<"))
        return false;
    size_t begin = reader->at;
    if (!skip_literal(reader) || !mlir_expect(reader, ">") || !mlir_expect(reader, ":") ||
        !mlir_parse_type(reader, &literal->type) || !check_literal_type(reader, literal->type))
        return false;
    size_t end = reader->at;
    if (!literal->type->is_tensor || literal->type->is_unknown)
        return true;
    attr->kind = MLIR_DENSE;
    reader->at = begin;
    if (!parse_elements(reader, literal) || !mlir_expect(reader, ">"))
        return false;
    reader->at = end;
    return true;
}
