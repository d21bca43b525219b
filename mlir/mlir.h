/* StableHLO text as a tree.

   The subset is that of programs around gather and scatter: modules and functions, any op in
   generic form, elementwise ops and some others in pretty form.  The file owns everything, and
   mlir_free frees it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_MLIR_MLIR_H
#define KVMILL_MLIR_MLIR_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"
#include "../ops/element.h"
#include "../ops/windows.h"

/* A piece of the file's text, not terminated with 0. */
struct mlir_word {
    const char *text;
    size_t length;
};

/* Offsets in the file: of the first character, and after the last. */
struct mlir_span {
    size_t begin, end;
};

/* In all structs `at` is the offset in the file that messages refer to. */
struct mlir_type {
    size_t at;
    bool is_tensor;    /* else only `word` is set */
    bool is_unranked;  /* tensor<*x..> */
    bool has_encoding; /* bounds, sparsity */
    bool is_index;     /* element type `index`, which kvmill treats as i64 */
    bool is_missing;   /* an op of unknown form does not state the type of its result */
    bool is_unknown;   /* an element type that kvmill does not have: `element` is not set */
    int rank;
    int64_t *dims; /* KVMILL_DYNAMIC: ? */
    kvmill_element_type element;
    struct mlir_word word; /* as written */
};

struct mlir_literal {
    const struct mlir_type *type;
    bool is_splat;       /* one element for all */
    unsigned char *data; /* elements in the library's representation */
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
    MLIR_OPAQUE /* #NAME<..> that is not needed; dense<..> of a type that kvmill does not have */
};

struct mlir_attr {
    enum mlir_attr_kind kind;
    size_t at, end;  /* of the value; of a name without a value, both are after the name */
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

/* A value of a function, with the op that defines it and its type.  Arguments have no op. */
struct mlir_value {
    size_t at;
    struct mlir_word name;
    const struct mlir_type *type;
    const struct mlir_op *op;
};

/* A sequence of ops, and the arguments that come first. */
struct mlir_block {
    int first_argument, argument_count;
    bool has_label, is_split; /* is_split: there are more labels, so it is several blocks */
    struct mlir_op *first, *last;
};

struct mlir_op {
    struct mlir_op *next;
    size_t at, begin; /* of the op; of the names of its results, if it has any */
    char name[64];    /* "stablehlo.gather" */
    bool is_unknown;  /* its form is not known: attrs are not set */
    int operand_count, result_count, first_result;
    int *operands;                          /* numbers of values */
    struct mlir_span *uses;                 /* the places of its operands in the file */
    const struct mlir_type **operand_types; /* as the op states them */
    struct mlir_attr attrs;                 /* a dict */
    struct mlir_block *regions;
    int region_count;
};

struct mlir_function {
    struct mlir_function *next;
    size_t at;
    struct mlir_word name; /* "": the ops of a module that are in no function */
    const struct mlir_type **results;
    int result_count;
    bool has_body;
    struct mlir_block body;
    struct mlir_value *values;
    int value_count;
};

/* The text between lines of "// -----". */
struct mlir_chunk {
    struct mlir_chunk *next;
    struct mlir_function *functions, *last;
};

struct mlir_file {
    char name[256];
    char *text;
    size_t length;
    struct mlir_chunk *chunks;
    struct mlir_memory *memory;
};

/* Reads a file of at most 256 MiB.  Release with mlir_free, also after a failure. */
bool mlir_read(const char *name, struct mlir_file *file, struct error *error);

/* The same for text in memory; the file has a copy. */
bool mlir_read_text(const char *name, const char *text, size_t length, struct mlir_file *file,
                    struct error *error);

/* Reads a region, "^bb0(%a: tensor<f32>, ..): op op ..", as the body of a function without a name.
   The first values are the captures, with their names and types. */
struct mlir_capture {
    const char *name, *type;
};
bool mlir_read_region(const char *name, const char *text, size_t length,
                      const struct mlir_capture *captures, int capture_count,
                      struct mlir_file *file, struct error *error);

/* The element types that kvmill has, for messages. */
extern const char mlir_known_elements[];

/* Reads an element type, "f32" or "!quant.uniform<..>". */
bool mlir_read_element(const char *name, const char *text, size_t length,
                       kvmill_element_type *element, struct error *error);

/* Reads a tensor type. */
bool mlir_read_type(const char *name, const char *text, struct mlir_file *file,
                    const struct mlir_type **type, struct error *error);
void mlir_free(struct mlir_file *file);

/* Fails with "file:line:column: " and the message, EXIT_USER.  Returns false. */
__attribute__((format(printf, 4, 5))) bool mlir_fail(struct error *error,
                                                     const struct mlir_file *file, size_t at,
                                                     const char *format, ...);

/* Returns the attribute with this key, or NULL. */
const struct mlir_attr *mlir_attr_of(const struct mlir_attr *dict, const char *key);

/* Returns an op's name without its dialect: "gather" of "stablehlo.gather". */
const char *mlir_short_name(const struct mlir_op *op);

bool mlir_word_is(struct mlir_word word, const char *text);

/* Returns a length for "%.*s" in messages; limits the length of long words. */
int mlir_word_length(struct mlir_word word);
bool mlir_type_equal(const struct mlir_type *a, const struct mlir_type *b);

/* Whether an attribute is a literal of this type; for a quantized type, of its storage type. */
bool mlir_is_literal_of(const struct mlir_attr *value, const struct mlir_type *type);

/* Returns the number of elements of a type with known extents; the reader has checked that their
   bytes do not overflow. */
int64_t mlir_type_count(const struct mlir_type *type);

#endif
