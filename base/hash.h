/* FNV-1a, 64 bits: for file names, and to detect changes.  It does not resist an adversary.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_HASH_H
#define KVMILL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325

static inline uint64_t hash_bytes(uint64_t state, const void *data, size_t length) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++)
        state = (state ^ bytes[i]) * 0x100000001b3;
    return state;
}

#endif
