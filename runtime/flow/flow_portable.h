/* The portable side of sparse flows: how many pages a row has (flow_rows.c), summaries and scores
   (flow_summary.c, flow_score.c, over flow_ops.c), and what is selected (flow_select.c).  Nothing
   here allocates memory; the data of a row is in the caller's workspace.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_FLOW_FLOW_PORTABLE_H
#define KVMILL_RUNTIME_FLOW_FLOW_PORTABLE_H

#include "../../ops/flow_schedule.h"
#include "../core/needs.h"

/* ---- Pages of a row ---- */

/* Lists, scores and programs work on blocks, which are pages of block_size tokens; a page of the
   cache has a fixed number of them.  Unless the cache's pages are mentioned, "page" means block
   below.

   The pages of one request, how many of them are selected, and the rows of the last one. */
struct flow_row {
    int64_t pages, selected, last_rows;
};

/* length 0: no pages. */
struct flow_row kvmill_flow_row_of(const struct kvmill_flow_budget *budget, int64_t block_size,
                                   int64_t length);

static inline bool flow_is_whole(const struct flow_row *row) {
    return row->selected == row->pages;
}

/* The requests of a call: request b has the cache's pages [indptr[b], indptr[b + 1]) of ids, which
   are below page_count, and length[b] tokens. */
struct flow_batch {
    int64_t batch, page_count;
    const int64_t *indptr;
    const int32_t *ids;
    const int64_t *length;
    int64_t id_count;    /* of ids, used or not */
    const int64_t *topk; /* pages to select for each request, -1: as the flow says; or NULL */
};

/* The blocks that fit into the pages of request b, and into those of all requests before it. */
int64_t kvmill_flow_room_of(const struct kvmill_flow_problem *problem,
                            const struct flow_batch *batch, int64_t b);
int64_t kvmill_flow_room_before(const struct kvmill_flow_problem *problem,
                                const struct flow_batch *batch, int64_t b);

/* The cache's number of a block of the request whose pages are `ids`. */
static inline int64_t flow_block_of(const struct kvmill_flow_problem *problem, const int32_t *ids,
                                    int64_t block) {
    return ids[block / problem->page_blocks] * problem->page_blocks + block % problem->page_blocks;
}

/* The row of request b. */
struct flow_row kvmill_flow_row_at(const struct kvmill_flow_problem *problem,
                                   const struct flow_batch *batch, int64_t b);

kvmill_status kvmill_flow_check_batch(const struct kvmill_flow_problem *problem,
                                      const struct flow_batch *batch, kvmill_error *error);

/* Lists that a caller made: row r has [starts[r], starts[r + 1]) of list, which has `count`
 * entries. */
struct flow_lists {
    const int64_t *starts;
    const int32_t *list;
    int64_t count;
};

/* Check the lists of a checked batch; if there is a window, they must ascend. */
kvmill_status kvmill_flow_check_lists(const struct kvmill_flow_problem *problem,
                                      const struct flow_batch *batch,
                                      const struct flow_lists *lists, kvmill_error *error);

/* Set starts[batch * rows of a request + 1] to where the lists of a checked batch begin. */
void kvmill_flow_count_rows(const struct kvmill_flow_problem *problem,
                            const struct flow_batch *batch, int64_t *starts);

/* ---- Selection ---- */

struct flow_kernels;

/* The scores of a row's candidates, of which the first is page bos; second: NULL if the flow has
   only one score. */
struct flow_scores {
    const float *first, *second;
};

/* How pages are selected; kernels: NULL for the portable kernel.  `keys` has room for the
   candidates and KVMILL_SELECT_PADDING more words.  If there are second scores, `left` and
   `left_score` have room for all candidates. */
struct flow_selector {
    const struct flow_kernels *kernels;
    int32_t *keys, *left;
    float *left_score;
};

/* Select pages of a row that is not read whole. */
void kvmill_flow_list(const struct kvmill_flow_problem *problem, const struct flow_row *row,
                      const struct flow_selector *selector, const struct flow_scores *scores,
                      int32_t *list);

/* Select all pages of a row. */
void kvmill_flow_list_all(const struct flow_row *row, int32_t *list);

/* Integers of 32 or 64 bits. */
struct flow_ids {
    void *data; /* or NULL */
    bool wide;
};

/* Write pages in vFlow's numbering, from entry `first` on: block r of page p for kv head h is
   (p * kv_heads + h) * page_blocks + r. */
void kvmill_flow_absolute(const struct kvmill_flow_problem *problem, const int32_t *list,
                          int64_t count, const int32_t *ids, int64_t head,
                          const struct flow_ids *absolute, int64_t first);

/* ---- Programs ---- */

/* The numbers of a value: of one page, or of all pages that are scored. */
struct flow_matrix {
    const float *data;
    int64_t rows, columns;
};

/* An op on matrices; `out` has the shape that ops/flow_op.c determines. */
struct flow_eval {
    const struct kvmill_flow_step *step;
    struct flow_matrix in[2];
    int64_t rows, columns;
    float *out;
};

