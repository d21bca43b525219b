/* A kernel that is wrong, for tests of what finds such: two query heads on a kv head, keys and
   values of 32 float16; its outputs are zero.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_BAD_ATTEND_H
#define KVMILL_TESTS_BAD_ATTEND_H

#include <kvmill_kernel.h>

extern const struct kvmill_kernel bad_attend;

#endif
