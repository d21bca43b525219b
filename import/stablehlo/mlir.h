/* StableHLO text as a tree.

   The subset is that of programs around gather and scatter: modules and functions, any op in
   generic form, elementwise ops and some others in pretty form.  The file owns everything, and
   mlir_free frees it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_STABLEHLO_MLIR_H
#define KVMILL_IMPORT_STABLEHLO_MLIR_H

#include <stddef.h>
#include <stdint.h>

#include "../../base/error.h"
#include "../../ops/element.h"
#include "../../ops/windows.h"

/* Text of the file; not NUL-terminated. */
struct mlir_word {
    const char *text;
    size_t length;
};

/* Offsets in the file, from the first character to after the last. */
struct mlir_span {
    size_t begin, end;
};

/* `at` is everywhere the offset in the file that messages are about. */
struct mlir_type {
    size_t at;
    bool is_tensor;    /* else only `word` is set */
    bool is_unranked;  /* tensor<*x..> */
    bool has_encoding; /* bounds, sparsity */
    bool is_index;     /* element type `index`, an i64 to us */
    int rank;
    int64_t *dims; /* KVMILL_DYNAMIC: ? */
    kvmill_element_type element;
    struct mlir_word word; /* as written */
};

struct mlir_literal {
    const struct mlir_type *type;
    bool is_splat;       /* one element stands for all */
    unsigned char *data; /* elements as the library has them */
};

enum mlir_attr_kind {
    MLIR_UNIT,
    MLIR_INTEGER,
    MLIR_FLOAT,
    MLIR_BOOL,
    MLIR_STRING, /* and @symbols and bare words */
    MLIR_LIST,   /* also array<..> */
    MLIR_DICT,   /* also the fields of #NAME<..>; `word` is the name */
    MLIR_DENSE,
    MLIR_TYPE,
    MLIR_OPAQUE /* #NAME<..> that nobody asks for */
};

struct mlir_attr {
    enum mlir_attr_kind kind;
    size_t at, end;  /* of the value; of a name alone both are after it */
    int64_t integer; /* and truth */
    double number;
    struct mlir_word word;
    struct mlir_attr *items; /* list: elements; dict: values */
    struct mlir_word *keys;  /* dict */
    int count;
    struct mlir_literal literal;
    const struct mlir_type *type;
};

struct mlir_op;

/* A value of a function: what defines it, and its type.  Arguments have no op. */
struct mlir_value {
    size_t at;
    struct mlir_word name;
    const struct mlir_type *type;
    const struct mlir_op *op;
};

/* A sequence of ops, and the values it begins with. */
struct mlir_block {
    int first_argument, argument_count;
    struct mlir_op *first, *last;
};

struct mlir_op {
    struct mlir_op *next;
    size_t at, begin; /* of the op; of the names of its results, if it has any */
    char name[64];    /* "stablehlo.gather" */
    int operand_count, result_count, first_result;
    int *operands;                          /* numbers of values */
    struct mlir_span *uses;                 /* where they are named */
    const struct mlir_type **operand_types; /* as the op itself says them */
    struct mlir_attr attrs;                 /* a dict */
    struct mlir_block *regions;
    int region_count;
};

struct mlir_function {
    struct mlir_function *next;
    size_t at;
    struct mlir_word name;
    const struct mlir_type **results;
    int result_count;
    bool has_body;
    struct mlir_block body;
    struct mlir_value *values;
    int value_count;
};

/* What stands between lines of "// -----". */
struct mlir_chunk {
    struct mlir_chunk *next;
    struct mlir_function *functions;
};

struct mlir_file {
    char name[256];
    char *text;
    size_t length;
    struct mlir_chunk *chunks;
    struct mlir_memory *memory;
};

/* Read a file of at most 256 MiB.  Release with mlir_free, also after a failure. */
bool mlir_read(const char *name, struct mlir_file *file, struct error *error);

/* The same for text in memory, which is copied. */
bool mlir_read_text(const char *name, const char *text, size_t length, struct mlir_file *file,
                    struct error *error);

/* A region alone, "^bb0(%a: tensor<f32>, ..): op op ..", as the body of a function without a name;
   values of `captures` names and types come first. */
struct mlir_capture {
    const char *name, *type;
};
bool mlir_read_region(const char *name, const char *text, size_t length,
                      const struct mlir_capture *captures, int capture_count,
                      struct mlir_file *file, struct error *error);

/* An element type alone, "f32" or "!quant.uniform<..>". */
bool mlir_read_element(const char *name, const char *text, size_t length,
                       kvmill_element_type *element, struct error *error);

/* A tensor type alone. */
bool mlir_read_type(const char *name, const char *text, struct mlir_file *file,
                    const struct mlir_type **type, struct error *error);
void mlir_free(struct mlir_file *file);

/* "file:line:column: " + message; EXIT_USER; false. */
__attribute__((format(printf, 4, 5))) bool mlir_fail(struct error *error,
                                                     const struct mlir_file *file, size_t at,
                                                     const char *format, ...);

/* The attribute of that name, or NULL. */
const struct mlir_attr *mlir_attr_of(const struct mlir_attr *dict, const char *key);

/* "stablehlo.gather"s name without the dialect. */
const char *mlir_short_name(const struct mlir_op *op);

bool mlir_word_is(struct mlir_word word, const char *text);

/* For messages, with %.*s: not all of a word that has no end. */
int mlir_word_length(struct mlir_word word);
bool mlir_same_shape(const struct mlir_type *a, const struct mlir_type *b); /* of tensors */
bool mlir_type_equal(const struct mlir_type *a, const struct mlir_type *b);

/* Elements; the reader has checked that their bytes do not overflow.  Only of known extents. */
int64_t mlir_type_count(const struct mlir_type *type);

#endif