/* Run an op on one page. */
void kvmill_flow_eval(const struct flow_eval *eval);

/* Run an op over `pages` pages.  in[0].data has their matrices one after the other, and so has
   `out` if each page gets a matrix.  in[1] has weights [taps, rows, columns]. */
void kvmill_flow_eval_pages(const struct flow_eval *eval, int64_t pages, int64_t taps);

/* The cache and the fields of a layer. */
struct flow_cache {
    struct kvmill_cache_rows key, value;
    int64_t page_rows;                             /* row strides from a page to the next */
    unsigned char *field[KVMILL_MOST_FLOW_FIELDS]; /* of block 0 and head 0 */
    int64_t field_blocks;                          /* blocks that the fields have room for */
};

/* The first row of a block. */
static inline int64_t flow_first_row(const struct kvmill_flow_problem *problem,
                                     const struct flow_cache *cache, int64_t block) {
    return block / problem->page_blocks * cache->page_rows +
           block % problem->page_blocks * problem->block_size;
}

/* The field of a block and kv head. */
static inline unsigned char *flow_field_at(const struct kvmill_flow_problem *problem,
                                           const struct flow_cache *cache, int field, int64_t block,
                                           int64_t kv_head) {
    struct kvmill_field_place place = kvmill_flow_field_place(problem, field, cache->field_blocks);
    return cache->field[field] + block * place.block +
           kvmill_flow_field_head(problem, field, kv_head) * place.head;
}

/* The rows of a field: the address of slot 0 and head 0, and the strides in bytes of rows, blocks
   and heads. */
struct flow_field_rows {
    unsigned char *first;
    int64_t block_size, row, block, head;
};

static inline struct flow_field_rows flow_field_rows_of(const struct kvmill_flow_problem *problem,
                                                        const struct flow_cache *cache, int field) {
    const struct kvmill_flow_field_data *known = &problem->fields[field];
    struct kvmill_field_place place = kvmill_flow_field_place(problem, field, cache->field_blocks);
    return (struct flow_field_rows){cache->field[field], problem->block_size,
                                    known->bytes / known->rows, place.block, place.head};
}

/* The row of a slot for head 0. */
static inline unsigned char *flow_field_row(const struct flow_field_rows *rows, int64_t slot) {
    return rows->first + slot / rows->block_size * rows->block +
           slot % rows->block_size * rows->row;
}

/* The fields of a problem for kernels: where those of block 0 begin, for a kv head if fields share
   a piece of memory. */
struct flow_fields {
    unsigned char *field[KVMILL_MOST_FLOW_FIELDS];
};

static inline struct flow_fields flow_fields_of(const struct kvmill_flow_problem *problem,
                                                const struct flow_cache *cache, int64_t kv_head) {
    struct flow_fields fields;
    bool is_apart = problem->field_layout == KVMILL_FIELDS_APART;
    for (int i = 0; i < problem->field_count; i++)
        fields.field[i] = flow_field_at(problem, cache, i, 0, is_apart ? 0 : kv_head);
    return fields;
}

/* ---- New tokens ---- */

/* K and V (0, 1) of new tokens as activations, with strides in bytes, and their rows of fields,
   without gaps.  Token t goes to row slot[t] of the cache, or nowhere if that is -1. */
struct flow_tokens {
    const unsigned char *data[2];
    int64_t token_stride[2], head_stride[2];
    const unsigned char *rows[KVMILL_MOST_FLOW_APPENDED];
    const int64_t *slot;
    int64_t tokens;
};

/* Tokens [first, last) of these. */
struct flow_span {
    int64_t first, last;
};

/* The kernels for the programs, for the atoms of the index program in order, and for selection. */
struct flow_kernels {
    struct selection program[KVMILL_FLOW_PROGRAMS];
    struct selection score[KVMILL_MOST_FLOW_ATOMS], select;
};

/* Select the best kernels of packs, or the library's own.  A program needs kernels made for it. */
void kvmill_flow_select_kernels(const struct kernel_search *search,
                                const struct kvmill_flow_problem *problem,
                                const struct flow_schedule *schedule, struct flow_kernels *kernels);

/* Record that every run indexes, scores and selects pages with them. */
void kvmill_flow_need_index(const struct flow_kernels *kernels,
                            const struct flow_schedule *schedule,
                            const struct kernel_search *search, struct needs *needs);

/* Write "; summarise with SYMBOL (pack NAME)", and "; index with SYMBOL ...; score with ...; select
   with SYMBOL (WHY)", to `size` bytes of text, cut if it does not fit.  Returns the bytes used. */
size_t kvmill_flow_cache_words(const struct flow_kernels *kernels, char *text, size_t size);
size_t kvmill_flow_index_words(const struct flow_kernels *kernels,
                               const struct flow_schedule *schedule, char *text, size_t size);

/* ---- Summaries ---- */

/* Summarise the pages that tokens of a call have completed (or begun), for all kv heads.  The rows
   are in the cache.  The last token of a page determines how many rows it has.  kernels: NULL for
   the portable ones. */
