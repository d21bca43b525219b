/* ONNX models: the values and nodes of a file's main graph.

   Bodies of control flow and a model's own functions are ignored.  The model owns everything, and
   onnx_free frees it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_H
#define KVMILL_IMPORT_ONNX_ONNX_H

#include <kvmill.h>

#include "../../base/error.h"

/* The opsets of the default domain whose ops mean what is said here. */
enum { ONNX_LAST_OPSET = 28 };

/* Where a constant's elements are. */
enum onnx_place { ONNX_NOWHERE, ONNX_HERE, ONNX_ELSEWHERE /* in another file */ };

/* Units of `wide` bytes, little-endian; an element of fewer bytes is the low ones of its unit, one
   of more has several. */
struct onnx_constant {
    enum onnx_place place;
    const void *data;
    size_t count;
    int wide;
};

/* What is known of a value.  A name that nothing defines is no value. */
struct onnx_value {
    const char *name;
    int data_type;    /* ONNX's number; 0: not known */
    DLDataType dtype; /* the same, where kvmill has it; else no bits */
    bool has_shape;
    int rank;
    int64_t *dims; /* KVMILL_DYNAMIC: only the run knows */
    struct onnx_constant constant;
    bool is_made; /* by a node */
};

enum onnx_kind {
    ONNX_NOTHING,
    ONNX_FLOAT,
    ONNX_INTEGER,
    ONNX_STRING,
    ONNX_TENSOR,
    ONNX_GRAPH,
    ONNX_FLOATS,
    ONNX_INTEGERS, /* 7; others are of no interest */
    ONNX_GRAPHS = 10
};

struct onnx_attribute {
    const char *name;
    int kind; /* ONNX's number, enum onnx_kind where it matters */
    float number;
    int64_t integer;
    const char *text; /* not NUL-terminated */
    size_t length;
    int64_t count; /* of the lists */
    const int64_t *integers;
    const float *numbers;
    const struct onnx_value *tensor; /* without a name */
};

/* Values by their numbers in the model. */
enum { ONNX_ABSENT = -1 };
struct onnx_node {
    const char *name, *op, *domain; /* domain "": ONNX's own */
    int *inputs, input_count;       /* ONNX_ABSENT: not given */
    int *outputs, output_count;
    struct onnx_attribute *attributes;
    int attribute_count;
};

struct onnx_model {
    const char *file; /* must outlive it */
    int64_t opset;    /* of the default domain; 0: not imported */
    struct onnx_value *values;
    int value_count;
    struct onnx_node *nodes;
    int node_count;
    int *inputs, input_count; /* also those that have a constant for a default */
    int *outputs, output_count;
    int function_count; /* of its own, which are left alone */
    struct onnx_memory *memory;
};

/* Read a file of at most 2 GiB.  Release with onnx_free, also after a failure. */
bool onnx_read(const char *file, struct onnx_model *model, struct error *error);
void onnx_free(struct onnx_model *model);

/* The name ends with ".onnx". */
bool is_onnx_name(const char *name);

/* The element type of that number of ONNX's; no bits where kvmill has none. */
DLDataType onnx_dtype(int data_type);

/* A Constant of ONNX's own: its output has its elements. */
bool onnx_is_constant(const struct onnx_node *node);

/* It has bodies of control flow. */
bool onnx_has_graph(const struct onnx_node *node);

/* "Gather", "com.microsoft.GroupQueryAttention" */
struct onnx_op_text {
    char text[96];
};
const char *onnx_op_words(const struct onnx_node *node, struct onnx_op_text *words);

/* Names are the file's: what a terminal would take for a command becomes "?". */
void onnx_make_printable(char *text);

/* "node NAME (op)", printable; a node without a name has its number. */
void onnx_name_node(const struct onnx_model *model, const struct onnx_node *node, char *words,
                    size_t size);

/* "file: node NAME (op): " + message, of a node, or of the file: NULL; EXIT_USER; false. */
__attribute__((format(printf, 4, 5))) bool onnx_fail(struct error *error,
                                                     const struct onnx_model *model,
                                                     const struct onnx_node *node,
                                                     const char *format, ...);

/* All extents of the value are known, and its type is one of kvmill's. */
bool onnx_is_known(const struct onnx_value *value);

/* It is known to have no elements. */
bool onnx_is_empty(const struct onnx_value *value);

/* "float32 [2, ?]" */
struct onnx_type_text {
    char text[160];
};
const char *onnx_type_words(const struct onnx_value *value, struct onnx_type_text *words);

/* A value turns out to have that type and shape: refused where the model says another. */
bool onnx_learn(struct onnx_model *model, struct onnx_value *value, DLDataType dtype, int rank,
                const int64_t *dims, struct error *error);

/* ---- Attributes: false with a message when they are of another type ---- */

bool onnx_integer_of(const struct onnx_model *model, const struct onnx_node *node, const char *name,
                     int64_t otherwise, int64_t *value, struct error *error);

/* 0 also where it is no float. */
double onnx_number_of(const struct onnx_node *node, const char *name);

/* A word of at most size - 1 bytes. */
bool onnx_word_of(const struct onnx_model *model, const struct onnx_node *node, const char *name,
                  const char *otherwise, char *word, size_t size, struct error *error);

/* None but those of `known`, which ends with NULL. */
bool onnx_only_attributes(const struct onnx_model *model, const struct onnx_node *node,
                          const char *const *known, struct error *error);

/* ---- Constants ---- */

/* Bytes of a value of known shape, 4-bit elements packed; false: more than INT64_MAX. */
bool onnx_bytes(const struct onnx_value *value, int64_t *bytes);

/* Whether the constant has all of the value's elements; else why not, for a message. */
const char *onnx_constant_problem(const struct onnx_value *value);

/* Its elements, row-major, to where onnx_bytes of them go.  There is no problem with it. */
void onnx_constant_copy(const struct onnx_value *value, void *to);

#endif
