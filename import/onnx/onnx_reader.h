/* What the files of the ONNX reader and writer that know the format share.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_READER_H
#define KVMILL_IMPORT_ONNX_ONNX_READER_H

#include "onnx.pb-c.h"
#include "onnx_memory.h"

/* The model's own functions. */
struct onnx_functions {
    Onnx__Function **items;
    int count;
};

/* Reads a graph.  names: of a function's inputs; the model's body has the call.  Imports of opsets
   are those of the message around it. */
struct onnx_scope {
    const Onnx__Graph *graph;
    char *const *names;
    size_t name_count;
    Onnx__OperatorSet *const *opsets;
    size_t opset_count;
};
bool onnx_read_graph(struct onnx_model *model, const struct onnx_scope *scope, struct error *error);

/* Returns where a tensor's elements are (onnx_constant.c). */
struct onnx_constant onnx_constant_of(const Onnx__Tensor *tensor);

/* ---- Graphs inside others (onnx_around.c) ---- */

/* Sets the functions of a model. */
bool onnx_read_functions(struct onnx_model *model, const Onnx__Model *message, struct error *error);

/* Returns the model whose values a body sees, or NULL. */
const struct onnx_model *onnx_around(const struct onnx_model *model);

/* Return what the call of a function gives: the value of an input, or NULL; and an attribute, or
   NULL and the function's default, which may be NULL, too. */
const struct onnx_value *onnx_given_value(const struct onnx_model *model, int input);
const struct onnx_attribute *onnx_given_attribute(const struct onnx_model *model, const char *name,
                                                  const Onnx__Attribute **otherwise);

/* ---- Files ---- */

/* Returns the message of the model's file, in the model's memory; or NULL with an error. */
Onnx__Model *onnx_unpack(struct onnx_model *model, struct error *error);

/* Reads a model and its message, which is freed with the model.  Both have the same nodes in the
   same order. */
bool onnx_read_message(const char *file, struct onnx_model *model, Onnx__Model **message,
                       struct error *error);

#endif
