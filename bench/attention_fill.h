/* Numbers for caches and activations.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_FILL_H
#define KVMILL_BENCH_ATTENTION_FILL_H

#include <stdint.h>

#include <kvmill_kernel.h>

/* A sequence goes on from *state.  Floats are in [least, most). */
void fill_floats(int element, unsigned char *to, int64_t count, float least, float most,
                 uint32_t *state);

/* Rows of numbers up to 1, and scales that go with codes. */
void fill_rows(const struct kvmill_format *format, unsigned char *to, int64_t bytes,
               uint32_t *state);
void fill_scales(const struct kvmill_format *format, unsigned char *to, int64_t bytes,
                 uint32_t *state);

/* The first `part` bytes again and again. */
void fill_repeat(unsigned char *data, int64_t bytes, int64_t part);

#endif
