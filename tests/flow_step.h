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

/* The fields of Quest, and the tensors of its steps. */
enum { FLOW_STEP_FIELDS = 2, FLOW_STEP_TENSORS = KVMILL_FLOW_FIELDS + FLOW_STEP_FIELDS };
/* The most of any flow; tensors of new rows and inputs come after MOST_STEP_FIELDS fields. */
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
    int64_t few_kinds;      /* how many values fields have, so that scores are equal; 0: many */
    const kvmill_flow *own; /* a flow instead of Quest's: its fields and programs; all of its tokens
                               are new, and no token is padding */
    bool has_topk;          /* requests have their own numbers of selected pages: */
    int64_t topk[MOST_SEQUENCES];

    /* Set by flow_step_open. */
    kvmill_flow flow;
    kvmill_flow_field fields[MOST_STEP_FIELDS];
    int64_t length[MOST_SEQUENCES], indptr[MOST_SEQUENCES + 1];
    int64_t kv_heads, value_dim, rows;           /* rows: of a request */
    struct fenced_tensor tensor[FLOW_STEP_MOST]; /* tensors that `attention` does not have */
    const DLTensor *given[FLOW_STEP_MOST];       /* of the next run; a test may change them */
    struct fenced_tensor before[FLOW_STEP_MOST]; /* made by flow_step_keep */
    kvmill_flow_limits limits;                   /* as small as possible */

    /* Made by flow_step_expect_scores: the scores of blocks.  For a flow of a test's own, the
       lists follow from a run's scores, and from `second`, the scores that Union selects by
       afterwards. */
    float *scores, *second;

    /* Set by flow_step_expect: the lists, [sequences * rows + 1] and [pages], and the output. */
    int64_t *starts;
    int32_t *list;
    struct oracle_result result;
};

/* Sets what the settings say, "page_size=1 start=200,0,7 topk_val=3 field=float16": attributes
   of the attention, members of the selection and of the step.  `start` has a value for each
   request. */
void flow_step_set(struct flow_step *step, const char *settings);

/* Sets case `number`: cache types, heads, dims, layouts and scopes take turns, everything else is
   random; no new tokens. */
void flow_step_choose(struct flow_step *step, int64_t number, struct dice *dice);

/* Sometimes each request states how many pages are selected. */
void flow_step_choose_topk(struct flow_step *step, struct dice *dice);

/* Opens the step.  The op must be valid, dynamic and paged; its attributes, page_size among them,
   are the caller's choice. */
void flow_step_open(struct flow_step *step, struct dice *dice);
void flow_step_close(struct flow_step *step);

/* Whether the cache program writes rows of K or V. */
bool flow_step_writes_rows(const struct flow_step *step);

/* Sets `given` for a step, OP_FLOW_...  lists: attention follows the lists instead of all pages,
   and decode returns its lists. */
void flow_step_give(struct flow_step *step, int kind, bool lists);

/* Return a tensor from either list, the cache's page for a request's page, and the pages of a
   request. */
struct fenced_tensor *flow_step_tensor(struct flow_step *step, int which);
int32_t *flow_step_page(struct flow_step *step, int64_t request, int64_t page);
int64_t flow_step_pages(const struct flow_step *step, int64_t request);

/* The index of a field's matrix for a block and kv head. */
int64_t flow_step_matrix(const struct flow_step *step, int field, int64_t block, int64_t kv_head);
int64_t flow_step_field_heads(const struct flow_step *step, int field);

/* Blocks: the unit of lists, scores and fields, which are pages if the flow has no blocks.  Return
   the tokens of a block, the blocks of a page, and the blocks that a request has begun.  Block b is
   in slots b * size to (b + 1) * size. */
int64_t flow_step_block_size(const struct flow_step *step);
int64_t flow_step_page_blocks(const struct flow_step *step);
int64_t flow_step_blocks(const struct flow_step *step, int64_t request);
int64_t flow_step_block(struct flow_step *step, int64_t request, int64_t block);

/* Return the address of element 0 of a tensor, and of a field of a block. */
void *flow_step_data(struct flow_step *step, int which);
unsigned char *flow_step_field(const struct flow_step *step, int i, int64_t block, int64_t kv_head);

/* Return row t of kv head h of the new rows for a field, its type, and the matrix of an input. */
const unsigned char *flow_step_new_row(struct flow_step *step, int field, int64_t t, int64_t h);
DLDataType flow_step_row_type(const struct flow_step *step, int field);
const float *flow_step_input(struct flow_step *step, size_t constant, int64_t request, int64_t h);

