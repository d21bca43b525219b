/* Names of values: what %x is, and where it may be used.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mlir_reader.h"

enum { BUCKETS = 1 << 12 };

struct mlir_name {
    struct mlir_name *next;  /* in the bucket */
    struct mlir_name *older; /* in the function */
    struct mlir_word word;
    int value, count;
    unsigned bucket;
    int64_t serial;
};

static unsigned bucket_of(struct mlir_word word) {
    unsigned hash = 5381;
    for (size_t i = 0; i < word.length; i++)
        hash = hash * 33 + (unsigned char)word.text[i];
    return hash % BUCKETS;
}

static struct mlir_name *find(struct mlir_reader *reader, struct mlir_word word) {
    if (reader->names == NULL)
        return NULL;
    struct mlir_name *name = reader->names[bucket_of(word)];
    while (name != NULL && (name->word.length != word.length ||
                            memcmp(name->word.text, word.text, word.length) != 0))
        name = name->next;
    return name;
}

bool mlir_define(struct mlir_reader *reader, struct mlir_word word, int value, int count) {
    if (reader->names == NULL)
        reader->names = mlir_allocate(reader, BUCKETS, sizeof *reader->names);
    if (reader->names == NULL)
        return false;
    const struct mlir_name *old = find(reader, word);
    if (old != NULL && old->serial >= reader->scope)
        return mlir_refuse(reader, "%%%.*s is defined twice; accepted: a new name",
                           (int)(word.length < 60 ? word.length : 60), word.text);
    struct mlir_name *name = mlir_allocate(reader, 1, sizeof *name);
    if (name == NULL)
        return false;
    name->word = word;
    name->value = value;
    name->count = count;
    name->bucket = bucket_of(word);
    name->serial = reader->serial++;
    name->next = reader->names[name->bucket];
    reader->names[name->bucket] = name;
    name->older = reader->newest;
    reader->newest = name;
    return true;
}

struct mlir_scope mlir_enter_scope(struct mlir_reader *reader) {
    struct mlir_scope outer = {reader->newest, reader->scope};
    reader->scope = reader->serial;
    return outer;
}

void mlir_leave_scope(struct mlir_reader *reader, struct mlir_scope outer) {
    for (; reader->newest != outer.newest; reader->newest = reader->newest->older)
        reader->names[reader->newest->bucket] = reader->newest->next;
    reader->scope = outer.scope;
}

bool mlir_add_value(struct mlir_reader *reader, const struct mlir_value *value, int *number) {
    struct mlir_function *function = reader->function;
    *number = function->value_count;
    function->values =
        mlir_grow(reader, function->values, function->value_count, sizeof *function->values);
    if (function->values == NULL)
        return false;
    function->values[function->value_count++] = *value;
    return true;
}

bool mlir_parse_use(struct mlir_reader *reader, int *value, struct mlir_span *place) {
    struct mlir_word word;
    int64_t which = 0;
    mlir_skip(reader);
    size_t begin = reader->at;
    if (!mlir_accept_sigil(reader, '%', &word))
        return false;
    *place = (struct mlir_span){begin, reader->at};
    struct mlir_name *name = find(reader, word);
    if (name == NULL) {
        reader->at = begin;
        return mlir_refuse(reader,
                           "%%%.*s is not defined; accepted: values defined before their use",
                           (int)(word.length < 60 ? word.length : 60), word.text);
    }
    if (mlir_accept(reader, "#")) {
        if (!mlir_accept_integer(reader, &which))
            return false;
        place->end = reader->at;
    }
    if (which < 0 || which >= name->count) {
        reader->at = begin;
        return mlir_refuse(reader, "%%%.*s#%lld is not there; accepted: #0 to #%d",
                           (int)(word.length < 60 ? word.length : 60), word.text, (long long)which,
                           name->count - 1);
    }
    *value = name->value + (int)which;
    return true;
}
