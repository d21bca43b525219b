/* Memory for tests: buffers that end or begin at a page nobody may touch, canaries in what is left
   of their pages, poison in what nobody wrote; tensors in such buffers; and random numbers.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FENCE_H
#define KVMILL_TESTS_FENCE_H

#include <stdbool.h>

#include <kvmill.h>

/* ---- Random numbers: the same sequence on every machine ---- */

struct dice {
    uint64_t state;
    const unsigned char *bytes; /* that numbers come from while there are any left */
    size_t left;
};

/* The seed of this run: KVMILL_SEED, or a fixed one. */
uint64_t dice_seed(void);

/* By the seed; `words` gives every test numbers of its own. */
struct dice dice_for(const char *words);

/* Numbers that somebody chose, two bytes each, who keeps them; then the same ones always. */
struct dice dice_of_bytes(const unsigned char *bytes, size_t size);

uint64_t dice_bits(struct dice *dice);

/* In [least, most]. */
int64_t dice_range(struct dice *dice, int64_t least, int64_t most);

/* True once in `times`. */
bool dice_once_in(struct dice *dice, int64_t times);

/* The numbers 0 to count - 1 in any order. */
void dice_order(struct dice *dice, int64_t *order, int64_t count);

/* KVMILL_TEST_SLOW=1: what slows everything down is watching; run a few cases only.  2: it does so
   more than all others, as valgrind does. */
bool is_slow_run(void);
bool is_slowest_run(void);

/* As many of these cases as the slowest run has time for: a third, at least one. */
int few_cases(int cases);

/* Zeros, to be freed, so many and one more. */
void *take(int64_t count, size_t bytes);

/* ---- Fenced buffers ---- */

enum fence_side { FENCE_ABOVE, FENCE_BELOW };

enum { FENCE_FLUSH = -1 };

struct fence {
    unsigned char *data;
    size_t size;
    unsigned char *pages; /* what may be touched: data with canaries around it */
    size_t pages_size;
};

/* `size` bytes of poison.  The page after (FENCE_ABOVE) or before the buffer traps, and so
   does the one at the other end of its pages.  FENCE_FLUSH: data touches the fence, whatever its
   alignment is then; 0 to 63: data begins there, modulo 64, as close to the fence as that allows.
 */
void fence_open(struct fence *fence, size_t size, int misalignment, enum fence_side side,
                struct dice *dice);
void fence_close(struct fence *fence);

/* The first bytes, again and again. */
void fence_repeat(const struct fence *fence, size_t size);

/* Trap writes, or allow them again. */
void fence_protect(const struct fence *fence, bool read_only);

/* No canary was overwritten; else *where, unless that is NULL, is the offset of the first that was,
   relative to data. */
bool fence_is_intact(const struct fence *fence, int64_t *where);

/* A trap ends the test: say what it was doing.  The text is read when it happens. */
void fence_explain_traps(const char *text);

/* ---- Tensors in fenced buffers ---- */

enum { MOST_DIMS = 8 };

struct fenced_tensor {
    struct fence fence;
    DLTensor dl;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
};

/* strides NULL = row-major.  Elements are poison; byte_offset leads to element 0. */
void tensor_open(struct fenced_tensor *tensor, DLDataType dtype, int rank, const int64_t *shape,
                 const int64_t *strides, struct dice *dice);

/* The same, data at a place that fence_open's misalignment says. */
void tensor_open_at(struct fenced_tensor *tensor, DLDataType dtype, int rank, const int64_t *shape,
                    const int64_t *strides, int misalignment, struct dice *dice);

/* Row-major, at a multiple of its elements; in place of one that may be open. */
void tensor_open_aligned(struct fenced_tensor *tensor, DLDataType dtype, int rank,
                         const int64_t *shape, struct dice *dice);

/* A tensor of the same shape and strides with the same bytes in a buffer of its own. */
void tensor_open_copy(struct fenced_tensor *copy, const struct fenced_tensor *tensor,
                      struct dice *dice);
void tensor_close(struct fenced_tensor *tensor);

/* All bytes are equal, those between the elements too; *where, unless NULL, is the first that is
   not. */
bool tensor_is_equal(const struct fenced_tensor *a, const struct fenced_tensor *b, int64_t *where);

/* ---- All tensors of a call; those of the list that are not open are not there ---- */

static inline bool tensor_is_open(const struct fenced_tensor *tensor) {
    return tensor->fence.pages != NULL;
}

/* Trap writes to all but `outputs`, bit i of which is tensor i; or allow them again. */
void tensors_protect(const struct fenced_tensor *tensors, int count, uint64_t outputs,
                     bool read_only);

/* No canary was overwritten; else which tensor's, and `words`. */
bool tensors_are_intact(const struct fenced_tensor *tensors, int count, const char *words);

/* Copies of all, in place of those there may be; their bytes back. */
void tensors_keep(struct fenced_tensor *copies, const struct fenced_tensor *tensors, int count,
                  struct dice *dice);
void tensors_restore(const struct fenced_tensor *tensors, const struct fenced_tensor *copies,
                     int count);

/* Intact, and all but outputs are as their copies. */
bool tensors_are_kept(const struct fenced_tensor *tensors, const struct fenced_tensor *copies,
                      int count, uint64_t outputs, const char *words);

void tensors_close(struct fenced_tensor *tensors, int count);

#endif
