/* Checks the tensors of a run against a plan's rules.  A tensor is checked in the following order,
   and each error has one wording (ops/refuse.h has those that specs and plans share):

     SHAPE     NAME has rank RANK; accepted: 0 to 64
     NULL      the shape of NAME is NULL; its rank is RANK
     NULL      NAME is NULL; a tensor is required
     SHAPE     NAME is NULL; the plan was made with it
     SHAPE     NAME is given; accepted: NULL, this OP has none
     DTYPE     NAME has type TYPE; accepted: TYPE, TYPE
     SHAPE     dim D of NAME is DIM; accepted: 0 or more
     OVERFLOW  NAME has shape SHAPE; accepted: at most COUNT elements
     SHAPE     NAME has shape SHAPE; accepted: SHAPE
     OVERFLOW  the strides of NAME reach further than PTRDIFF_MAX bytes
     STRIDE    the strides of NAME let elements overlap; accepted: one place each
     STRIDE    NAME has strides; accepted for 4-bit types: row-major without gaps
     STRIDE    NAME has strides; accepted: row-major without gaps
     STRIDE    the last dim of NAME has stride STRIDE; accepted: 1
     OVERFLOW  the byte_offset of NAME is OFFSET; accepted: 0 to PTRDIFF_MAX
     DEVICE    NAME is on device type TYPE; accepted: kDLCPU (1)
     NULL      the data of NAME is NULL; it has COUNT elements

   and after all of them:

     ALIAS     NAME overlaps OUTPUT; accepted: separate memory
     ALIAS     NAME overlaps OUTPUT; accepted: separate memory, or the same memory and strides
               (in place)
     STRIDE    NAME is at ADDRESS; accepted: multiples of BYTES

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_CHECK_H
#define KVMILL_RUNTIME_CORE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include <kvmill.h>

/* What a run demands of a tensor.  PLANNED: the op has it as an option, and the plan was made with
   it. IGNORED: it counts as absent. */
enum presence { ABSENT, OPTIONAL, REQUIRED, PLANNED, IGNORED };

enum { MOST_GIVEN = 128 }; /* a power of two: kvmill_dim_of divides by it */

struct tensor_rule {
    const char *name;
    enum presence presence;
    DLDataType type, or_type; /* or_type.bits 0: there is no second type */
    int rank;
    const int64_t *dims; /* NUMBER, KVMILL_DYNAMIC or kvmill_dim_of(); NULL: the op checks them */
    bool output;
    bool rows;    /* kernels walk the last dim, so its stride must be 1 */
    bool dense;   /* row-major without gaps */
    bool is_view; /* the op has checked that it is a view next to other tensors in their memory */
    bool aligned; /* to the size of an element */
    bool empty_is_absent;
    bool stablehlo; /* types have StableHLO's names; elements of fewer than 8 bits take a byte each
                     */
    bool in_place;  /* an output that may have the memory and strides of the tensor that it replaces
                     */
    int replaces;
    ptrdiff_t begin, end; /* bytes from its data, if strides are the planned ones */
};

/* Stands for dim d of an earlier tensor, which is REQUIRED. */
static inline int64_t kvmill_dim_of(int tensor, int d) {
    return KVMILL_DYNAMIC - 1 - ((int64_t)d * MOST_GIVEN + tensor);
}

/* The tensors of a run while they are checked; absent, empty and ignored ones are NULL. */
struct given_tensors {
    const struct tensor_rule *rules;
    int count;
    const char *op; /* for messages */
    const DLTensor **tensors;
    kvmill_error *error;
    /* Whether an output may overlap a tensor in the way that it does; NULL: as the rules say. */
    bool (*may_overlap)(const struct given_tensors *given, int output, int other);
    bool as_planned; /* shapes and strides are the plan's, and the rules know where tensors end */
};

/* Check each tensor by itself; sets tensors[]. */
kvmill_status kvmill_check_given(const struct given_tensors *given, const DLTensor *const *tensors);

/* Check rank and dims of a tensor. */
kvmill_status kvmill_check_shape(const struct given_tensors *given, int which, int rank,
                                 const int64_t *dims);

/* Check the strides of tensors[], whose shapes are valid, as far as dims are known. */
kvmill_status kvmill_check_strides(const struct given_tensors *given);

/* Check the addresses of tensors[], when all else is valid. */
kvmill_status kvmill_check_memory(const struct given_tensors *given);

/* Check that no output overlaps a tensor that it may not. */
kvmill_status kvmill_check_overlaps(const struct given_tensors *given);

/* Check that tensors are aligned, if they must be. */
kvmill_status kvmill_check_alignment(const struct given_tensors *given);

#endif
