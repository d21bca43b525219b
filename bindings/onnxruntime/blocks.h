/* Stores rows of K or V as blocks of llama.cpp (WriteRows), in the format that the node's
   attributes key_cache_format and value_cache_format name.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_BLOCKS_H
#define KVMILL_ONNXRUNTIME_BLOCKS_H

#include "node.h"

enum { BLOCKS_SIDES = 2 /* K and V */ };

/* Returns the format that the node's attributes name; "": none. */
const char *blocks_format(const struct node *node, int side);

/* New rows, one head each; slots: the cache's row for each, or -1 if it is not stored. */
struct block_rows {
    const void *data;
    DLDataType type;
    int64_t count, dim;
    const int64_t *slots;
};

/* A cache with rows of one head each. */
struct block_cache {
    void *data;
    int64_t rows, bytes; /* bytes of a row */
};

/* Stores rows as blocks.  With a count of 0 it only checks the shapes. */
OrtStatus *blocks_store(const struct node_run *run, int side, const struct block_rows *rows,
                        const struct block_cache *cache);

#endif
