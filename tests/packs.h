/* The packs of the build: the default one, and that of the tests.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_PACKS_H
#define KVMILL_TESTS_PACKS_H

#include <kvmill_kernel.h>

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { PACKS = 2 };
static const kvmill_pack *const packs[PACKS] = {&kvmill_pack_kvmill_default,
                                                &kvmill_pack_kvmill_test};

/* All kernels of both, by numbers; NULL after the last. */
static inline const struct kvmill_kernel *kernel_at(uint32_t number) {
    for (int p = 0; p < PACKS; number -= packs[p++]->count)
        if (number < packs[p]->count)
            return packs[p]->kernels[number];
    return NULL;
}

/* Plans without packs, and with them. */
static const kvmill_plan_options two_threads[] = {
    {.struct_size = sizeof(kvmill_plan_options), .threads = 2},
    {.struct_size = sizeof(kvmill_plan_options), .packs = packs, .pack_count = 2, .threads = 2}};

#endif
