/* Inside the reader of StableHLO text.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_MLIR_MLIR_READER_H
#define KVMILL_MLIR_MLIR_READER_H

#include "mlir.h"

enum { MLIR_DEEPEST = 64 };

struct mlir_name;

struct mlir_reader {
    struct mlir_file *file;
    struct error *error;
    size_t at;
    int depth; /* of regions, lists and dicts */
    struct mlir_chunk *chunk;
    struct mlir_function *function;
    struct mlir_name **names; /* buckets; of the function being read */
    struct mlir_name *newest;
    int64_t serial, scope; /* of the next name; of the first name in this scope */
    /* Parses an item of a region: an op, or a module or function with all that is in it. */
    bool (*parse_item)(struct mlir_reader *reader, struct mlir_block *block);
};

struct mlir_scope {
    struct mlir_name *newest;
    int64_t scope;
};

/* ---- Text (mlir_text.c) ---- */

/* Returns zeroed memory that belongs to the file, or NULL with an error. */
void *mlir_allocate(struct mlir_reader *reader, size_t count, size_t size);

/* Fails with "file:line:column: what; accepted: ..." at the next word. */
__attribute__((format(printf, 2, 3))) bool mlir_refuse(struct mlir_reader *reader,
                                                       const char *format, ...);

/* Skip spaces and comments. */
void mlir_skip(struct mlir_reader *reader);

/* Returns the next character after spaces; 0 at the end. */
int mlir_peek(struct mlir_reader *reader);

/* Whether only spaces are between the next character and the beginning of its line. */
bool mlir_at_line_start(struct mlir_reader *reader);

/* Takes `text` if it comes next; a word must end after it. */
bool mlir_accept(struct mlir_reader *reader, const char *text);
bool mlir_expect(struct mlir_reader *reader, const char *text);
bool mlir_next_is(const struct mlir_reader *reader, const char *text); /* does not take it */

/* Takes a bare word: letters, digits, _ $ . and -, but no - at its beginning.  Length 0: no
   word. */
struct mlir_word mlir_accept_word(struct mlir_reader *reader);

/* Takes a sigil (% @ # ! ^) and the word after it. */
bool mlir_accept_sigil(struct mlir_reader *reader, char sigil, struct mlir_word *word);
bool mlir_accept_string(struct mlir_reader *reader, struct mlir_word *word);

/* Takes a number, as text.  Length 0: no number. */
struct mlir_word mlir_accept_number(struct mlir_reader *reader);
bool mlir_accept_integer(struct mlir_reader *reader, int64_t *value);

/* Copies a number for strtod and the like; fails if it is none, or too long. */
bool mlir_copy_number(struct mlir_reader *reader, struct mlir_word word, char text[64]);

/* Takes a string, an arrow or one character. */
bool mlir_skip_token(struct mlir_reader *reader);

/* After an opening bracket: skips to after the closing one. */
bool mlir_skip_balanced(struct mlir_reader *reader, char open, char close);

bool mlir_enter(struct mlir_reader *reader);
void mlir_leave(struct mlir_reader *reader);

/* Makes room in an array of the file; the array may move. */
void *mlir_grow(struct mlir_reader *reader, void *array, int count, size_t size);

/* ---- Types, literals, attributes, ops ---- */

bool mlir_parse_type(struct mlir_reader *reader, const struct mlir_type **type);

bool mlir_parse_element(struct mlir_reader *reader, kvmill_element_type *element);

/* Parses type { "," type }, up to the closing parenthesis, which the caller takes. */
bool mlir_parse_types(struct mlir_reader *reader, const struct mlir_type ***types, int *count);

/* Parses what follows "dense": <..> : type.  The kind becomes MLIR_DENSE; or MLIR_OPAQUE, if kvmill
   does not have the type: then only the literal's type is set. */
bool mlir_parse_dense(struct mlir_reader *reader, struct mlir_attr *attr);

bool mlir_parse_attr(struct mlir_reader *reader, struct mlir_attr *attr);

/* After an opening bracket: parses key [= attr] {, ..} and `close`, and adds to dict. */
bool mlir_parse_fields(struct mlir_reader *reader, const char *close, struct mlir_attr *dict);
bool mlir_add_attr(struct mlir_reader *reader, struct mlir_attr *dict, struct mlir_word key,
                   const struct mlir_attr *value);

/* ---- Parts of ops (mlir_parts.c) ---- */

/* The types after an op's colon. */
struct mlir_signature {
    const struct mlir_type **operands, **results;
    int operand_count, result_count;
};

/* Whether a bare word can be the name of an op. */
bool mlir_is_op_word(struct mlir_word word);

bool mlir_set_op_name(struct mlir_reader *reader, struct mlir_op *op, struct mlir_word word);
bool mlir_add_operand(struct mlir_reader *reader, struct mlir_op *op);

/* Parses "(", uses, ")". */
bool mlir_parse_operands(struct mlir_reader *reader, struct mlir_op *op);

/* Parses (types) -> type, or -> (types). */
bool mlir_parse_function_type(struct mlir_reader *reader, struct mlir_signature *signature);
bool mlir_check_operands(struct mlir_reader *reader, const struct mlir_op *op,
                         const struct mlir_signature *signature);

/* Parses (%a: type, ..) as values of the function. */
bool mlir_parse_arguments(struct mlir_reader *reader, struct mlir_block *block);

/* Parses ops up to a closing brace, which is taken. */
bool mlir_parse_ops(struct mlir_reader *reader, struct mlir_block *block, const char *close);

/* Parses a region after its "{"; or several, up to the closing parenthesis. */
bool mlir_parse_region(struct mlir_reader *reader, struct mlir_block *block);
bool mlir_parse_regions(struct mlir_reader *reader, struct mlir_op *op);

/* ---- Ops ---- */

/* Parses an op in pretty form (mlir_pretty.c). */
bool mlir_parse_pretty(struct mlir_reader *reader, int results, struct mlir_op *op,
                       struct mlir_signature *signature);

/* Parses the rest of an op whose form is not known, after its name, by MLIR's lexical structure
   (mlir_unknown.c). */
bool mlir_parse_unknown(struct mlir_reader *reader, int results, struct mlir_op *op,
                        struct mlir_signature *signature);

/* Takes loc(..), if it comes next. */
bool mlir_skip_location(struct mlir_reader *reader);

/* Parses an op (mlir_ops.c). */
bool mlir_parse_op(struct mlir_reader *reader, struct mlir_block *block);

/* ---- Names of values ---- */

bool mlir_define(struct mlir_reader *reader, struct mlir_word name, int value, int count);
bool mlir_add_value(struct mlir_reader *reader, const struct mlir_value *value, int *number);
bool mlir_parse_use(struct mlir_reader *reader, int *value, struct mlir_span *place);

/* Begin a scope, whose names may hide outer ones, and forget its names. */
struct mlir_scope mlir_enter_scope(struct mlir_reader *reader);
void mlir_leave_scope(struct mlir_reader *reader, struct mlir_scope outer);

#endif
