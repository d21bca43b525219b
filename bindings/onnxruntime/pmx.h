/* Nodes of PMX's own domains: KeyValueCache, MultiHeadAttention and MultiHeadCacheAttention, of a
   static batch and with dynamic batching.  cache and scale are inputs that a run updates.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_PMX_H
#define KVMILL_ONNXRUNTIME_PMX_H

#include "node.h"

/* The ops, by their numbers in pmx_signatures.h. */
enum { PMX_STATIC_OPS = 3, PMX_OPS = 6 };
extern const struct node_op pmx_ops[PMX_OPS];

/* A domain of PMX; pmx is the former name of opmx. */
struct pmx_domain {
    const char *name;
    bool dynamic;
};
enum { PMX_DOMAINS = 4 };
extern const struct pmx_domain pmx_domains[PMX_DOMAINS];

/* Returns the op of a node, or NULL if it is not PMX's. */
const struct node_op *pmx_op_of_node(const char *domain, const char *name, size_t inputs);

/* Returns the op of a node with this number of inputs, including absent ones at the end.  Ops of
   dynamic batching always have more inputs than static ones, so a node with fewer is the static op:
   PMX's exporter writes these in the domain of dynamic batching. */
const struct node_op *pmx_op_with(const struct node_op *op, size_t inputs);

/* Returns the bit of an op's number; 0: it is not PMX's. */
unsigned pmx_bit(const struct node_op *op);

#endif
