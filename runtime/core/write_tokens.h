/* Stores rows of activations in cache rows that the caller lists.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_WRITE_TOKENS_H
#define KVMILL_RUNTIME_CORE_WRITE_TOKENS_H

#include <kvmill_kernel.h>

/* If the rows of a call have more bytes in total, they are stored around the caches. */
enum { KVMILL_CACHED_BYTES = 32 << 10 };

/* The cache row of token t; -1 if the token is not stored. */
typedef int64_t (*row_of_token)(const void *context, int64_t t);

/* Store tokens [first, last) of a problem, in order, with a kernel of WRITE_ROWS.  The problem's
   activations begin with token 0, and its slots are not set. */
void kvmill_write_tokens(const struct kvmill_kernel *kernel, const struct kvmill_convert *problem,
                         row_of_token row_of, const void *context, int64_t first, int64_t last);

#endif
