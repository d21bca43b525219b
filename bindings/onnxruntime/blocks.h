/* Stores rows of K or V as blocks of llama.cpp (WriteRows), in the format that the node's
   attributes key_cache_format and value_cache_format name.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_BLOCKS_H
#define KVMILL_ONNXRUNTIME_BLOCKS_H

#include "node.h"

enum { BLOCKS_SIDES = 2 /* K and V */ };

/* The words of attributes; "": none. */
const char *blocks_format(const struct node *node, int side);

/* New rows of one head each, and the row of the cache that each becomes, -1: none. */
struct block_rows {
    const void *data;
    DLDataType type;
    int64_t count, dim;
    const int64_t *slots;
};

/* Rows of one head each. */
struct block_cache {
    void *data;
    int64_t rows, bytes; /* bytes: of a row */
};

/* Without rows it checks the shapes, and writes nothing. */
OrtStatus *blocks_store(const struct node_run *run, int side, const struct block_rows *rows,
                        const struct block_cache *cache);

#endif
