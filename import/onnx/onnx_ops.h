/* The ops of ONNX that kvmill has: how a node of them becomes a spec.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_ONNX_ONNX_OPS_H
#define KVMILL_IMPORT_ONNX_ONNX_OPS_H

#include "../../spec/spec.h"
#include "onnx.h"

struct onnx_call;

/* How nodes of an op become specs.  Inputs and outputs are those of `spec`, in the description's
   order. */
struct onnx_op {
    const char *name;
    const char *spec; /* the op of its specs; if this build lacks it, nodes are left alone; NULL:
                         spec_op finds it */
    const struct op *(*spec_op)(const struct onnx_node *node);
    int first_opset;
    const char *const *attributes; /* ends with NULL; NULL: those of the source of `spec` */
    bool open; /* extents may be unknown, except those that `knows` checks; knows may be NULL */
    bool (*knows)(const struct onnx_value *value, int input);
    const char *known; /* what must be known in addition to types, for messages */
    /* Replaces `knows`; or NULL. */
    bool (*is_complete)(const struct onnx_call *call, char *words, size_t size);
    /* Whether kvmill serves a complete node; else sets `words` to the reason.  NULL: always. */
    bool (*serves)(const struct onnx_call *call, char *words, size_t size);
    /* Whether ONNX Runtime's provider takes a node, whose values need not be known; else sets
       `words` to the reason, or to "" if it does not take the op.  NULL: all that kvmill serves. */
    bool (*pays)(const struct onnx_call *call, char *words, size_t size);
    bool from_index; /* indices must not be negative, as they may be in ONNX */
    bool (*add)(const struct onnx_call *call, struct spec_list *list, struct error *error);
    const struct onnx_op *next; /* adds another spec of the same node; or NULL */
};

/* A node of an op. */
struct onnx_call {
    struct onnx_model *model;
    const struct onnx_node *node;
    const struct onnx_op *op;
};

/* Returns the opset that defines Attention in this model: at most 25, because it has not changed
   since. */
int64_t onnx_meaning_opset(const struct onnx_model *model);

/* The op of the node's spec. */
const struct op *onnx_spec_op(const struct onnx_call *call);

/* Return input or output i of nodes of a spec's op, or NULL after the last.  Tensors that ONNX's op
   lacks are left out; a tensor that is updated in place is only an input. */
const struct op_tensor *onnx_input_of(const struct op *op, int i);
const struct op_tensor *onnx_output_of(const struct op *op, int i);
int onnx_count_inputs(const struct op *op);

/* Return the spec's name of an input or output, or NULL after the last. */
const char *onnx_input_name(const struct onnx_call *call, int i);
const char *onnx_output_name(const struct onnx_call *call, int i);

/* Return the value of an input or output, or NULL if absent. */
struct onnx_value *onnx_input(const struct onnx_call *call, int i);
struct onnx_value *onnx_output(const struct onnx_call *call, int i);

/* Whether the op may write to that input. */
bool onnx_is_updated(const struct onnx_call *call, int i);

/* Whether the model says enough of the node's tensors for a spec; else sets `words` to what is
   missing. */
bool onnx_is_complete(const struct onnx_call *call, char *words, size_t size);

/* Checks inputs, outputs, attributes and opset of a node. */
bool onnx_check_call(const struct onnx_call *call, struct error *error);

/* A list of specs without duplicates. */
struct onnx_specs {
    struct spec_list *list;
    json_t *seen; /* place in the list, by the spec's text */
};
bool onnx_specs_begin(struct onnx_specs *specs, struct spec_list *list, struct error *error);
void onnx_specs_end(struct onnx_specs *specs); /* the list stays */

/* Adds the spec of a checked, complete node; learns types and shapes of its outputs. */
bool onnx_specs_add(struct onnx_specs *specs, const struct onnx_call *call, int *place,
                    struct error *error);

/* Appends a spec that has the node's name in messages, and no op yet.  Returns NULL, with an error,
   on failure. */
