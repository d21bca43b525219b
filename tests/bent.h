/* Tensors that are not as they were, in words.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_BENT_H
#define KVMILL_TESTS_BENT_H

#include "fence.h"

struct bent {
    DLTensor dl;
    int64_t shape[MOST_DIMS + 1], strides[MOST_DIMS + 1];
};

/* As it is. */
void bent_from(struct bent *bent, const DLTensor *good);

/* rank, type, shape, strides, offset (of bytes), .N (a dim); dims, stride: of all axes; "more", a
   dim; "empty", "device", "no-data", "no-shape".  False: it is another word. */
bool bent_by(struct bent *bent, const char *word, const char *value);

#endif
