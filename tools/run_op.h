/* What `kvmill run` needs to know about an op: its tensors, and how to check them against its spec.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_OP_H
#define KVMILL_TOOLS_RUN_OP_H

#include "../ops/flow.h"
#include "../ops/scatter.h"
#include "../spec/spec.h"
#include "npy.h"

/* The most tensors are those of scatters and flows, which name their own. */
enum {
    MOST_RUN_TENSORS = (int)KVMILL_MOST_SCATTER_TENSORS > (int)KVMILL_MOST_FLOW_TENSORS
                           ? (int)KVMILL_MOST_SCATTER_TENSORS
                           : (int)KVMILL_MOST_FLOW_TENSORS
};

/* The tensors of a run, in the library's order.  A tensor that is not given has no shape. */
struct arrays {
    struct npy tensor[MOST_RUN_TENSORS]; /* as the library takes them */
    struct npy file[MOST_RUN_TENSORS];   /* as --out writes them, if that differs */
    const char *output[MOST_RUN_TENSORS];
};

struct run_op {
    int tensors;
    /* run_input and run_output, if the op's description is not enough; or NULL. */
    const char *(*input)(const struct spec *spec, int tensor);
    const char *(*output)(const struct spec *spec, int tensor);
    /* Gives the arrays the spec's types, completes the spec from the arrays, and makes the
       outputs. */
    bool (*prepare)(struct spec *spec, struct arrays *arrays, struct error *error);
    kvmill_status (*plan)(const struct spec *spec, const struct arrays *arrays,
                          const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *reason);
    /* Takes the word of --step; or NULL. */
    bool (*choose)(struct spec *spec, const char *word, struct error *error);
    /* Completes outputs after the run; or NULL. */
    void (*finish)(const struct spec *spec, struct arrays *arrays);
};

extern const struct run_op plain_run, tensor_scatter_run, cache_attention_run, cache_attend_run,
    onnx_attention_run, gather_run, scatter_run, flow_run, write_rows_run;

/* Returns the run_op of the spec's family. */
const struct run_op *run_op_of(const struct spec *spec);

/* Return the name of a tensor that the spec takes from --in, or gives to --out, or NULL if it does
   not. */
const char *run_input(const struct spec *spec, int tensor);
const char *run_output(const struct spec *spec, int tensor);

/* ---- For implementations of prepare ---- */

static inline bool is_given(const struct npy *npy) {
    return npy->tensor.shape != NULL;
}

/* Fails with "no NAME; accepted: --in NAME=FILE.npy" unless the array is given. */
bool array_require(const char *name, const struct npy *npy, struct error *error);

/* Gives the array the type that it carries.  4-bit elements also need dims: those of `spec` if they
   are known, else the array's with the last one doubled. */
bool array_adopt(const char *name, DLDataType dtype, const DLTensor *spec, struct npy *npy,
                 struct error *error);

/* Gives the array the spec's type, and the spec the array's dims.  Fails if the spec has other
   dims. */
bool array_reconcile(const char *name, DLTensor *spec, struct npy *npy, struct error *error);

/* Requires exactly the type `type`.  Indices are numbers, so unsigned integers cannot carry
   them. */
bool array_is_integer(const char *name, DLDataType type, const struct npy *npy,
                      struct error *error);

/* Makes `file` for a tensor that is updated in place, from the array as it was read, before
   array_adopt. */
bool array_keep(const char *name, const struct npy *npy, struct npy *file, struct error *error);

/* ---- By the op's description ---- */

/* An op with its attributes and types, for kvmill_op_type. */
struct described {
    const struct op *op;
    const void *base, *types;
};

/* Returns the description of a spec that stores attributes and types as its op describes them. */
struct described described_by(const struct spec *spec);

const char *described_input(const struct described *described, int index);
const char *described_output(const struct described *described, int index);

/* Requires all tensors that are not optional. */
bool described_require(const struct described *described, const struct arrays *arrays,
                       struct error *error);

/* Gives all arrays their types.  Keeps `file` for each tensor that is updated in place. */
bool described_adopt(const struct described *described, struct arrays *arrays, struct error *error);

/* Gives the inputs the spec's types, and the spec's tensors the inputs' dims.  Requires the inputs
   that are not optional, or that the spec names. */
bool run_reconcile(struct spec *spec, struct arrays *arrays, struct error *error);

/* Whether a run makes an output: not if it is optional and nobody wants it. */
bool described_makes(const struct described *described, const struct arrays *arrays, int index);

/* Makes an output. */
bool described_make(const struct described *described, int index, const int64_t *dims, int rank,
                    struct arrays *arrays, struct error *error);

/* ---- Cache attention, also for flows, which contain a spec of it ---- */

/* Makes attn_output, and lse if the op has it, for the query. */
bool attention_make_scores(const struct spec *spec, struct arrays *arrays, struct error *error);

#endif
