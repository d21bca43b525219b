/* Measures numbers of the calibration with the ggml of the process, for kvmill llama --calibrate.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_MEASURE_H
#define KVMILL_GGML_MEASURE_H

#include <stdint.h>

/* Exported.  Returns how many times as fast a layer's attention is with `value` as the number of
   that name as without: "ggml_split", for kvmill on one thread instead of ggml on one and on two;
   "asleep", for kvmill on two threads instead of one.  The least of float16, q8_0 and q4_0, of
   those for which a pack has kernels; 0 if it has none, or if there is no such number or no memory.
   KVMILL_GGML_LEAST must be 0, and the calibration's own `asleep` the least.  One thread at a
   time; prints nothing. */
double kvmill_ggml_gain(const char *number, int64_t value);

#endif