void kvmill_flow_summarise_span(const struct kvmill_flow_problem *problem,
                                const struct flow_schedule *schedule,
                                const struct flow_kernels *kernels, const struct flow_cache *cache,
                                const struct flow_tokens *tokens, const struct flow_span *span,
                                float *workspace);

/* ---- Appending ---- */

/* Check that slots are in the cache's pages, and that tokens of a page are neighbours.  `seen` has
   room for a bit per page. */
kvmill_status kvmill_flow_check_slots(const struct kvmill_flow_problem *problem,
                                      const struct flow_tokens *tokens, int64_t page_count,
                                      unsigned char *seen, kvmill_error *error);

/* How K or V is written. */
struct flow_writer {
    const struct kvmill_kernel *kernel;
    const struct kvmill_convert_shape *shape;
    struct kvmill_cache_rows cache;
    int64_t heads, page_size, page_rows;
    bool stream;    /* around the caches */
    bool saturates; /* kvmill_convert.saturate */
};

/* Write the rows of checked tokens; v is 0 for K, 1 for V. */
void kvmill_flow_write(const struct flow_writer *writer, const struct flow_tokens *tokens, int v,
                       const struct flow_span *span);

/* Write their rows of a field that is appended. */
void kvmill_flow_write_field(const struct kvmill_flow_problem *problem,
                             const struct flow_cache *cache, const struct flow_tokens *tokens,
                             int field, const struct flow_span *span);

/* The same for a field with scales: its rows are quantised. */
void kvmill_flow_write_codes(const struct kvmill_flow_problem *problem,
                             const struct flow_cache *cache, const struct flow_tokens *tokens,
                             int field, const struct flow_span *span);

/* ---- Scores ---- */

/* The scores of pages ids[0 .. pages) for one kv head.  query has `group` rows of activations,
   query_stride bytes apart. */
struct flow_scoring {
    const struct kvmill_flow_problem *problem;
    const struct flow_schedule *schedule; /* of the index program */
    const struct flow_kernels *kernels;   /* NULL: the portable ones */
    const struct flow_cache *cache;
    const unsigned char *query;
    int64_t query_stride;
    const float *constant[KVMILL_MOST_FLOW_CONSTANTS]; /* inputs: those of the row */
    const int32_t *ids;
    int64_t pages, kv_head;
};

/* In this order: what depends only on the query; atoms, for any pages in any order; all the rest,
   which updates the state of saved fields and leaves the scores in the workspace. */
void kvmill_flow_prepare(const struct flow_scoring *scoring, float *workspace);
void kvmill_flow_score_span(const struct flow_scoring *scoring, const struct flow_span *span,
                            float *workspace);
struct flow_scores kvmill_flow_finish(const struct flow_scoring *scoring, float *workspace);

/* ---- Lists ---- */

/* Query head h of request b, head_dim activations, is b * request + h * head bytes after `data`.
   Inputs have a matrix for each request and kv head, one after the other. */
struct flow_queries {
    const unsigned char *data;
    int64_t request, head;
    const float *input[KVMILL_MOST_FLOW_INPUTS];
};

/* What the lists of a batch are computed from.  Scores are for kv heads, or for query heads; their
   workspaces of row_bytes each are one after the other, request by request. */
struct flow_index {
    const struct kvmill_flow_problem *problem;
    const struct flow_schedule *schedule; /* of the index program */
    const struct flow_kernels *kernels;   /* NULL: the portable ones */
    const struct flow_cache *cache;
    const struct flow_batch *batch;
    const struct flow_queries *queries;
    unsigned char *workspace;
    int64_t row_bytes;
    /* If a page has several blocks: the blocks' numbers, for each request at a fixed distance. */
    int32_t *blocks;
    int64_t blocks_apart;
};

/* The heads of a request that are scored, and the bytes for each, if requests have at most this
   many pages. */
int64_t kvmill_flow_scored_heads(const struct kvmill_flow_problem *problem);
int64_t kvmill_flow_head_workspace(const struct kvmill_flow_problem *problem,
                                   const struct flow_schedule *schedule, int64_t pages);

/* The bytes that are needed to make a list. */
int64_t kvmill_flow_list_workspace(const struct kvmill_flow_problem *problem, int64_t pages);

/* The pages of request b that are scored; 0 if it is read whole. */
int64_t kvmill_flow_candidates(const struct flow_index *index, int64_t b);

/* In this order for request b: its blocks; each head; spans of its pages, for all heads; the list
   of row r, with as many pages as kvmill_flow_count_rows says, and the scores of all its pages
   (unless NULL), NaN for pages without one.  The rows of one kv head go one after the other. */
void kvmill_flow_number_blocks(const struct flow_index *index, int64_t b);
void kvmill_flow_prepare_head(const struct flow_index *index, int64_t b, int64_t head);
void kvmill_flow_score_heads(const struct flow_index *index, int64_t b,
                             const struct flow_span *span);
void kvmill_flow_list_row(const struct flow_index *index, int64_t b, int64_t r, void *workspace,
                          int32_t *list, float *scores);

#endif
