/* SHA-256 (FIPS 180-4).  Unlike hash.h, it resists an adversary who chooses the data.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_SHA256_H
#define KVMILL_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint32_t state[8];
    uint64_t length;         /* bytes added so far */
    unsigned char block[64]; /* the last length % 64 bytes, which do not fill a block yet */
};

enum { SHA256_TEXT = 65 };

void sha256_begin(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t length);

/* Writes the hash in hexadecimal.  Nothing can be added afterwards. */
void sha256_end(struct sha256 *sha, char text[SHA256_TEXT]);

#endif
