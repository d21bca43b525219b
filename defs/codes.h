/* How the codes of integer formats are stored in bytes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_CODES_H
#define KVMILL_DEFS_CODES_H

#include "format.h"

/* Read codes [from, from + count) of a row (or of a block, if the format has blocks), as the
   numbers that they stand for before scale and minimum. */
void kvmill_unpack_codes(const struct kvmill_format_parts *parts, const unsigned char *data,
                         int64_t from, int64_t count, int *codes);

/* Write such codes; the bits of other codes do not change. */
void kvmill_pack_codes(const struct kvmill_format_parts *parts, const int *codes, int64_t from,
                       int64_t count, unsigned char *data);

#endif
