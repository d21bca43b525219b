/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_text.h"

#include "tap.h"

static const struct type {
    char letter;
    int number, bytes;
} types[] = {{'u', 4, 4}, {'i', 5, 4}, {'f', 6, 4}, {'b', 7, 1}, {'s', 8, 0}, {'q', 10, 8}};

static const struct type *type_of(char letter) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].letter == letter)
            return &types[i];
    bail_out("gguf_text: no type %c", letter);
}

static void put(struct text *file, const void *data, size_t length) {
    must(text_append(file, data, length), "no memory");
}

static void put_number(struct text *file, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++, number >>= 8)
        put(file, &(unsigned char){(unsigned char)number}, 1);
}

static void put_string(struct text *file, const char *text, size_t length) {
    put_number(file, length, 8);
    put(file, text, length);
}

static void put_value(struct text *file, const struct type *type, const char *text, size_t length) {
    float real = strtof(text, NULL);
    uint32_t bits;
    memcpy(&bits, &real, sizeof bits);
    if (type->bytes == 0)
        put_string(file, text, length);
    else
        put_number(file, type->letter == 'f' ? bits : (uint64_t)strtoll(text, NULL, 0),
                   type->bytes);
}

static void put_array(struct text *file, const struct type *type, const char *text) {
    uint64_t count = 1;
    for (const char *c = text; *c != '\0'; c++)
        count += *c == ',';
    put_number(file, 9, 4);
    put_number(file, (uint64_t)type->number, 4);
    put_number(file, count, 8);
    for (; count > 0; count--) {
        size_t length = strcspn(text, ",");
        put_value(file, type, text, length);
        text += length + 1;
    }
}

static void put_pair(struct text *file, const char *piece, const char *equals) {
    bool array = equals[1] == '[';
    const struct type *type = type_of(equals[1 + array]);
    const char *value = equals + 3 + array;
    put_string(file, piece, (size_t)(equals - piece));
    if (array) {
        put_array(file, type, value);
        return;
    }
    put_number(file, (uint64_t)type->number, 4);
    put_value(file, type, value, strlen(value));
}

static void put_tensor(struct text *file, const char *name) {
    put_string(file, name, strlen(name));
    put_number(file, 1, 4);
    put_number(file, 64, 8);
    put_number(file, 0, 4);
    put_number(file, 0, 8);
}

struct parts {
    uint64_t version, pair_count, tensor_count;
    struct text pairs, tensors;
};

static void put_piece(struct parts *parts, const char *piece) {
    const char *equals = strchr(piece, '=');
    if (*piece == '@')
        parts->version = strtoull(piece + 1, NULL, 0);
    else if (*piece == '+')
        parts->pair_count += strtoull(piece + 1, NULL, 0);
    else if (equals != NULL && ++parts->pair_count)
        put_pair(&parts->pairs, piece, equals);
    else if (*piece != '\0' && ++parts->tensor_count)
        put_tensor(&parts->tensors, piece);
}

static void put_parts(struct text *file, struct parts *parts) {
    put(file, "GGUF", 4);
    put_number(file, parts->version, 4);
    put_number(file, parts->tensor_count, 8);
    put_number(file, parts->pair_count, 8);
    put(file, parts->pairs.length ? parts->pairs.data : "", parts->pairs.length);
    put(file, parts->tensors.length ? parts->tensors.data : "", parts->tensors.length);
    text_free(&parts->pairs);
    text_free(&parts->tensors);
}

void gguf_write(const char *description, struct text *file) {
    struct parts parts = {.version = 3};
    char *line = strdup(description), *next;
    for (char *piece = line; piece != NULL; piece = next) {
        next = strstr(piece, ", ");
        if (next != NULL) {
            *next = '\0';
            next += 2;
        }
        put_piece(&parts, piece);
    }
    *file = (struct text){0};
    put_parts(file, &parts);
    free(line);
}
