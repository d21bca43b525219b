/* Calls through XLA's FFI that name op, attributes and tensors, and the plans that run them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_JAX_JAX_CALLS_H
#define KVMILL_BINDINGS_JAX_JAX_CALLS_H

#include <kvmill_ffi.h>

enum {
    JAX_MOST_ATTRIBUTES = 64,
    JAX_MOST_TENSORS = 32,
    JAX_WORD_SIZE = 64,
    JAX_IDLE = 8, /* workspaces that a plan keeps for later runs */
    JAX_KEY_SIZE = 8192,
    JAX_MOST_RANK = 8
};

/* A tensor's name, such as "past_key", or a name with dims, "past_key[2,32,128]": then the op sees
   XLA's tensor with these dims.  A reshape in XLA would copy it. */
struct jax_name {
    char text[JAX_WORD_SIZE];
    int ndim; /* -1: XLA's dims */
    int64_t dims[JAX_MOST_RANK];
};

/* The contents of a frame.  Its attributes `pack`, `op`, `operands` and `results` are named here;
   the last two list names of tensors, separated by spaces.  All other attributes are the op's. */
struct jax_call {
    char pack[JAX_WORD_SIZE], op[JAX_WORD_SIZE];
    struct jax_name operands[JAX_MOST_TENSORS], results[JAX_MOST_TENSORS];
    int operand_count, result_count;
    kvmill_named_attribute attributes[JAX_MOST_ATTRIBUTES];
    char names[JAX_MOST_ATTRIBUTES][JAX_WORD_SIZE], words[JAX_MOST_ATTRIBUTES][JAX_WORD_SIZE];
    size_t attribute_count;
};
kvmill_status jax_read_call(const kvmill_ffi_frame *frame, struct jax_call *call,
                            kvmill_error *error);

/* A plan, which lasts as long as the process; calls with equal keys share it. */
struct jax_plan {
    struct jax_plan *next;
    kvmill_plan *plan;
    int operand_count, result_count;
    struct jax_name operand_names[JAX_MOST_TENSORS], result_names[JAX_MOST_TENSORS];
    /* The places of operands and results in the plan's list of tensors. */
    kvmill_named_tensor_place operands[JAX_MOST_TENSORS], results[JAX_MOST_TENSORS];
    int given[JAX_MOST_TENSORS]; /* number of the operand that a result updates, or -1 */
    size_t workspace_size;       /* the plan's workspace, followed by widened operands */
    size_t widened_at;
    void *idle[JAX_IDLE];
    size_t key_size;
    unsigned char key[];
};

/* Finds or makes the plan of a frame.  Any thread. */
kvmill_status jax_plan_of(const kvmill_ffi_frame *frame, struct jax_plan **plan,
                          kvmill_error *error);

/* Sets tensor to an operand or a result, as the op sees it. */
kvmill_status jax_view_tensor(const kvmill_ffi_list *list, int at, const struct jax_name *name,
                              DLTensor *tensor, kvmill_error *error);

/* Whether an int32 operand is converted to int64, because the plan takes only int64. */
static inline int jax_is_widened(const kvmill_named_tensor_place *place, const DLTensor *tensor) {
    return place->only_int64 && tensor->dtype.code == kDLInt && tensor->dtype.bits == 32;
}

static inline size_t jax_element_count(const DLTensor *tensor) {
    size_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)tensor->shape[d];
    return count;
}

/* Finds a pack that kvmill_jax_add has added.  A name of "" gives NULL. */
kvmill_status jax_find_pack(const char *name, const kvmill_pack **pack, kvmill_error *error);

#endif