/* Returns the index of the first input's tensor; inputs come after new rows. */
int flow_step_first_input(const struct flow_step *step);

/* Copy a tensor's bytes (NULL if it is absent), and check that it still has them. */
void *flow_step_copy(struct flow_step *step, int which);
bool flow_step_has_bytes(struct flow_step *step, int which, const void *bytes);

/* Computes the lists and the output that a step must give; if dense, the output of dense
   attention. */
void flow_step_expect(struct flow_step *step, bool dense);

/* Computes the scores that the next run must give; `fields`, unless NULL, get what it saves.
   flow_step_expect calls this function for Quest. */
void flow_step_expect_scores(struct flow_step *step, unsigned char *const *fields);

/* Checks `count` numbers: each may differ by `error` times the larger of `size` and the wanted
   number. */
bool flow_step_are_near(const struct flow_step *step, const char *name, enum oracle_type type,
                        const void *have, const void *wanted, int64_t count, double size,
                        double error);

/* Returns the largest number that is not a mask. */
double flow_step_largest(enum oracle_type type, const void *numbers, int64_t count);

void flow_step_forget(struct flow_step *step);

/* Computes the output that step.list must give; a test may have changed the list. */
void flow_step_expect_output(struct flow_step *step);

/* Copies the expected lists to the tensors, as a caller's lists. */
void flow_step_put_lists(struct flow_step *step);

/* Plans and runs, in parts like run_in_parts, with traps on writes to inputs. */
kvmill_status flow_step_run(struct flow_step *step, int kind, const kvmill_plan_options *options,
                            int threads, struct dice *dice, kvmill_error *error);

/* Like flow_step_run, but must succeed; otherwise prints what failed. */
bool flow_step_runs(struct flow_step *step, int kind, const kvmill_plan_options *options,
                    int threads, struct dice *dice);

/* Check the lists, with their absolute numbers, and the output. */
bool flow_step_lists_are_right(struct flow_step *step);
bool flow_step_output_is_right(struct flow_step *step);

/* Copy all tensors; check that all are equal to the copies; restore them. */
void flow_step_keep(struct flow_step *step, struct dice *dice);
bool flow_step_is_kept(struct flow_step *step);
void flow_step_restore(struct flow_step *step);

/* ---- Appending ---- */

/* The rows in each block of the cache, and the contents of its fields, both by their place in the
   cache. */
struct flow_pool {
    struct flow_step *step;
    int64_t blocks, *rows;
    unsigned char *field[MOST_STEP_FIELDS];
};

void flow_pool_open(struct flow_step *step, struct flow_pool *pool);
void flow_pool_close(struct flow_pool *pool);

/* Appends the new tokens to the slots in the tensor.  Rows must be exactly the oracle's, fields the
   oracle's, and no other byte may change. */
bool flow_pool_appends(struct flow_pool *pool, const kvmill_plan_options *options,
                       struct dice *dice);

/* Checks the fields against the pool's.  are_scores: within the error of sums of their size. */
bool flow_pool_fields_are_right(struct flow_pool *pool, bool are_scores);

/* Reads a row of K or V from the dense arrays as float32 arithmetic does. */
void flow_step_read_floats(const struct oracle_attention *problem, int v, int64_t slot,
                           int64_t head, double *numbers);

/* ---- Fields in one piece of memory ---- */

/* Fields are copied to one piece of fenced memory before a run, which gets views of them, and back
   after it. */

enum { MOST_BESIDE = 32 }; /* the most fields of a flow */

struct flow_beside {
    int count; /* 0: they are separate */
    struct fence piece;
    DLTensor view[MOST_BESIDE], apart[MOST_BESIDE];
    int64_t dims[MOST_BESIDE][4], strides[MOST_BESIDE][4];
};

/* Replaces the dense fields in `list` by views if `layout` asks for it and all exist. */
void flow_beside_open(struct flow_beside *beside, const char *layout, const DLTensor **list,
                      int fields, struct dice *dice);

/* Copies the results of a run back to the separate fields; returns false if it wrote outside the
   piece. */
bool flow_beside_read(const struct flow_beside *beside);

/* Like flow_beside_read; also releases the piece. */
bool flow_beside_close(struct flow_beside *beside);

#endif