struct spec *onnx_begin_spec(const struct onnx_call *call, struct spec_list *list,
                             struct error *error);

/* Reads a node as a spec of its op, checks its types, and appends it to the list. */
bool onnx_read_node(const struct onnx_call *call, struct spec_list *list, struct error *error);

/* Returns an input or output as a tensor without data; without dims if they are not known. */
DLTensor onnx_tensor_of(const struct onnx_value *value);

/* ---- The table (onnx_ops.c) ---- */

/* Returns NULL if kvmill does not have the node's op; the node is left alone. */
const struct onnx_op *onnx_op_of(const struct onnx_node *node);

/* Writes the names of all ops: "TensorScatter, Gather, ...". */
enum { ONNX_NAMES_SIZE = 320 };
const char *onnx_op_names(char text[ONNX_NAMES_SIZE]);

/* ---- PMX cache attention (onnx_pmx.c) ---- */

/* The row of all PMX ops.  onnx_pmx_op returns the op of a node's spec, or NULL if it is not
   PMX's. */
extern const struct onnx_op onnx_pmx;
const struct op *onnx_pmx_op(const struct onnx_node *node);

/* Writes the names of PMX's ops and domains: "KeyValueCache, ... (opmx, ...)". */
const char *onnx_pmx_names(char text[ONNX_NAMES_SIZE / 2]);

/* Whether a node in the domain of dynamic batching has the inputs of the static op, as PMX's
   exporter writes MultiHeadCacheAttention without attn_mask. */
bool onnx_pmx_is_misplaced(const struct onnx_node *node);

/* ---- ONNX Runtime's own attention (onnx_group_query.c) ---- */

/* Its specs only serve to create kernels: nodes are neither run nor rewritten. */
extern const struct onnx_op onnx_group_query;
bool onnx_is_group_query(const struct onnx_node *node);

/* The same with caches in blocks, in kvmill's own domain; `kvmill rewrite --cache` creates these
   nodes. */
extern const struct onnx_op onnx_cache_group_query;
bool onnx_is_cache_group_query(const struct onnx_node *node);

/* The input of K's past and the output of K's present; V's are the next ones. */
enum { ONNX_GROUP_QUERY_PAST = 3, ONNX_GROUP_QUERY_PRESENT = 1 };

/* ---- Steps with caches in blocks (onnx_cache_step.c), only for kernels, too ---- */

extern const struct onnx_op onnx_cache_step;
bool onnx_is_cache_step(const struct onnx_node *node);

/* The first returns the format of the cache of K (side 0) or V, or NULL if kvmill does not have it.
   The second adds the spec that stores rows of this size and type to the cache. */
const char *onnx_block_format(const struct onnx_call *call, int side);
bool onnx_add_block_store(const struct onnx_call *call, int side, int64_t dim, DLDataType type,
                          struct spec_list *list, struct error *error);

/* ---- TensorScatter and Attention (onnx_attention.c) ---- */

/* Kernels need the numbers and sizes of heads. */
bool onnx_knows_heads(const struct onnx_value *value, int input);

bool onnx_add_tensor_scatter(const struct onnx_call *call, struct spec_list *list,
                             struct error *error);
bool onnx_add_attention(const struct onnx_call *call, struct spec_list *list, struct error *error);

/* ---- Gathers and scatters (onnx_windows.c) ---- */

bool onnx_window_pays(const struct onnx_call *call, char *words, size_t size);
bool onnx_window_never_pays(const struct onnx_call *call, char *words, size_t size);

bool onnx_add_gather(const struct onnx_call *call, struct spec_list *list, struct error *error);
bool onnx_add_gather_elements(const struct onnx_call *call, struct spec_list *list,
                              struct error *error);
bool onnx_add_gather_nd(const struct onnx_call *call, struct spec_list *list, struct error *error);
bool onnx_add_scatter_elements(const struct onnx_call *call, struct spec_list *list,
                               struct error *error);
bool onnx_add_scatter_nd(const struct onnx_call *call, struct spec_list *list, struct error *error);

#endif
