/* The ops of ONNX that kvmill has: how a node of them becomes a spec.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_OPS_H
#define KVMILL_IMPORT_ONNX_ONNX_OPS_H

#include "../../gen/spec.h"
#include "onnx.h"

struct onnx_call;

/* Its inputs and outputs are those of `spec`, in the description's order. */
struct onnx_op {
    const char *name;
    const char *spec; /* the op of its specs; without that in this kvmill, nodes are left alone;
                         NULL: PMX's, by the node */
    int first_opset;
    const char *const *attributes; /* ends with NULL; NULL: those that `spec` has of its source */
    bool open; /* extents may be left to the run, except those that `knows` is for, or NULL */
    bool (*knows)(const struct onnx_value *value, int input);
    const char *known; /* what must be known beside types, in words */
    bool (*is_complete)(const struct onnx_call *call, char *words, size_t size); /* instead */
    bool from_index; /* 0 is the first of an axis; ONNX counts negative indices from its end */
    bool (*add)(const struct onnx_call *call, struct spec_list *list, struct error *error);
    const struct onnx_op *next; /* adds another spec of the same node; NULL: there is none */
};

/* A node of an op. */
struct onnx_call {
    struct onnx_model *model;
    const struct onnx_node *node;
    const struct onnx_op *op;
};

/* The opset whose meaning Attention has in the model: no meaning has changed since 25. */
int64_t onnx_meaning_opset(const struct onnx_model *model);

/* NULL: kvmill has no such op, the node is left alone. */
const struct onnx_op *onnx_op_of(const struct onnx_node *node);

/* "TensorScatter, Gather, ..." */
enum { ONNX_NAMES_SIZE = 320 };
const char *onnx_op_names(char text[ONNX_NAMES_SIZE]);

/* The op of the node's spec. */
const struct op *onnx_spec_op(const struct onnx_call *call);

/* Input or output number i of nodes of a spec's op, without those that are kvmill's own; NULL: they
   have no more.  What is updated in place is an input alone. */
const struct op_tensor *onnx_input_of(const struct op *op, int i);
const struct op_tensor *onnx_output_of(const struct op *op, int i);
int onnx_count_inputs(const struct op *op);

/* What the spec calls an input or output; NULL: the op has no more. */
const char *onnx_input_name(const struct onnx_call *call, int i);
const char *onnx_output_name(const struct onnx_call *call, int i);

/* The value of an input or output; NULL: not given. */
struct onnx_value *onnx_input(const struct onnx_call *call, int i);
struct onnx_value *onnx_output(const struct onnx_call *call, int i);

/* Whether the op may write to that input. */
bool onnx_is_updated(const struct onnx_call *call, int i);

/* Whether the model tells enough of its tensors for a spec; else what it does not tell. */
bool onnx_is_complete(const struct onnx_call *call, char *words, size_t size);

/* The node has what the op takes: inputs, outputs, attributes, opset. */
bool onnx_check_call(const struct onnx_call *call, struct error *error);

/* Specs of nodes, each once. */
struct onnx_specs {
    struct spec_list *list;
    json_t *seen; /* by their text: their places in the list */
};
bool onnx_specs_begin(struct onnx_specs *specs, struct spec_list *list, struct error *error);
void onnx_specs_end(struct onnx_specs *specs); /* the list stays */

/* The spec of a node that is right and complete; types and shapes of its outputs become known. */
bool onnx_specs_add(struct onnx_specs *specs, const struct onnx_call *call, int *place,
                    struct error *error);

/* A new spec, named in messages as the node is, without an op so far; NULL with the error set. */
struct spec *onnx_begin_spec(const struct onnx_call *call, struct spec_list *list,
                             struct error *error);

/* The node as the spec of its op would say it, its types checked: the list's last. */
bool onnx_read_node(const struct onnx_call *call, struct spec_list *list, struct error *error);

/* An input or output as a tensor without elements; without dims where they are not known. */
DLTensor onnx_tensor_of(const struct onnx_value *value);

/* ---- PMX cache attention (onnx_pmx.c) ---- */

/* All its ops, and the op of a node's spec, NULL: none of them. */
extern const struct onnx_op onnx_pmx;
const struct op *onnx_pmx_op(const struct onnx_node *node);

/* "KeyValueCache, ... (opmx, ...)" */
const char *onnx_pmx_names(char text[ONNX_NAMES_SIZE / 2]);

/* The node's domain is that of dynamic batching, and its inputs are those of the static op: what
   PMX's exporter writes for MultiHeadCacheAttention without attn_mask. */
bool onnx_pmx_is_misplaced(const struct onnx_node *node);

/* ---- ONNX Runtime's own attention (onnx_group_query.c) ---- */

/* Specs of it are for kernels alone: its nodes are neither run nor rewritten. */
extern const struct onnx_op onnx_group_query;
bool onnx_is_group_query(const struct onnx_node *node);

/* The same over caches in blocks, in kvmill's own domain, which `kvmill rewrite --cache` makes. */
extern const struct onnx_op onnx_cache_group_query;
bool onnx_is_cache_group_query(const struct onnx_node *node);

/* Inputs of its past caches and outputs of its present ones, of K; those of V follow. */
enum { ONNX_GROUP_QUERY_PAST = 3, ONNX_GROUP_QUERY_PRESENT = 1 };

/* ---- Steps over caches in blocks (onnx_cache_step.c), likewise ---- */

extern const struct onnx_op onnx_cache_step;
bool onnx_is_cache_step(const struct onnx_node *node);

/* What the node says of its cache of K (side 0) or V; NULL: nothing that kvmill has.  And the spec
   of storing into it rows of that size and type. */
const char *onnx_block_format(const struct onnx_call *call, int side);
bool onnx_add_block_store(const struct onnx_call *call, int side, int64_t dim, DLDataType type,
                          struct spec_list *list, struct error *error);

/* ---- Gathers and scatters (onnx_windows.c) ---- */

bool onnx_add_gather(const struct onnx_call *call, struct spec_list *list, struct error *error);
bool onnx_add_gather_elements(const struct onnx_call *call, struct spec_list *list,
                              struct error *error);
bool onnx_add_gather_nd(const struct onnx_call *call, struct spec_list *list, struct error *error);
bool onnx_add_scatter_elements(const struct onnx_call *call, struct spec_list *list,
                               struct error *error);
bool onnx_add_scatter_nd(const struct onnx_call *call, struct spec_list *list, struct error *error);

#endif
