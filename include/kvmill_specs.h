/* Reads texts as the structs of kvmill.h: flow files, and regions and element types of StableHLO.

   The functions are in libkvmill_specs, a separate shared library, which needs Jansson but not
   libkvmill. Programs that read such texts at run time link it.  The readers are those of the
   command.

   Any number of threads may call these functions at the same time.  Texts are `length` bytes in
   UTF-8, need no final NUL, and are borrowed for the call.  If a function fails, its result is
   NULL, and error (which may be NULL) has a message that begins with the place in the text:
   "flow.json:3:14: ..." is a line and a column, "flow.json: /index/2/dim: ..." a member,
   "region:1:40: ..." again a line and a column. KVMILL_E_NULL: a pointer is NULL that must not be;
   KVMILL_E_MEMORY: out of memory; if a flow is refused, the status of its check
   (kvmill_flow_describe); KVMILL_E_ATTRIBUTE in all other cases.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPECS_H
#define KVMILL_SPECS_H

#include <kvmill_flow.h>
#include <kvmill_stablehlo.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read a flow file, as kvmill-specs(5) describes it, and check the flow as kvmill_flow_describe
   does.  name: the text's name in messages, for example that of a file; NULL = "flow".  *flow, its
   attention and all they point to belong to the caller, who must not change them and releases them
   with kvmill_free_flow.  If the text does not state num_layer, attention has one layer. */
kvmill_status kvmill_read_flow(const char *name, const char *text, size_t length,
                               const kvmill_flow **flow, kvmill_error *error);

/* Release a flow from kvmill_read_flow; NULL is allowed.  Plans do not refer to it. */
void kvmill_free_flow(const kvmill_flow *flow);

/* Read the region of a stablehlo.scatter of `inputs` inputs, 1 to 16:

       ^bb0(%old: tensor<f32>, %new: tensor<f32>):
         %sum = stablehlo.add %old, %new : tensor<f32>
         stablehlo.return %sum : tensor<f32>

   captures: the types of scalars from outside, "tensor<f32>", at most 16, which the text calls
   %capture0, %capture1, ...; NULL if capture_count is 0.  A plan runs on all of them, and takes one
   that is not used as a float32.  *region belongs to the caller, who releases it with
   kvmill_free_region.  It is for kvmill_scatter.region, and the first `inputs` of its arguments
   have the types of results. kvmill_plan_scatter checks what its ops may compute. */
kvmill_status kvmill_read_region(const char *text, size_t length, size_t inputs,
                                 const char *const *captures, size_t capture_count,
                                 const kvmill_region **region, kvmill_error *error);

/* Release a region from kvmill_read_region; NULL is allowed. */
void kvmill_free_region(const kvmill_region *region);

/* Read an element type of StableHLO: "f32", "i4", "!quant.uniform<i8:f32, 0.5:-3>".  Types may be
   quantised per tensor only.  *element owns nothing. */
kvmill_status kvmill_read_element_type(const char *text, size_t length,
                                       kvmill_element_type *element, kvmill_error *error);

#ifdef __cplusplus
}
#endif
#endif
