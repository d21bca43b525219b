/* ONNX Attention over the plans of cache attention: a static batch of MultiHeadAttention whose
   sequences differ in length, whose keys may lie in two pieces of memory, and whose scores have
   masks of many forms.  Plans are made by onnx_attention_plan.c, runs checked by
   onnx_attention_check.c; what a query sees is said by onnx_attention_see.c, masks are read by
   onnx_attention_mask.c; what no kernel computes onnx_attention_wide.c does; tensors are copied by
   onnx_attention_copy.c.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ONNX_ATTENTION_H
#define KVMILL_RUNTIME_ONNX_ATTENTION_H

#include "../ops/onnx_attention.h"
#include "cache_attention.h"
#include "doubles.h"

/* ---- Plans ---- */

enum { ALL_ATTENTION_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

/* What a plan of cache attention knows more when it is one of these. */
struct onnx_plan {
    kvmill_attention op; /* its tensors are not there */
    struct kvmill_attention_geometry geometry;
    DLDataType types[ALL_ATTENTION_TENSORS];
    bool has[ALL_ATTENTION_TENSORS];
    kvmill_plan *scatter[2]; /* of a step: of K and V; NULL where padding is left out */
};

/* ---- Runs ---- */

/* attn_mask: its elements by batch entry, query head, query and key; bytes between neighbours, 0
   where one serves all. */
struct mask_view {
    const unsigned char *data; /* NULL: there is none */
    DLDataType type;
    kvmill_reader read;
    int64_t batch, head, query, key;
    int64_t columns; /* keys from there on are hidden */
};

/* Where a present tensor takes its rows from. */
struct present_view {
    struct token_rows rows; /* data NULL: it is not wanted */
    int64_t row_bytes;
};

/* What a run knows more; it is in the workspace. */
struct onnx_run {
    const struct onnx_plan *plan;
    struct kvmill_attention_geometry geometry; /* all known */
    struct index_array lengths;                /* nonpad_kv_seqlen, if given */
    struct index_array starts;                 /* write_indices, if given */
    struct mask_view mask;
    struct present_view present[2];
    struct token_rows scores; /* qk_matmul_output */
    kvmill_call scatter[2];   /* of a step */
};

/* Positions of a circular cache that has wrapped around are counted from its second turn on, so
   that they do not grow without end. */

/* Keys of the batch entry that are valid. */
int64_t kvmill_onnx_length(const struct onnx_run *run, int64_t b);

/* Keys [first, last) that the query sees, but for the mask.  Neither gets less from query to query.
 */
void kvmill_onnx_see(const struct onnx_run *run, int64_t b, int64_t query, int64_t *first,
                     int64_t *last);

/* The first key of the second piece. */
int64_t kvmill_onnx_joint(const struct onnx_run *run, int64_t b);

/* Row of a key in its piece, and rows of keys [first, first + count) of one piece. */
int64_t kvmill_onnx_slot(const struct onnx_run *run, int64_t b, int64_t key);
void kvmill_onnx_fill_slots(const struct onnx_run *run, int64_t b, int64_t first, int64_t count,
                            int64_t *slots);

/* ---- Masks ---- */

/* Keys that a kernel's call converts masks for at a time. */
enum { KVMILL_MASK_POSITIONS = 512 };

/* The mask's elements of a query head and query for keys [at, at + count), of which row->first to
   row->last are seen, as `activation`s in `to`; row->mask is set, and what is hidden at either end
   of those seen is taken off: a row of which nothing is left sees nothing, whatever its scores are.
 */
struct mask_part {
    int64_t b, head, query, at, count;
};
void kvmill_mask_row(const struct mask_view *mask, const struct mask_part *part, int activation,
                     unsigned char *to, struct kvmill_query_row *row);

/* The bias of one key, rounded as T1 is. */
double kvmill_mask_at(const struct onnx_run *run, int64_t b, int64_t head, int64_t query,
                      int64_t key);

/* ---- Plans and their phases ---- */

/* Validate a run and fill the call; op.begin. */
kvmill_status kvmill_onnx_attention_begin(struct call *call, const DLTensor *const *tensors,
                                          kvmill_error *error);

extern const struct phase kvmill_wide_phase;   /* Y in float64 */
extern const struct phase kvmill_scores_phase; /* qk_matmul_output */
extern const struct phase kvmill_present_phase;
extern const struct phase kvmill_scatter_phase; /* of a step: K and V into the caches */
extern const struct phase kvmill_ring_phase;    /* the same, without padding */

#endif
