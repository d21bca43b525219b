/* Converts numbers of any type that ONNX Attention takes to float64.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_DOUBLES_H
#define KVMILL_RUNTIME_CORE_DOUBLES_H

#include <kvmill.h>

/* Read `count` elements that are `step` bytes apart, at any address.  In a bool mask, true is 0 and
   false is -infinity. */
typedef void (*kvmill_reader)(const unsigned char *from, int64_t step, int64_t count, double *to);

/* NULL for a type that is not a number. */
kvmill_reader kvmill_reader_of(DLDataType type);

/* Write adjacent elements, rounded once: float64, float32, float16 or bfloat16. */
typedef void (*kvmill_writer)(const double *from, int64_t count, unsigned char *to);

kvmill_writer kvmill_writer_of(DLDataType type);

#endif
