/* Tensors of plans that know all shapes: what a run must bring, and its checks.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_SHAPED_H
#define KVMILL_RUNTIME_SHAPED_H

#include "../ops/windows.h"

struct shaped {
    char name[32];
    bool is_output;
    int replaces; /* an output: the input it may share memory with, in place; or not there */
    DLDataType dtype;
    int rank;
    int64_t dims[KVMILL_MOST_RANK];
};

void kvmill_shaped_set(struct shaped *shaped, const char *name, DLDataType dtype, int rank,
                       const int64_t *dims);

/* All that can be said against the tensors of a run. */
kvmill_status kvmill_shaped_check(const struct shaped *shaped, int count,
                                  const DLTensor *const *tensors, kvmill_error *error);

/* Bytes from one index of dim d to the next. */
int64_t kvmill_shaped_step(const DLTensor *tensor, int d);

/* Elements of a shape that has been checked. */
int64_t kvmill_shaped_count(const struct shaped *shaped);

/* Index element at an address, widened as its type says; an unsigned one beyond INT64_MAX is that.
 */
int64_t kvmill_load_index(DLDataType type, const unsigned char *from);

#endif
