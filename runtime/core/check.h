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

/* What a run demands of a tensor: PLANNED is one that the op could do without and the plan cannot;
   what is IGNORED counts as absent. */
enum presence { ABSENT, OPTIONAL, REQUIRED, PLANNED, IGNORED };

enum { MOST_GIVEN = 128 }; /* a power of two: kvmill_dim_of divides by it */

struct tensor_rule {
    const char *name;
    enum presence presence;
    DLDataType type, or_type; /* or_type.bits 0: there is no other */
    int rank;
    const int64_t *dims; /* NUMBER, KVMILL_DYNAMIC or kvmill_dim_of(); NULL: the op checks them */
    bool output;
    bool rows;    /* kernels walk the last dim: its stride is 1 */
    bool dense;   /* row-major without gaps */
    bool beside;  /* among others that are so, where the op has checked it */
    bool aligned; /* to the element's size */
    bool empty_is_absent;
    bool stablehlo; /* its words for types; elements of fewer than 8 bits take a byte each */
    bool in_place;  /* an output that may have the memory and strides of the tensor it replaces */
    int replaces;
    ptrdiff_t begin, end; /* bytes from its data, where it is laid out as planned */
};

/* A dim that is dim d of an earlier tensor, which is REQUIRED. */
static inline int64_t kvmill_dim_of(int tensor, int d) {
    return KVMILL_DYNAMIC - 1 - ((int64_t)d * MOST_GIVEN + tensor);
}

/* The tensors of a run while it is checked; what is absent, empty or ignored is NULL. */
struct given_tensors {
    const struct tensor_rule *rules;
    int count;
    const char *op; /* for messages */
    const DLTensor **tensors;
    kvmill_error *error;
    /* An output may overlap that tensor in the way it does; NULL: as the rules say. */
    bool (*may_overlap)(const struct given_tensors *given, int output, int other);
    bool as_planned; /* shapes and strides are the plan's, and the rules know where tensors end */
};

/* Each by itself; sets tensors[]. */
kvmill_status kvmill_check_given(const struct given_tensors *given, const DLTensor *const *tensors);

/* Rank and dims of a tensor. */
kvmill_status kvmill_check_shape(const struct given_tensors *given, int which, int rank,
                                 const int64_t *dims);

/* The strides of tensors[], whose shapes are good, as far as dims are known. */
kvmill_status kvmill_check_strides(const struct given_tensors *given);

/* Where tensors[] are, with all else as it should be. */
kvmill_status kvmill_check_memory(const struct given_tensors *given);

/* No output overlaps anything that it may not. */
kvmill_status kvmill_check_overlaps(const struct given_tensors *given);

/* Those that must be are aligned. */
kvmill_status kvmill_check_alignment(const struct given_tensors *given);

#endif
