/* Reads texts as the structs of kvmill.h: flow files, and regions and element types of StableHLO.

   The functions are in libkvmill_specs, a shared library beside libkvmill, which needs Jansson and
   not libkvmill.  A program that reads such texts at run time links it; libkvmill itself reads
   none.  The readers are those of the command.

   Everything here may be called by any thread, by any number of threads at a time.  Texts are of
   `length` bytes in UTF-8, need no NUL at their end, and are borrowed for the call.  What is read
   is NULL where a function fails; error, which may be NULL, then has a message that begins with the
   place in the text: "flow.json:3:14: ..." is a line and a column, "flow.json: /index/2/dim: ..." a
   member, "region:1:40: ..." again a line and a column.  KVMILL_E_NULL: a pointer is NULL that must
   not be; KVMILL_E_MEMORY: out of memory; what a flow's check says has its status
   (kvmill_flow_describe); all else is KVMILL_E_ATTRIBUTE.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPECS_H
#define KVMILL_SPECS_H

#include <kvmill_flow.h>
#include <kvmill_stablehlo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read a flow file, as kvmill-specs(5) describes it, and check the flow as kvmill_flow_describe
   does.  name: what messages call the text, a file's name; NULL = "flow".  *flow, its attention and
   all they point to belong to the caller, who releases them with kvmill_free_flow, and does not
   change them.  Attention of which the text does not say num_layer has one layer. */
kvmill_status kvmill_read_flow(const char *name, const char *text, size_t length,
                               const kvmill_flow **flow, kvmill_error *error);

/* Release a flow that kvmill_read_flow gave; NULL is allowed.  Plans made of it keep nothing of
   it. */
void kvmill_free_flow(const kvmill_flow *flow);

/* Read the region of a stablehlo.scatter of `inputs` inputs, 1 to 16:

       ^bb0(%old: tensor<f32>, %new: tensor<f32>):
         %sum = stablehlo.add %old, %new : tensor<f32>
         stablehlo.return %sum : tensor<f32>

   captures: the types of scalars from outside, "tensor<f32>", at most 16, which the text calls
   %capture0, %capture1, ...; a plan runs on all of them, and takes one that is not used as a
   float32.  NULL when capture_count is 0.  *region belongs to the caller, who releases it with
   kvmill_free_region: it is for kvmill_scatter.region, and has the types of results in the first
   `inputs` of its arguments. What its ops may compute is checked by kvmill_plan_scatter. */
kvmill_status kvmill_read_region(const char *text, size_t length, size_t inputs,
                                 const char *const *captures, size_t capture_count,
                                 const kvmill_region **region, kvmill_error *error);

/* Release a region that kvmill_read_region gave; NULL is allowed. */
void kvmill_free_region(const kvmill_region *region);

/* Read an element type of StableHLO: "f32", "i4", "!quant.uniform<i8:f32, 0.5:-3>".  Quantised
   types are those per tensor.  *element owns nothing. */
kvmill_status kvmill_read_element_type(const char *text, size_t length,
                                       kvmill_element_type *element, kvmill_error *error);

#ifdef __cplusplus
}
#endif
#endif
