/* ggml's tensors as rows that kvmill reads and writes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_GGML_GGML_ROWS_H
#define KVMILL_BINDINGS_GGML_GGML_ROWS_H

#include <stdbool.h>

#include <kvmill.h>

#include "ggml_api.h"

static const DLDataType float32 = {kDLFloat, 32, 1}, float16 = {kDLFloat, 16, 1};

struct row_type {
    DLDataType element;
    const char *format;    /* name of a format of blocks; NULL: elements */
    int64_t values, bytes; /* of a block */
};

struct row_type row_type_of(const struct ggml_tensor *tensor);

/* Whether a tensor has rows without gaps, at multiples of an element. */
bool has_rows(const struct ggml_tensor *tensor);

/* Whether a tensor is present, has this type, and has_rows. */
bool has_type(const struct ggml_tensor *tensor, enum ggml_type type);

#endif
