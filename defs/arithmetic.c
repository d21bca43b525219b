/* SPDX-License-Identifier: Apache-2.0 */
#include "arithmetic.h"

#include <stddef.h>
#include <string.h>

const char *const kvmill_math_names[] = {
    [KVMILL_MATH_F32] = "f32", [KVMILL_MATH_NEAR] = "near", [KVMILL_MATH_FAST] = "fast", NULL};

const double kvmill_math_errors[] = {
    [KVMILL_MATH_F32] = 0, [KVMILL_MATH_NEAR] = 5e-4, [KVMILL_MATH_FAST] = 8e-3};

int kvmill_math_of(const char *name) {
    for (int math = 0; name != NULL && kvmill_math_names[math] != NULL; math++)
        if (strcmp(name, kvmill_math_names[math]) == 0)
            return math;
    return name == NULL ? KVMILL_MATH_F32 : -1;
}

bool kvmill_saturates(const char *scale_overflow, bool otherwise) {
    return scale_overflow == NULL ? otherwise : strcmp(scale_overflow, "saturate") == 0;
}
