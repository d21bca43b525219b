/* Nodes of PMX's own domains: KeyValueCache, MultiHeadAttention and MultiHeadCacheAttention, of a
   static batch and with dynamic batching.  cache and scale are inputs that a run updates.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_PMX_H
#define KVMILL_ONNXRUNTIME_PMX_H

#include "node.h"

/* By their numbers in pmx_signatures.h. */
enum { PMX_STATIC_OPS = 3, PMX_OPS = 6 };
extern const struct node_op pmx_ops[PMX_OPS];

/* pmx is what opmx was called at first. */
struct pmx_domain {
    const char *name;
    bool dynamic;
};
enum { PMX_DOMAINS = 4 };
extern const struct pmx_domain pmx_domains[PMX_DOMAINS];

/* The op of a node; NULL: none of PMX's. */
const struct node_op *pmx_op_of_node(const char *domain, const char *name, size_t inputs);

/* The op of a node that has so many inputs, the last ones perhaps without a name.  With dynamic
   batching there are always more than without: fewer are what PMX's exporter writes in that domain
   for the op of a static batch. */
const struct node_op *pmx_op_with(const struct node_op *op, size_t inputs);

/* A bit for the op's number; 0: none of PMX's. */
unsigned pmx_bit(const struct node_op *op);

#endif
