/* A MultiHeadCacheAttention with memory for it: more caches than the processor's hold, and
   activations that are new for every call.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_ATTENTION_SCENE_H
#define KVMILL_BENCH_ATTENTION_SCENE_H

#include "../gen/error.h"
#include "../ops/cache_attention.h"
#include "../tune/pool.h"
#include "attention_work.h"
#include "owned_plan.h"

/* cache, scale, value_cache, value_scale. */
enum { SIDES = 4 };

struct attention_scene {
    kvmill_cache_attention op;
    struct kvmill_cache_geometry geometry;
    struct owned_plan usual, portable;
    struct {
        unsigned char *data; /* of all caches; NULL: there is none */
        int64_t bytes, filled;
        int64_t row, last; /* bytes of a row of a head, and its elements */
    } side[SIDES];
    unsigned char *ring, *output, *expected;
    int64_t ring_bytes, ring_next, output_bytes;
    int64_t rotation;        /* bytes of caches before the first is used again */
    int64_t batch, capacity; /* of a cache */
    int64_t caches, next;    /* how many there are, and which is used next */
};

/* How the kernels are found, and how much memory is walked through. */
struct attention_setting {
    const kvmill_pack *pack;
    int threads; /* measured with one and with so many */
    bool all;    /* every size there is a bar for, and AVX2 beside the best; else one of a kind */
    int64_t rotation; /* bytes of caches before the first is used again */
};
enum { ATTENTION_ROTATION = 1536 << 20 }; /* more than any cache of a processor's */

/* Plan a MultiHeadCacheAttention with a static batch, by the best kernels up to `isa` (NULL: any).
   Release with attention_close, also after a failure. */
bool attention_open(struct attention_scene *scene, const kvmill_cache_attention *op,
                    const struct attention_setting *setting, const char *isa, struct error *error);
void attention_close(struct attention_scene *scene);

/* A plan for the scene's op by kernels of those packs, up to `isa` (NULL: any).  Close it in any
   case. */
bool attention_plan_open(const struct attention_scene *scene, const kvmill_pack *const *packs,
                         size_t count, const char *isa, int threads, struct owned_plan *plan,
                         struct error *error);

/* Make room for caches of that shape and calls with so many new tokens. */
bool attention_set_shape(struct attention_scene *scene, int64_t batch, int64_t capacity,
                         int64_t tokens, struct error *error);

/* The type of a side, and elements of its last dim. */
DLDataType attention_side_type(const kvmill_cache_attention *op, int side);
int64_t attention_last_dim(const struct kvmill_format *format, bool scale);

/* Bytes of a side of one cache; of one cache with its scales. */
int64_t attention_side_bytes(const struct attention_scene *scene, int side);
int64_t attention_cache_bytes(const struct attention_scene *scene);

/* The next `bytes` of caches' elements, after those that calls have used, or as many as one cache
   has if that is more: what is read is not in the processor's caches.  Sets *bytes. */
unsigned char *attention_next_bytes(struct attention_scene *scene, int64_t *bytes);

/* The next activations. */
unsigned char *attention_next_activations(struct attention_scene *scene, int64_t bytes);

/* A call with its tensors. */
struct attention_call {
    struct attention_scene *scene;
    const struct owned_plan *plan; /* the scene's usual one, unless it is set to another */
    struct attention_size size;
    struct pool *pool;
    int64_t start; /* data of start_pos */
    int64_t cache;
    int64_t shapes[KVMILL_CACHE_ATTENTION_TENSORS][6];
    DLTensor tensors[KVMILL_CACHE_ATTENTION_TENSORS];
    const DLTensor *given[KVMILL_CACHE_ATTENTION_TENSORS];
};

void attention_call_open(struct attention_call *call, struct attention_scene *scene,
                         const struct attention_size *size, struct pool *pool);

/* To the next cache and new activations; to these activations in that cache. */
void attention_call_move(struct attention_call *call);
void attention_call_set(struct attention_call *call, int64_t cache);

/* All of it; or only that the rows are written to the cache. */
kvmill_status attention_call_run(struct attention_call *call, kvmill_error *reason);
kvmill_status attention_call_store(struct attention_call *call, kvmill_error *reason);

/* Compare a run, by the pool and by the calling thread alone, with the portable kernels: some
   tokens of the last sequence. */
bool attention_check_run(struct attention_call *call, struct error *error);

/* Whether outputs are as near as the arithmetic and T1 allow; NaN is as far off as can be. */
bool attention_outputs_agree(const struct kvmill_cache_geometry *geometry,
                             const unsigned char *have, const unsigned char *want, int64_t count,
                             struct error *error);

/* Compare what is written to the cache with what the portable kernels write, byte for byte. */
bool attention_check_store(struct attention_call *call, struct error *error);

#endif
