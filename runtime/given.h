/* The tensors of a run against what a plan demands of each: presence, type, size, strides, memory.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_GIVEN_H
#define KVMILL_RUNTIME_GIVEN_H

#include <stdbool.h>

#include <kvmill.h>

/* What a run demands of a tensor; what is IGNORED counts as absent. */
enum presence { ABSENT, OPTIONAL, REQUIRED, IGNORED };

enum { MOST_GIVEN = 64 };

struct tensor_rule {
    const char *name;
    enum presence presence;
    DLDataType type, or_type; /* or_type.bits 0: there is no other */
    bool output;
    bool rows; /* kernels walk the last dim: its stride is 1 */
    bool empty_is_absent;
};

/* The tensors of a run while it is checked; what is absent, empty or ignored is NULL. */
struct given_tensors {
    const struct tensor_rule *rules;
    int count;
    const char *op; /* for messages */
    const DLTensor **tensors;
    kvmill_error *error;
    /* An output may overlap that tensor in the way it does; NULL: none may. */
    bool (*may_overlap)(const struct given_tensors *given, int output, int other);
};

/* Each by itself; sets tensors[]. */
kvmill_status kvmill_check_given(const struct given_tensors *given, const DLTensor *const *tensors);

/* Rank and dims of a tensor; KVMILL_DYNAMIC is any. */
kvmill_status kvmill_check_shape(const struct given_tensors *given, int which, int rank,
                                 const int64_t *dims);

/* No output overlaps anything that it may not. */
kvmill_status kvmill_check_overlaps(const struct given_tensors *given);

#endif
