/* Steps of sparse flows for tests.  Requests over a paged cache become tensors in fenced memory,
   including the fields of Quest, with numbers where a step may read and NaN where it may not.  Runs
   steps, and compares them with the oracles.  Scores are sums of small integers, so there is only
   one right list.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_STEP_H
#define KVMILL_TESTS_FLOW_STEP_H

#include <kvmill.h>

#include "../defs/op.h"
#include "attention.h"
#include "fence.h"

/* The fields of Quest, and the tensors of its steps; the most that other flows have. */
enum { FLOW_STEP_FIELDS = 2, FLOW_STEP_TENSORS = KVMILL_FLOW_FIELDS + FLOW_STEP_FIELDS };
/* Rows of new tokens, and inputs, come after this many fields. */
enum {
    MOST_STEP_FIELDS = 6,
    MOST_STEP_EXTRAS = 4,
    FLOW_STEP_EXTRAS = KVMILL_FLOW_FIELDS + MOST_STEP_FIELDS,
    FLOW_STEP_MOST = FLOW_STEP_EXTRAS + MOST_STEP_EXTRAS
};

struct flow_step {
    /* Inputs of flow_step_open.  attention.tokens: new tokens, `start` tokens come before them;
       tokens that are not appended are in the cache. */
    struct attention attention;
    kvmill_flow_select select;
    const char *summary, *field_layout, *temporaries; /* field_layout, temporaries: of Quest */
    DLDataType field_type;
    int64_t block_size;     /* of Quest; 0: a page */
    int64_t skipped;        /* the layer; a flag */
    int64_t few_kinds;      /* of the numbers of fields, so that scores are equal; 0: many */
    const kvmill_flow *own; /* a flow in place of Quest's: its fields and programs; all of its
                               tokens are new, none of them padding */
    bool has_topk;          /* requests say themselves how many pages are selected: */
    int64_t topk[MOST_SEQUENCES];

    /* Set by flow_step_open. */
    kvmill_flow flow;
    kvmill_flow_field fields[MOST_STEP_FIELDS];
    int64_t length[MOST_SEQUENCES], indptr[MOST_SEQUENCES + 1];
    int64_t kv_heads, value_dim, rows;           /* rows: of a request */
    struct fenced_tensor tensor[FLOW_STEP_MOST]; /* those that `attention` has not */
    const DLTensor *given[FLOW_STEP_MOST];       /* of the next run; a test may change them */
    struct fenced_tensor before[FLOW_STEP_MOST]; /* made by flow_step_keep */
    kvmill_flow_limits limits;                   /* as small as possible */

    /* Made by flow_step_expect_scores: what is told of blocks.  Lists of a flow of a test's own
       follow from what a run has told, and from `second`, scores that Union takes then. */
    float *scores, *second;

    /* Set by flow_step_expect: the lists, [sequences * rows + 1] and [pages], and the output. */
    int64_t *starts;
    int32_t *list;
    struct oracle_result result;
};

/* Want what settings say, "page_size=1 start=200,0,7 topk_val=3 field=float16": attributes of the
   attention, members of the selection, and members of the step; as many requests as `start` has. */
void flow_step_set(struct flow_step *step, const char *settings);

/* Want case `number` of all: cache types, heads, dims, layouts and scopes go round, all else is
   any; no new tokens. */
void flow_step_choose(struct flow_step *step, int64_t number, struct dice *dice);

/* Sometimes each request states how many pages are selected. */
void flow_step_choose_topk(struct flow_step *step, struct dice *dice);

/* The op must be valid, dynamic and paged; page_size and all else of it as wanted. */
void flow_step_open(struct flow_step *step, struct dice *dice);
void flow_step_close(struct flow_step *step);

/* Whether the cache program writes rows of K or V. */
bool flow_step_writes_rows(const struct flow_step *step);

/* Tensors for a step, OP_FLOW_...; attend: along the lists there are, or over all pages; decode:
   tell the lists, or do not. */
void flow_step_give(struct flow_step *step, int kind, bool lists);

/* A tensor, wherever it is; the cache's number of a request's page; the pages of a request. */
struct fenced_tensor *flow_step_tensor(struct flow_step *step, int which);
int32_t *flow_step_page(struct flow_step *step, int64_t request, int64_t page);
int64_t flow_step_pages(const struct flow_step *step, int64_t request);

/* The index of a field's matrix for a block and kv head. */
int64_t flow_step_matrix(const struct flow_step *step, int field, int64_t block, int64_t kv_head);
int64_t flow_step_field_heads(const struct flow_step *step, int field);

/* What lists, scores and fields count: blocks of the flow, pages where it has none.  Tokens of one,
   those of a page; those that a request has begun, and their numbers: block b is in slots b * size
   to (b + 1) * size. */
