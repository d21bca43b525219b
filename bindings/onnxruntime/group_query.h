/* GroupQueryAttention of com.microsoft, as in ONNX Runtime's CPU provider: new rows of K and V are
   rotated, quantised and stored in the cache, and then kvmill attends over the cache (CacheAttend).
   In kvmill's own domain its caches are blocks of llama.cpp (attributes key_cache_format,
   value_cache_format).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_GROUP_QUERY_H
#define KVMILL_ONNXRUNTIME_GROUP_QUERY_H

#include "node.h"

/* The op in kvmill's domain. */
extern const struct node_op cache_group_query_op;

/* Finds the heads of a node, from its inputs and its outputs, a bit each; fails if kvmill does not
   take the node. */
kvmill_status group_query_find_heads(const struct node *node, const DLTensor *const *inputs,
                                     uint64_t outputs, struct kvmill_group_query_heads *heads,
                                     kvmill_error *error);

/* Returns the bytes of a float16 or float32 number. */
static inline int64_t group_query_number_bytes(bool half) {
    return half ? 2 : 4;
}

/* K or V of a cache: rows of numbers or codes, [batch, kv heads, capacity, dim]. */
struct group_query_side {
    const unsigned char *past; /* NULL: absent */
    unsigned char *present;
    unsigned char *final;      /* of a staged call: the present; `present` is then the stage */
    int64_t row_bytes;         /* bytes of a head's row in past and present */
    unsigned char *fresh;      /* new rows [batch, tokens, kv heads, dim] for a cache in blocks */
    const unsigned char *rows; /* new rows */
    int64_t row_step;          /* elements from token to token */
    const float *scale;        /* scales of channels; NULL: not quantised */
    int64_t scale_head;        /* scales from head to head; 0: all heads have the same */
    bool by_channel;           /* each channel of a head has its own scale */
};

/* A run. */
struct group_query_call {
    struct kvmill_group_query_heads heads;
    int64_t batch, tokens, past_rows, capacity;
    int64_t fresh;      /* new rows: tokens; 0: another layer has stored them */
    int64_t window;     /* of a cache that only holds a window: its size; 0: it holds all keys */
    bool staged;        /* the window loses rows that queries of this call see */
    int64_t *lengths;   /* [batch]: keys after the run */
    int64_t *starts;    /* [batch]: row of the key at the first query */
    int64_t *dropped;   /* [batch]: rows of the past that do not stay, the first ones */
    int64_t *kept;      /* [batch]: rows of the past that stay */
    int64_t *evicted;   /* [batch]: position of the key in row 0 */
    int64_t *slots;     /* [batch, tokens, kv heads]: rows of a cache in blocks; -1: padding */
    int64_t *positions; /* [batch, tokens] */
    int64_t *angles;    /* [batch, tokens]: rows of cos and sin; NULL: no rotation */
    float *turns;       /* [batch, tokens, rotated]: cosines and sines of these rows */
    float *numbers;     /* [batch, tokens, dim]: scratch of each token, for one head at a time */
    struct group_query_side key, value;
    const unsigned char *query;
    int64_t query_step;
    const unsigned char *cos, *sin;
    int64_t rotated;      /* rotated numbers of a head; a row of cos has half as many */
    bool interleaved;     /* pairs are adjacent numbers */
    unsigned char *ready; /* prepared queries [batch, tokens, heads, dim]; NULL: `query` */
    float *results; /* float32, of a quantised cache; NULL: results are written to the output */
    unsigned char *codes[2]; /* converted 4-bit codes of K and V; NULL: the caches */
    float *ones; /* [capacity]: scales of codes, because queries and results are multiplied by the
                    real scales; NULL: not quantised */
    unsigned char *output;
};

/* ---- Checks of a run (group_query_check.c) ---- */

/* Returns element i of an int32 or int64 tensor; 0 beyond its end. */
int64_t group_query_integer(const DLTensor *tensor, int64_t i);

int64_t group_query_past_rows(const DLTensor *const *inputs);

/* Checks the shapes. */
OrtStatus *group_query_check(const struct group_query_call *call,
                             const struct kvmill_group_query *said, const DLTensor *const *given);

/* Returns the number of queries of an entry that are not padding: the last of its keys are theirs.
 */
int64_t group_query_valid_queries(const struct group_query_call *call, const DLTensor *const *given,
                                  int64_t b, int64_t length);

/* The first sets lengths, starts, and what stays of the past; the second, positions and angles.
   Both fail if these are invalid. */
OrtStatus *group_query_set_lengths(struct group_query_call *call, const DLTensor *const *given);
OrtStatus *group_query_set_positions(struct group_query_call *call, const DLTensor *const *given);

/* ---- Caches that hold a window (group_query_window.c) ---- */

/* Whether a call is staged; lengths need not be valid yet. */
bool group_query_is_staged(const struct group_query_call *call, const DLTensor *const *given);

/* Sets lengths and starts of an entry with `length` keys in all, of which `queries` are new, and
   what stays of its past. */
void group_query_set_window(struct group_query_call *call, int64_t b, int64_t length,
                            int64_t queries);

/* Copies the rows that stay from the stage to the present.  A part is a kv head of an entry. */
void group_query_evict(void *call, int64_t part);

/* ---- Running (group_query_run.c) ---- */

OrtStatus *group_query_run(struct node_run *run, const kvmill_plan *plan);

/* Returns the approximate bytes of the cache that a run reads. */
int64_t group_query_work(const DLTensor *const *given);

/* ---- Operations on rows (group_query_rows.c); each part may run on any thread ---- */

/* Moves the rows of the past that stay to the present.  A part is a kv head of an entry. */
void group_query_keep(void *call, int64_t part);

/* Stores K and V of a token in the cache, and prepares its queries.  A part is a token. */
void group_query_store(void *call, int64_t part);

/* Converts 4-bit codes to kvmill's representation.  A part is a kv head of an entry. */
void group_query_decode(void *call, int64_t part);

/* Converts a token's results to its output.  A part is a token. */
void group_query_finish(void *call, int64_t part);

#endif
