/* The packs of the build: the default pack and the tests' pack.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_PACKS_H
#define KVMILL_TESTS_PACKS_H

#include <kvmill_kernel.h>

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { PACKS = 2 };
static const kvmill_pack *const packs[PACKS] = {&kvmill_pack_kvmill_default,
                                                &kvmill_pack_kvmill_test};

/* Returns a kernel of either pack by its number, or NULL after the last. */
static inline const struct kvmill_kernel *kernel_at(uint32_t number) {
    for (int p = 0; p < PACKS; number -= packs[p++]->count)
        if (number < packs[p]->count)
            return packs[p]->kernels[number];
    return NULL;
}

/* Options without packs, and with both. */
static const kvmill_plan_options two_threads[] = {
    {.struct_size = sizeof(kvmill_plan_options), .threads = 2},
    {.struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .threads = 2}};

#endif