int64_t flow_step_block_size(const struct flow_step *step);
int64_t flow_step_page_blocks(const struct flow_step *step);
int64_t flow_step_blocks(const struct flow_step *step, int64_t request);
int64_t flow_step_block(struct flow_step *step, int64_t request, int64_t block);

/* Element 0 of a tensor; a field of a block. */
void *flow_step_data(struct flow_step *step, int which);
unsigned char *flow_step_field(const struct flow_step *step, int i, int64_t block, int64_t kv_head);

/* Row t of kv head h of new tokens' rows for a field; the matrix of an input. */
const unsigned char *flow_step_new_row(struct flow_step *step, int field, int64_t t, int64_t h);
DLDataType flow_step_row_type(const struct flow_step *step, int field);
const float *flow_step_input(struct flow_step *step, size_t constant, int64_t request, int64_t h);

/* Where tensors of inputs are, after those of new rows. */
int flow_step_first_input(const struct flow_step *step);

/* Write bytes to a tensor (NULL: there is none), and check whether it has them. */
void *flow_step_copy(struct flow_step *step, int which);
bool flow_step_has_bytes(struct flow_step *step, int which, const void *bytes);

/* Compute what the lists and the output must be; if all pages are selected, those of dense
 * attention. */
void flow_step_expect(struct flow_step *step, bool dense);

/* The scores of a run to come, as its tensor has them; what it saves goes into `fields`, if they
   are not NULL.  flow_step_expect does so where the flow is Quest. */
void flow_step_expect_scores(struct flow_step *step, unsigned char *const *fields);

/* So many numbers are near, apart by a share of the larger of `size` and what is wanted. */
bool flow_step_are_near(const struct flow_step *step, const char *name, enum oracle_type type,
                        const void *have, const void *wanted, int64_t count, double size,
                        double error);

/* The largest number that is not a mask. */
double flow_step_largest(enum oracle_type type, const void *numbers, int64_t count);

void flow_step_forget(struct flow_step *step);

/* Compute what the output must be along step.list, which a test may have changed. */
void flow_step_expect_output(struct flow_step *step);

/* Copy the expected lists to the tensors, as if the caller had made them. */
void flow_step_put_lists(struct flow_step *step);

/* Plan and run, in parts like run_in_parts, with traps on writes to inputs. */
kvmill_status flow_step_run(struct flow_step *step, int kind, const kvmill_plan_options *options,
                            int threads, struct dice *dice, kvmill_error *error);

/* The same, which must succeed; otherwise prints what failed. */
bool flow_step_runs(struct flow_step *step, int kind, const kvmill_plan_options *options,
                    int threads, struct dice *dice);

/* Check lists with their absolute numbers, and output. */
bool flow_step_lists_are_right(struct flow_step *step);
bool flow_step_output_is_right(struct flow_step *step);

/* Copy all tensors; check that all are equal to the copies; restore them. */
void flow_step_keep(struct flow_step *step, struct dice *dice);
bool flow_step_is_kept(struct flow_step *step);
void flow_step_restore(struct flow_step *step);

/* ---- Appending ---- */

/* The rows in each block of the cache, and the contents of its fields, in the place of their
 * tensors. */
struct flow_pool {
    struct flow_step *step;
    int64_t blocks, *rows;
    unsigned char *field[MOST_STEP_FIELDS];
};

void flow_pool_open(struct flow_step *step, struct flow_pool *pool);
void flow_pool_close(struct flow_pool *pool);

/* Append the new tokens to the slots in the tensor.  Rows must be exactly what the oracle writes,
   fields what it computes, and no other byte may change. */
bool flow_pool_appends(struct flow_pool *pool, const kvmill_plan_options *options,
                       struct dice *dice);

/* Fields are as the pool has them; of scores: within what sums of their size may err. */
bool flow_pool_fields_are_right(struct flow_pool *pool, bool are_scores);

/* A row of K or V from the dense arrays as float32 arithmetic sees it. */
void flow_step_read_floats(const struct oracle_attention *problem, int v, int64_t slot,
                           int64_t head, double *numbers);

/* ---- Fields that share a piece of memory ---- */

/* Before a run, they are copied to one piece of fenced memory, of which the run gets views; then
 * back. */

enum { MOST_BESIDE = 32 }; /* the most fields of a flow */

struct flow_beside {
    int count; /* 0: they are separate */
    struct fence piece;
    DLTensor view[MOST_BESIDE], apart[MOST_BESIDE];
    int64_t dims[MOST_BESIDE][4], strides[MOST_BESIDE][4];
};

/* Replace the fields in `list`, which are dense, by views, if `layout` says so and all exist. */
void flow_beside_open(struct flow_beside *beside, const char *layout, const DLTensor **list,
                      int fields, struct dice *dice);

/* Copy the results of a run back to the separate fields; false if it wrote outside of the piece. */
bool flow_beside_read(const struct flow_beside *beside);

/* The same, and release the piece. */
bool flow_beside_close(struct flow_beside *beside);

#endif
