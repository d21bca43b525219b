/* What a user chooses of a model's cache.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_HF_CACHE_CHOICE_H
#define KVMILL_IMPORT_HF_CACHE_CHOICE_H

#include "../../defs/format.h"

enum { GGML_KEY, GGML_VALUE, GGML_TYPES };
struct cache_choice {
    const struct kvmill_format_parts *activations; /* NULL: the model's */
    const struct kvmill_format_parts *type;        /* of K; NULL: the model's */
    const struct kvmill_format_parts *value_type;  /* of V; NULL: K's */
    int layout;          /* 0 and 2 token-major, 1 and 3 head-major; 2 and 3 are those of
                            dynamic batching; -1: rows in both, attention in 0 */
    int64_t quant_group; /* 0: 8 */
    const char *math;    /* a kind of arithmetic, or NULL */
    /* Types of K and V in llama.cpp's cache: only kernels for its backend, and the members above
       are ignored.  NULL: kvmill's own caches. */
    const struct kvmill_format_parts *ggml[GGML_TYPES];
};

#endif
