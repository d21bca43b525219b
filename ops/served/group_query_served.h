/* GroupQueryAttention of com.microsoft, ONNX Runtime's domain, and of kvmill's own, in which caches
   are blocks of llama.cpp (attributes key_cache_format, value_cache_format): which nodes kvmill
   serves, and the CacheAttend that a node runs.

   Both the provider (bindings/onnxruntime) and the reader of models (import/onnx) ask here, so they
   serve the same nodes.  The provider is built where only kvmill.h is installed, so this file and
   group_query_served.c need nothing else.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_SERVED_GROUP_QUERY_SERVED_H
#define KVMILL_OPS_SERVED_GROUP_QUERY_SERVED_H

#include <stdbool.h>

#include <kvmill.h>

/* Inputs and outputs. */
enum {
    KVMILL_GROUP_QUERY_QUERY,
    KVMILL_GROUP_QUERY_KEY,
    KVMILL_GROUP_QUERY_VALUE,
    KVMILL_GROUP_QUERY_PAST_KEY,
    KVMILL_GROUP_QUERY_PAST_VALUE,
    KVMILL_GROUP_QUERY_SEQLENS_K,
    KVMILL_GROUP_QUERY_TOTAL_SEQUENCE_LENGTH,
    KVMILL_GROUP_QUERY_COS_CACHE,
    KVMILL_GROUP_QUERY_SIN_CACHE,
    KVMILL_GROUP_QUERY_POSITION_IDS,
    KVMILL_GROUP_QUERY_ATTENTION_BIAS,
    KVMILL_GROUP_QUERY_HEAD_SINK,
    KVMILL_GROUP_QUERY_K_SCALE,
    KVMILL_GROUP_QUERY_V_SCALE,
    KVMILL_GROUP_QUERY_Q_NORM_WEIGHT,
    KVMILL_GROUP_QUERY_K_NORM_WEIGHT,
    KVMILL_GROUP_QUERY_QUERY_SEQLENS,
    KVMILL_GROUP_QUERY_OUTPUT,
    KVMILL_GROUP_QUERY_PRESENT_KEY,
    KVMILL_GROUP_QUERY_PRESENT_VALUE,
    KVMILL_GROUP_QUERY_OUTPUT_QK,
    KVMILL_GROUP_QUERY_TENSORS
};

/* The names of attributes that are integers, and of those that are words. */
#define KVMILL_GROUP_QUERY_INTEGERS(X)                                                             \
    X(num_heads), X(kv_num_heads), X(do_rotary), X(rotary_interleaved), X(local_window_size),      \
        X(smooth_softmax), X(causal), X(qk_output), X(sliding_window_cache), X(kv_cache_bit_width)
#define KVMILL_GROUP_QUERY_WORDS(X) X(k_quant_type), X(v_quant_type)

/* The size of a word.  Longer words are cut off, and then are not known words. */
enum { KVMILL_GROUP_QUERY_WORD = 16 };

struct kvmill_group_query {
    int64_t num_heads, kv_num_heads, do_rotary, rotary_interleaved, local_window_size,
        smooth_softmax, causal, qk_output, sliding_window_cache, kv_cache_bit_width;
    char k_quant_type[KVMILL_GROUP_QUERY_WORD], v_quant_type[KVMILL_GROUP_QUERY_WORD];
    double scale, softcap;
};

/* Sets the defaults. */
void kvmill_group_query_init(struct kvmill_group_query *said);

/* A node: its attributes, its inputs (NULL: absent; dims may be KVMILL_DYNAMIC; data is not read),
   and a bit for each output that it has. */
struct kvmill_group_query_node {
    const struct kvmill_group_query *said;
    const DLTensor *const *inputs;
    uint64_t outputs;
    const char *const
        *formats; /* of K's and V's blocks; NULL: the node is not of kvmill's domain */
};

/* The heads of a node; bits: of a number in its caches, 32, 16, 8 or 4. */
struct kvmill_group_query_heads {
    int64_t heads, kv_heads, dim;
    int bits;
    bool half;   /* queries are float16, else float32 */
    bool packed; /* K and V are part of `query` */
    bool blocks; /* caches are in blocks; `bits` is then that of queries */
};

/* Finds the heads.  Fails, with the reason, if kvmill does not serve the node: every call that the
   op allows for a served node is served. */
kvmill_status kvmill_group_query_check(const struct kvmill_group_query_node *node,
                                       struct kvmill_group_query_heads *heads, kvmill_error *error);

/* The attention of a served node.  Queries of quantised caches are float32, because they are
   multiplied by the scales of keys. */
kvmill_cache_attend kvmill_group_query_attend(const struct kvmill_group_query_node *node,
                                              const struct kvmill_group_query_heads *heads);

static inline bool kvmill_group_query_is_quantised(const struct kvmill_group_query_heads *heads) {
    return heads->bits <= 8;
}

#endif
