/* Programs of flows as text.  Kernels are generated from the text, and identified by it.

   "cache 16 whole; rows k f16 none 0 16 128; field f0 f16 1 128; step f0 1 128 Max 1 k": what the
   program is, with tokens of a page; inputs and fields in the order of the workspace; then the ops,
   step NAME ROWS COLUMNS OP ATTRIBUTES... INPUTS..., with the attributes that ops/flow_op.c lists
   for the op.  Numbers of a step are hexadecimal, dims the digits of those that it works along.
   k and v are rows of the cache, ROWS of elements, scales and groups; f0, ... fields, r0, ... other
   results.  Of "growing" pages some rows may be missing: n is how many there are.

   "index 2 16; query q f16 4 128; ...; once 0 r0 1 128 Mean 1 q; atom r2 1 1; over 1 r3 1 1 Softmax
   0x1p+0 0 r2; page 1 r4 ...; save f0 r4; keep r2; ...": how many stages, and tokens of a page; a
   step says its stage, and whether it is done once, for every page, or over all pages; an atom is
   computed elsewhere.  Of what is kept there is one for each page.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_FLOW_TEXT_H
#define KVMILL_OPS_FLOW_TEXT_H

#include "flow.h"

struct kvmill_flow_text {
    char text[12288];
};

/* false: no kernel computes such a program, and `text` says why not. */
bool kvmill_flow_text_make(const struct kvmill_flow_problem *problem, enum kvmill_flow_part part,
                           struct kvmill_flow_text *text);

#endif
