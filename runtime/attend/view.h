/* The input of the attend engine.  An op describes its tensors as a view: where queries, keys,
   values and results are, which positions a token sees, and what is added to scores.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_ATTEND_VIEW_H
#define KVMILL_RUNTIME_ATTEND_VIEW_H

#include <stdbool.h>

#include <kvmill.h>
#include <kvmill_kernel.h>

#include "../core/tensor.h"
#include "mask.h"
#include "pages.h"

/* The largest position, so that distances do not overflow. */
static const int64_t farthest = (int64_t)1 << 62;

struct index_array {
    const kvmill_index *data;
    int64_t stride;
};

static inline int64_t index_at(struct index_array array, int64_t i) {
    return array.data[i * array.stride];
}

/* The numbers of a tensor of indices; data NULL: there is none. */
static inline struct index_array kvmill_index_array(const DLTensor *tensor) {
    if (tensor == NULL)
        return (struct index_array){NULL, 0};
    return (struct index_array){(const kvmill_index *)(const void *)tensor_data(tensor),
                                tensor->ndim > 0 ? kvmill_tensor_stride(tensor, 0) : 0};
}

/* The counts of tokens, or of positions, of sequences.  Those of sequence b are starts[b] to
   starts[b + 1]; or all sequences have the same number. */
struct sequence_counts {
    struct number_array starts;
    int64_t each;
};

static inline int64_t count_before(const struct sequence_counts *counts, int64_t b) {
    return counts->starts.data != NULL ? number_at(&counts->starts, b) : b * counts->each;
}

static inline int64_t count_of(const struct sequence_counts *counts, int64_t b) {
    return count_before(counts, b + 1) - count_before(counts, b);
}

/* Where sequence b begins in a tensor that counts tokens over all sequences. */
static inline int64_t offset_of_sequence(const struct sequence_counts *counts, int64_t b) {
    return counts->starts.data != NULL ? number_at(&counts->starts, b) : 0;
}

/* Some tokens of a sequence. */
struct token_span {
    int64_t first, last;
};

/* K or V: the address of sequence 0, and bytes between sequences. */
struct cache_side {
    struct kvmill_cache_rows rows;
    int64_t batch, scale_batch;
};

/* A number for each query head; data NULL: there are none. */
struct head_numbers {
    const unsigned char *data;
    int64_t stride;
    int element;
};

/* The positions of a sequence as the query heads of a tile see them.  A token at position p sees
   those of [p - left, p + right] that are in [first, length), and at most the last `most` of these;
   or it has a range of its own. */
struct attend_sequence {
    int64_t length;
    int64_t origin;                /* position of token 0 */
    struct number_array positions; /* of tokens; data NULL: consecutive, from origin on */
    struct number_array ranges[2]; /* first and end position of each token; data NULL: none */
    struct number_array cells;     /* positions of cache rows, if left and right refer to these */
    int64_t left, right;           /* -1: no limit */
    int64_t first;
    int64_t most;
    int64_t tokens;               /* later tokens see nothing */
    int64_t left_out;             /* positions that the list of pages leaves out */
    int64_t joint;                /* positions from here on are in the second piece of memory */
    struct attend_pages pages[2]; /* of both pieces; the second begins at its position 0 */
    int64_t column;               /* the mask's column for position 0 */
};

/* A sequence that sees all of itself, in one page. */
static inline struct attend_sequence whole_sequence(int64_t length) {
    return (struct attend_sequence){.length = length,
                                    .left = -1,
                                    .right = -1,
                                    .most = INT64_MAX,
                                    .tokens = INT64_MAX,
                                    .joint = INT64_MAX,
                                    .pages = {one_page(0), one_page(0)}};
}

/* How a run is cut; kvmill_attend_prepare sets it. */
struct attend_cuts {
    const struct tiles *tiles;
    int64_t tokens; /* tokens of a tile */
    int64_t parts;  /* tiles that share the query heads of a kv head */
    int64_t heads;  /* kv heads of a unit */
    int64_t rows;   /* query rows of a tile */
    int64_t room;   /* the most tiles of a kv head of a sequence */
    int64_t units;  /* tiles of all sequences and groups of kv heads */
    int64_t splits; /* the most pieces of a unit */
};

struct attend_plan;

struct attend_view {
    const struct attend_plan *plan;
    unsigned char *workspace;
    int64_t batch;
    struct sequence_counts tokens;
    struct token_rows query, output, lse; /* lse.data NULL: not wanted */
    struct cache_side side[2][2];         /* of both pieces of memory: K, V */
    struct mask_view mask;
    bool converts; /* masks are converted for each call of a kernel */
    bool compacts; /* cache rows that no query of a tile sees are left out of the call */
    struct head_numbers sinks, slopes;
    /* Sets the sequence as the query heads from `head` on see it. */
    void (*look)(const struct attend_view *view, int64_t b, int64_t head,
                 struct attend_sequence *sequence);
    /* Sets the tokens of a sequence that take part in the present turn; NULL: all. */
    struct token_span (*turn)(const struct attend_view *view, int64_t b);
    bool heads_apart; /* tiles of one query head each */
    bool heads_alike; /* look() gives the same for all heads */
    int64_t longest;  /* the most positions of a sequence */
    int64_t window;   /* the most positions that a token sees; 0: all */
    struct kvmill_call_size size;
    struct attend_cuts cuts;
};

/* The strides of rows in a piece of memory. */
static inline void set_row_strides(const struct cache_side side[2], struct kvmill_attend *problem) {
    problem->key_stride = side[0].rows.row_stride;
    problem->value_stride = side[1].rows.row_stride;
    problem->key_scale_stride = side[0].rows.scale_row_stride;
    problem->value_scale_stride = side[1].rows.scale_row_stride;
}

/* The address of a query head at token t of sequence b. */
static inline unsigned char *row_at(const struct attend_view *view, const struct token_rows *rows,
                                    int64_t b, int64_t head, int64_t t) {
    return rows->data + b * rows->batch + head * rows->head +
           (offset_of_sequence(&view->tokens, b) + t) * rows->token;
}

/* The tokens that attend. */
static inline struct token_span tokens_in_turn(const struct attend_view *view, int64_t b) {
    return view->turn != NULL ? view->turn(view, b)
                              : (struct token_span){0, count_of(&view->tokens, b)};
}

static inline int64_t position_of(const struct attend_sequence *sequence, int64_t t) {
    return sequence->positions.data != NULL ? number_at(&sequence->positions, t)
                                            : sequence->origin + t;
}

/* Set the positions [*first, *last) that token t sees. */
void kvmill_see(const struct attend_sequence *sequence, int64_t t, int64_t *first, int64_t *last);

/* The mask of a query head at token t of sequence b, from the position on. */
const unsigned char *kvmill_mask_at(const struct attend_view *view,
                                    const struct attend_sequence *sequence, int64_t b, int64_t head,
                                    int64_t t, int64_t position);

/* The same without positions that the mask hides at either end, if the view finds them. */
void kvmill_see_through(const struct attend_view *view, const struct attend_sequence *sequence,
                        int64_t b, int64_t head, int64_t t, int64_t *first, int64_t *last);

/* The last b in [0, batch) with before (context, b) <= number. */
int64_t kvmill_find_sequence(int64_t batch, int64_t (*before)(const void *context, int64_t b),
                             const void *context, int64_t number);

#endif
