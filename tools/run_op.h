/* What `kvmill run` needs to know about an op: its tensors, and how they are checked against its
   spec.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_OP_H
#define KVMILL_TOOLS_RUN_OP_H

#include "../gen/spec.h"
#include "../ops/flow.h"
#include "../ops/scatter.h"
#include "npy.h"

/* Ops whose tensors have names of their own have the most. */
enum {
    MOST_RUN_TENSORS = (int)KVMILL_MOST_SCATTER_TENSORS > (int)KVMILL_MOST_FLOW_TENSORS
                           ? (int)KVMILL_MOST_SCATTER_TENSORS
                           : (int)KVMILL_MOST_FLOW_TENSORS
};

/* The tensors of a run, in the library's order.  One that is not there has no shape. */
struct arrays {
    struct npy tensor[MOST_RUN_TENSORS]; /* as the library sees them */
    struct npy file[MOST_RUN_TENSORS];   /* as --out writes them, where that differs */
    const char *output[MOST_RUN_TENSORS];
};

struct run_op {
    int tensors;
    /* run_input and run_output, where the description does not tell them; or NULL. */
    const char *(*input)(const struct spec *spec, int tensor);
    const char *(*output)(const struct spec *spec, int tensor);
    /* Give the arrays the spec's types and the spec what the arrays know; make the outputs. */
    bool (*prepare)(struct spec *spec, struct arrays *arrays, struct error *error);
    kvmill_status (*plan)(const struct spec *spec, const struct arrays *arrays,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *reason);
    /* Take the word of --step; or NULL. */
    bool (*choose)(struct spec *spec, const char *word, struct error *error);
    /* What only the run has told of outputs; or NULL. */
    void (*finish)(const struct spec *spec, struct arrays *arrays);
};

extern const struct run_op plain_run, tensor_scatter_run, cache_attention_run, cache_attend_run,
    onnx_attention_run, gather_run, scatter_run, flow_run, write_rows_run;

/* That of the spec's family. */
const struct run_op *run_op_of(const struct spec *spec);

/* The name of a tensor that this spec takes from --in, or gives to --out; NULL: it does not. */
const char *run_input(const struct spec *spec, int tensor);
const char *run_output(const struct spec *spec, int tensor);

/* ---- For those who prepare ---- */

static inline bool is_given(const struct npy *npy) {
    return npy->tensor.shape != NULL;
}

/* "no NAME; accepted: --in NAME=FILE.npy" unless it is given. */
bool array_require(const char *name, const struct npy *npy, struct error *error);

/* Give the array the type it carries.  4-bit elements: `spec` tells the dims where it knows them,
   else the last dim is twice that of the array. */
bool array_adopt(const char *name, DLDataType dtype, const DLTensor *spec, struct npy *npy,
                 struct error *error);

/* Give the array the spec's type, and the spec the array's dims, which must be what it says. */
bool array_reconcile(const char *name, DLTensor *spec, struct npy *npy, struct error *error);

/* Indices are numbers, not bits: no other type carries the integer that is wanted. */
bool array_is_integer(const char *name, DLDataType type, const struct npy *npy,
                      struct error *error);

/* For what is updated in place: `file` is the array as it was read, before it is adopted. */
bool array_keep(const char *name, const struct npy *npy, struct npy *file, struct error *error);

/* ---- By the op's description ---- */

/* Whether a run makes an output: unless it may be left out, and nobody asks for it. */
bool run_makes(const struct spec *spec, const struct arrays *arrays, int tensor);

/* An op, and its attributes and types as kvmill_op_type wants them. */
struct described {
    const struct op *op;
    const void *base, *types;
};

/* Those of a spec that keeps both as it is described. */
struct described described_by(const struct spec *spec);

const char *described_input(const struct described *described, int index);
const char *described_output(const struct described *described, int index);

/* All tensors that must be given are. */
bool described_require(const struct described *described, const struct arrays *arrays,
                       struct error *error);

/* Give all arrays their types; what is updated in place is kept for its file. */
bool described_adopt(const struct described *described, struct arrays *arrays, struct error *error);

/* Give the inputs the types a spec says, and the spec's tensors the inputs' dims; what must be
   given, or the spec names, is. */
bool run_reconcile(struct spec *spec, struct arrays *arrays, struct error *error);

/* Make an output. */
bool described_make(const struct described *described, int index, const int64_t *dims, int rank,
                    struct arrays *arrays, struct error *error);

/* ---- Cache attention, for flows: their attention is a spec of its own ---- */

/* Make attn_output, and lse where there is one, for the query. */
bool attention_make_scores(const struct spec *spec, struct arrays *arrays, struct error *error);

#endif
