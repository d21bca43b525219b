/* The kinds of arithmetic of attention, which limit the error of kernels, and that of scales.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_DEFS_ARITHMETIC_H
#define KVMILL_DEFS_ARITHMETIC_H

#include <stdbool.h>

#include <kvmill_kernel.h>

/* The names by enum kvmill_math: "f32", "near", "fast"; the last entry is NULL. */
extern const char *const kvmill_math_names[];

/* The error that kernels of a kind may have for usual data in addition to that of float32 sums, as
 * a share of the largest output; kvmill(3), "Errors of attention". */
extern const double kvmill_math_errors[];

/* The kind of arithmetic by its name; NULL is f32; -1 for any other name. */
int kvmill_math_of(const char *name);

/* Whether scales that their type cannot hold become its largest number, by a word for
   scale_overflow; NULL: `otherwise`. */
bool kvmill_saturates(const char *scale_overflow, bool otherwise);

#endif
