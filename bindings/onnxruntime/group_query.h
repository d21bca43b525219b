/* GroupQueryAttention of com.microsoft, as in ONNX Runtime's CPU provider: new rows of K and V are
   rotated, quantised and stored in the cache, and then kvmill attends over the cache (CacheAttend).
   In kvmill's own domain its caches are blocks of llama.cpp (attributes key_cache_format,
   value_cache_format).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_GROUP_QUERY_H
#define KVMILL_ONNXRUNTIME_GROUP_QUERY_H

#include "node.h"

/* Its inputs and outputs. */
enum {
    GROUP_QUERY_QUERY,
    GROUP_QUERY_KEY,
    GROUP_QUERY_VALUE,
    GROUP_QUERY_PAST_KEY,
    GROUP_QUERY_PAST_VALUE,
    GROUP_QUERY_SEQLENS_K,
    GROUP_QUERY_TOTAL_SEQUENCE_LENGTH,
    GROUP_QUERY_COS_CACHE,
    GROUP_QUERY_SIN_CACHE,
    GROUP_QUERY_POSITION_IDS,
    GROUP_QUERY_ATTENTION_BIAS,
    GROUP_QUERY_HEAD_SINK,
    GROUP_QUERY_K_SCALE,
    GROUP_QUERY_V_SCALE,
    GROUP_QUERY_Q_NORM_WEIGHT,
    GROUP_QUERY_K_NORM_WEIGHT,
    GROUP_QUERY_QUERY_SEQLENS,
    GROUP_QUERY_OUTPUT,
    GROUP_QUERY_PRESENT_KEY,
    GROUP_QUERY_PRESENT_VALUE,
    GROUP_QUERY_OUTPUT_QK,
    GROUP_QUERY_TENSORS
};

/* The shape of a node's heads, and the bits of a number in its caches: 32, 16, 8 or 4. */
struct group_query_heads {
    int64_t heads, kv_heads, dim;
    int bits;
    bool half;   /* the type of queries: float16, or float32 */
    bool packed; /* K and V are part of `query` */
    bool blocks; /* caches are; a number of theirs has the bits of queries */
};

/* The op of kvmill's domain. */
extern const struct node_op cache_group_query_op;

/* Those of a node, from its inputs and, a bit each, the outputs that it has; or why kvmill does not
   take it. */
kvmill_status group_query_find_heads(const struct node *node, const DLTensor *const *inputs,
                                     uint64_t outputs, struct group_query_heads *heads,
                                     kvmill_error *error);

static inline bool group_query_is_quantised(const struct group_query_heads *heads) {
    return heads->bits <= 8;
}

/* The bytes of a number: float16 or float32. */
static inline int64_t group_query_number_bytes(bool half) {
    return half ? 2 : 4;
}

/* Rows of K and V, or codes, of a cache's head: [batch, kv heads, capacity, dim]. */
struct group_query_side {
    const unsigned char *past; /* NULL: none */
    unsigned char *present;
    int64_t row_bytes;         /* of a row of a head, in past and present */
    unsigned char *fresh;      /* new rows [batch, tokens, kv heads, dim] of a cache in blocks */
    const unsigned char *rows; /* the new ones */
    int64_t row_step;          /* from token to token, in elements */
    const float *scale;        /* of channels; NULL: rows are not quantised */
    int64_t scale_head;        /* from head to head; 0: one scale for all */
    bool by_channel;           /* each number of a head has its own */
};

/* A run. */
struct group_query_call {
    struct group_query_heads heads;
    int64_t batch, tokens, past_rows, capacity;
    int64_t *lengths;   /* [batch]: keys that are there afterwards */
    int64_t *starts;    /* [batch]: the first new one */
    int64_t *slots;     /* [batch, tokens, kv heads]: rows of a cache in blocks; -1: padding */
    int64_t *positions; /* [batch, tokens] */
    int64_t *angles;    /* [batch, tokens]: rows of cos and sin; NULL: nothing is rotated */
    float *turns;       /* [batch, tokens, rotated]: cosines and sines of these */
    float *numbers;     /* [batch, tokens, dim]: those of a head, of each token in turn */
    struct group_query_side key, value;
    const unsigned char *query;
    int64_t query_step;
    const unsigned char *cos, *sin;
    int64_t rotated;         /* numbers of a head that are; half as many in a row of cos */
    bool interleaved;        /* pairs are neighbours */
    unsigned char *ready;    /* queries to attend with [batch, tokens, heads, dim]; NULL: query's */
    float *results;          /* float32, of a quantised cache; NULL: they go into the output */
    unsigned char *codes[2]; /* 4-bit codes of K and V as kvmill has them; NULL: the caches' */
    unsigned char *output;
};

/* ---- Is a run right? (group_query_check.c) ---- */

/* Element i of int32 or int64; 0 where there is none. */
int64_t group_query_integer(const DLTensor *tensor, int64_t i);

int64_t group_query_past_rows(const DLTensor *const *inputs);

/* Shapes. */
OrtStatus *group_query_check(const struct group_query_call *call, const struct group_query *said,
                             const DLTensor *const *given);

/* Lengths and starts, then positions and angles, where they are right. */
OrtStatus *group_query_set_lengths(struct group_query_call *call, const DLTensor *const *given);
OrtStatus *group_query_set_positions(struct group_query_call *call, const DLTensor *const *given);

/* ---- Running (group_query_run.c) ---- */

OrtStatus *group_query_run(struct node_run *run, const kvmill_plan *plan);

/* Bytes of the cache that a run reads, about. */
int64_t group_query_work(const DLTensor *const *given);

/* ---- What is done to rows (group_query_rows.c), each for parts that any thread may run ---- */

/* A part is a kv head of an entry.  The past is copied where it is not the present's memory. */
void group_query_keep(void *call, int64_t part);

/* A part is a token.  K and V go into the cache, queries become ready. */
void group_query_store(void *call, int64_t part);

/* A part is a kv head of an entry.  4-bit codes become those of kvmill. */
void group_query_decode(void *call, int64_t part);

/* A part is a token.  Results become the output. */
void group_query_finish(void *call, int64_t part);

#endif
