/* ONNX models for tests, from lines of text, or what semicolons part; written field by field,
   without the reader's code.

       opset 24 [DOMAIN]
       input NAME TYPE EXTENT ...        also output, info; an extent is a number, a name or ?
       input NAME TYPE -                 without a shape; TYPE - : without a type
       initial NAME TYPE EXTENT ... : NUMBER ...
       external NAME TYPE EXTENT ...     an initialiser whose elements are in another file
       sparse NAME
       node OP INPUT,INPUT OUTPUT [KEY=VALUE ...]   - : no inputs, or one that is not given
       graph NAME                        begins a graph for the attribute branch=NAME
       function DOMAIN NAME INPUTS [KEY=DEFAULT ...]      begins a function of the model's own;
                                         without words it is empty
       end                               ends the last graph or function that has begun

   TYPE is one of float32, int32, int64, float16, bool, uint8, bfloat16, string, int4, or a number
   of ONNX's.  Values of a node: integers, floats (with a point), [lists], words; name=, domain= are
   the node's own; branch=NAME is a graph, or bytes that are none; tensor=TYPE:NUMBER a tensor of
   one element; KEY=@NAME the value of the function's attribute.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ONNX_TEXT_H
#define KVMILL_TESTS_ONNX_TEXT_H

#include <stdint.h>

#include "../base/text.h"

/* Writes the model of a text; bails out if the text is wrong.  Release with text_free. */
void onnx_write(const char *description, struct text *file);

/* Append fields of a message, for malformed files. */
void onnx_put_varint(struct text *message, uint64_t value);
void onnx_put_number(struct text *message, int field, uint64_t value);
void onnx_put_bytes(struct text *message, int field, const void *data, size_t length);

/* ---- GGUF ---- */

/* The file of a line of text.  Pieces between ", ": KEY=TYPE:VALUE, where TYPE is u, i, q, f, b, s
   (uint32, int32, uint64, float32, bool, a string), or one of these after [ for an array of
   VALUE,VALUE...; @NUMBER, another version; +NUMBER, more keys than there are; and names of
   tensors.  Release with text_free. */
void gguf_write(const char *description, struct text *file);

#endif
