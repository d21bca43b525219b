/* What writing and reading converted rows means, number by number, also where the references leave
   it open.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_CONVERT_H
#define KVMILL_TESTS_ORACLE_CONVERT_H

#include <kvmill_kernel.h>

#include "cache_attention.h"
#include "numbers.h"

enum oracle_type oracle_of_element(int element);
struct oracle_tiles oracle_tiles_of(int element);

/* Bytes of one row: codes or numbers; scales; activations. */
int64_t oracle_data_bytes(const struct kvmill_format *format);
int64_t oracle_scale_bytes(const struct kvmill_format *format);
int64_t oracle_activation_bytes(const struct kvmill_convert_shape *shape);

/* One row from activations to a cache, and back. */
void oracle_convert_write(const struct kvmill_convert_shape *shape, const unsigned char *from,
                          unsigned char *data, unsigned char *scale);
void oracle_convert_read(const struct kvmill_convert_shape *shape, unsigned char *to,
                         unsigned char *data, unsigned char *scale);

#endif
