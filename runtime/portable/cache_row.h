/* Converts cache rows to floats.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_PORTABLE_CACHE_ROW_H
#define KVMILL_RUNTIME_PORTABLE_CACHE_ROW_H

#include <kvmill_kernel.h>

/* Elements [from, from + count) of a row.  For quantised rows, products of code and scale, rounded
   to float32; with blocks, the elements are whole blocks. */
void kvmill_load_cache_row(const struct kvmill_format *format, const unsigned char *data,
                           const unsigned char *scale, int64_t from, int64_t count, float *row);

#endif
