/* The element types that kvmill knows: those of formats, in format.c, and the others, in dtype.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_DTYPE_H
#define KVMILL_DEFS_DTYPE_H

#include "format.h"

/* The i-th type, NULL after the last. */
const struct kvmill_dtype *kvmill_dtype_at(size_t i);

/* NULL if there is no type with this name or alias. */
const struct kvmill_dtype *kvmill_dtype_by_name(const char *name);

/* NULL if it is not in the table. */
const struct kvmill_dtype *kvmill_dtype_of(DLDataType type);

/* "float16"; "an unknown type" if it is not in the table. */
const char *kvmill_dtype_name(DLDataType type);

bool kvmill_dtype_known(DLDataType type);

/* "kDLFloat", "KVMILL_DL_FLOAT8_E5M2": the word of a known type's code. */
const char *kvmill_dtype_code(DLDataType type);

/* Names of the types that tensors of cache rows have, each once; ends with NULL. */
void kvmill_row_types(const char *names[KVMILL_MOST_FORMATS + 1]);

#endif
