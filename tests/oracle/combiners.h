/* What a combiner of stablehlo.scatter makes of two elements: the measure of kernels.  Integers wrap,
   floats are rounded once, an extreme of NaN is NaN, and -0 is below 0.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_COMBINERS_H
#define KVMILL_TESTS_ORACLE_COMBINERS_H

#include <kvmill.h>

enum operation { REPLACE, ADD, SUBTRACT, MULTIPLY, MINIMUM, MAXIMUM, AND, OR, XOR, OPERATIONS };

extern const char *const operation_names[OPERATIONS];

struct combiner {
    DLDataType type;
    enum operation operation;
};

/* An oracle_combine of one input; context is a struct combiner. */
void oracle_combine_elements(void *context, unsigned char *const *accumulators,
                             const unsigned char *const *updates);

/* Bytes of an element; the number that an element of a float type is, and the nearest one. */
int64_t oracle_element_bytes(DLDataType type);
double oracle_get_float(DLDataType type, const unsigned char *at);
void oracle_put_float(DLDataType type, unsigned char *at, double value);

#endif
