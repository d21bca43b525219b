/* Stores rows of activations in cache rows that the caller lists.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_WRITE_TOKENS_H
#define KVMILL_RUNTIME_CORE_WRITE_TOKENS_H

#include <kvmill_kernel.h>

/* Rows of more bytes than that altogether are stored around the caches. */
enum { KVMILL_CACHED_BYTES = 32 << 10 };

/* The row of the cache that token t has; -1: none, and it is not stored. */
typedef int64_t (*row_of_token)(const void *context, int64_t t);

/* Store tokens [first, last) of a problem, in order, with a kernel of WRITE_ROWS.  The problem's
   activations begin with token 0, and its slots are not set. */
void kvmill_write_tokens(const struct kvmill_kernel *kernel, const struct kvmill_convert *problem,
                         row_of_token row_of, const void *context, int64_t first, int64_t last);

#endif
