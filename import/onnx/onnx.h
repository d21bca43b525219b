/* ONNX models: the values and nodes of a file's main graph, and of bodies of control flow and the
   model's own functions where they are opened (onnx_bodies.h).

   The model owns everything, and onnx_free frees it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_H
#define KVMILL_IMPORT_ONNX_ONNX_H

#include <kvmill.h>

#include "../../base/error.h"

/* The last opset of the default domain with the meanings that are implemented here. */
enum { ONNX_LAST_OPSET = 28 };

/* Where a constant's elements are. */
enum onnx_place { ONNX_NOWHERE, ONNX_HERE, ONNX_ELSEWHERE /* in another file */ };

/* An array of units of `wide` bytes, little-endian.  A smaller element is the low bytes of a unit;
   a larger element consists of several units. */
struct onnx_constant {
    enum onnx_place place;
    const void *data;
    size_t count;
    int wide;
};

/* What is known of a value.  A name that nothing defines is not a value. */
struct onnx_value {
    const char *name;
    int data_type;    /* ONNX's number; 0: not known */
    DLDataType dtype; /* the same as a type of kvmill; 0 bits if it has none */
    bool has_shape;
    int rank;
    int64_t *dims; /* KVMILL_DYNAMIC: known only at run time */
    struct onnx_constant constant;
    bool is_made;   /* is the output of a node */
    bool is_absent; /* an input of a function that the call lacks */
};

enum onnx_kind {
    ONNX_NOTHING,
    ONNX_FLOAT,
    ONNX_INTEGER,
    ONNX_STRING,
    ONNX_TENSOR,
    ONNX_GRAPH,
    ONNX_FLOATS,
    ONNX_INTEGERS, /* 7; larger numbers do not matter here */
    ONNX_GRAPHS = 10
};

struct onnx_attribute {
    const char *name;
    int kind; /* ONNX's number; enum onnx_kind has those that matter */
    float number;
    int64_t integer;
    const char *text; /* not terminated with 0 */
    size_t length;
    int64_t count; /* elements of the lists */
    const int64_t *integers;
    const float *numbers;
    const struct onnx_value *tensor; /* without a name */
    const void *graph;               /* a body; graph_size bytes */
    size_t graph_size;
};

/* Inputs and outputs are numbers of the model's values, or ONNX_ABSENT. */
enum { ONNX_ABSENT = -1 };
struct onnx_node {
    const char *name, *op, *domain; /* domain "": ONNX's own */
    const char *overload;
    int *inputs, input_count; /* ONNX_ABSENT: absent */
    int *outputs, output_count;
    struct onnx_attribute *attributes;
    int attribute_count;
};

struct onnx_model {
    const char *file; /* must outlive the model */
    int64_t opset;    /* of the default domain; 0: not imported */
    struct onnx_value *values;
    int value_count;
    struct onnx_node *nodes;
    int node_count;
    int *inputs, input_count; /* including inputs with a constant as default */
    int *outputs, output_count;
    int *slots; /* hash table of names: number of the value + 1; 0: free */
    size_t slot_count;
    const struct onnx_functions *functions; /* the model's own */
    const struct onnx_body *body;           /* NULL: the main graph */
    struct onnx_memory *memory;
};

/* Reads a file of at most 2 GiB.  Release the model with onnx_free, also after a failure. */
bool onnx_read(const char *file, struct onnx_model *model, struct error *error);
void onnx_free(struct onnx_model *model);

/* Whether a name ends with ".onnx". */
bool is_onnx_name(const char *name);

/* Returns the type of ONNX's number data_type; 0 bits if kvmill has none. */
DLDataType onnx_dtype(int data_type);

/* Whether a node is ONNX's Constant; its output has the elements of its attribute. */
bool onnx_is_constant(const struct onnx_node *node);

/* Whether a node has bodies of control flow. */
bool onnx_has_graph(const struct onnx_node *node);

/* The name of an op, such as "Gather" or "com.microsoft.GroupQueryAttention". */
struct onnx_op_text {
    char text[96];
};
const char *onnx_op_words(const struct onnx_node *node, struct onnx_op_text *words);

/* Replaces characters of a file's names that a terminal may interpret by "?". */
void onnx_make_printable(char *text);

/* Writes "node NAME (op)", printable; a node without a name has its number. */
void onnx_name_node(const struct onnx_model *model, const struct onnx_node *node, char *words,
                    size_t size);

/* Fails with "file: node NAME (op): " and the message, or "file: " if node is NULL; EXIT_USER.
   Returns false. */
__attribute__((format(printf, 4, 5))) bool onnx_fail(struct error *error,
                                                     const struct onnx_model *model,
                                                     const struct onnx_node *node,
                                                     const char *format, ...);

/* Whether all extents of a value are known, and its type is one of kvmill's. */
bool onnx_is_known(const struct onnx_value *value);

/* Whether a value is known to have no elements. */
bool onnx_is_empty(const struct onnx_value *value);

/* A type in words, such as "float32 [2, ?]". */
struct onnx_type_text {
    char text[160];
};
const char *onnx_type_words(const struct onnx_value *value, struct onnx_type_text *words);

/* Adds type and shape to what is known of a value.  Fails if the model contradicts them. */
bool onnx_learn(struct onnx_model *model, struct onnx_value *value, DLDataType dtype, int rank,
                const int64_t *dims, struct error *error);

/* ---- Attributes: false, with a message, if they have another kind ---- */

bool onnx_integer_of(const struct onnx_model *model, const struct onnx_node *node, const char *name,
                     int64_t otherwise, int64_t *value, struct error *error);

/* Returns 0 if the attribute is absent or not a float. */
double onnx_number_of(const struct onnx_node *node, const char *name);

/* Reads a word of at most size - 1 bytes. */
bool onnx_word_of(const struct onnx_model *model, const struct onnx_node *node, const char *name,
                  const char *otherwise, char *word, size_t size, struct error *error);

/* Fails if the node has an attribute that is not in `known`, which ends with NULL. */
bool onnx_only_attributes(const struct onnx_model *model, const struct onnx_node *node,
                          const char *const *known, struct error *error);

/* ---- Constants ---- */

/* Sets the bytes of a value with known shape; 4-bit elements are packed.  Returns false if they
   exceed INT64_MAX. */
bool onnx_bytes(const struct onnx_value *value, int64_t *bytes);

/* Returns NULL if the constant has all elements of the value, else a reason for a message. */
const char *onnx_constant_problem(const struct onnx_value *value);

/* Copies the elements, row-major, to onnx_bytes of memory.  onnx_constant_problem must
   have returned NULL. */
void onnx_constant_copy(const struct onnx_value *value, void *to);

#endif
