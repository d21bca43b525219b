/* Rows of a cache as floats.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CACHE_ROW_H
#define KVMILL_RUNTIME_CACHE_ROW_H

#include <kvmill_kernel.h>

/* Blocks of llama.cpp: elements, and bytes of the scale in front of the codes. */
enum { KVMILL_BLOCK = 32, KVMILL_BLOCK_SCALE = 2 };
enum {
    KVMILL_Q8_0_BYTES = KVMILL_BLOCK_SCALE + KVMILL_BLOCK,
    KVMILL_Q4_0_BYTES = KVMILL_BLOCK_SCALE + KVMILL_BLOCK / 2
};

/* Elements [from, from + count) of a row.  Of quantised rows the product of code and scale, rounded
   to float32.  `from` is a multiple of KVMILL_BLOCK, and so is count, or it reaches the row's end.
 */
void kvmill_load_cache_row(const struct kvmill_format *format, const unsigned char *data,
                           const unsigned char *scale, int64_t from, int64_t count, float *row);

#endif
