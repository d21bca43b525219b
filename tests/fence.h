/* Memory for tests: buffers that end or begin at a page that traps, with canaries in the rest of
   their pages, and poison in bytes that were never written; tensors in these buffers; and random
   numbers.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FENCE_H
#define KVMILL_TESTS_FENCE_H

#include <stdbool.h>

#include <kvmill.h>

/* ---- Random numbers: the same sequence on every machine ---- */

struct dice {
    uint64_t state;
    const unsigned char *bytes; /* numbers come from these bytes while any are left */
    size_t left;
};

/* Returns the seed of this run: KVMILL_SEED, or a fixed one. */
uint64_t dice_seed(void);

/* Starts from the seed; `words` gives every test its own numbers. */
struct dice dice_for(const char *words);

/* Takes given numbers, two bytes each, which the caller keeps; after them, always the same
   numbers. */
struct dice dice_of_bytes(const unsigned char *bytes, size_t size);

uint64_t dice_bits(struct dice *dice);

/* Returns a number in [least, most]. */
int64_t dice_range(struct dice *dice, int64_t least, int64_t most);

/* Returns true once in `times`, on average. */
bool dice_once_in(struct dice *dice, int64_t times);

/* Sets `order` to the numbers 0 to count - 1 in random order. */
void dice_order(struct dice *dice, int64_t *order, int64_t count);

/* Whether the run is slow: KVMILL_TEST_SLOW=1, so only a few cases run.  2, as with valgrind, is
   slowest. */
bool is_slow_run(void);
bool is_slowest_run(void);

/* Returns how many of `cases` the slowest runs have time for: a third, at least one. */
int few_cases(int cases);

/* Returns `count` zeros and one more, for free(). */
void *take(int64_t count, size_t bytes);

/* ---- Fenced buffers ---- */

enum fence_side { FENCE_ABOVE, FENCE_BELOW };

enum { FENCE_FLUSH = -1 };

struct fence {
    unsigned char *data;
    size_t size;
    unsigned char *pages; /* memory that may be accessed: data with canaries around it */
    size_t pages_size;
};

/* Allocates `size` bytes of poison.  The page after the buffer (FENCE_ABOVE) or before it traps,
   and so does the page at the other end.  FENCE_FLUSH: data touches the fence, with any alignment;
   0 to 63: data begins at this address modulo 64, as close to the fence as possible. */
void fence_open(struct fence *fence, size_t size, int misalignment, enum fence_side side,
                struct dice *dice);
void fence_close(struct fence *fence);

/* Repeats the first `size` bytes to the end. */
void fence_repeat(const struct fence *fence, size_t size);

/* Traps writes, or allows them again. */
void fence_protect(const struct fence *fence, bool read_only);

/* Whether no canary was overwritten; otherwise *where, unless NULL, is the offset of the first one,
 * relative to data. */
bool fence_is_intact(const struct fence *fence, int64_t *where);

/* Says what the test is doing, if a trap ends it.  The text is read at that time. */
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

/* Like tensor_open, with data where fence_open puts it for this misalignment. */
void tensor_open_at(struct fenced_tensor *tensor, DLDataType dtype, int rank, const int64_t *shape,
                    const int64_t *strides, int misalignment, struct dice *dice);

/* Opens a row-major tensor, aligned to its elements; closes the tensor first if it is open. */
void tensor_open_aligned(struct fenced_tensor *tensor, DLDataType dtype, int rank,
                         const int64_t *shape, struct dice *dice);

/* Opens a tensor with the same shape, strides and bytes in a separate buffer. */
void tensor_open_copy(struct fenced_tensor *copy, const struct fenced_tensor *tensor,
                      struct dice *dice);
void tensor_close(struct fenced_tensor *tensor);

/* Whether all bytes are equal, including those between elements; *where, unless NULL, is the first
 * that differs. */
bool tensor_is_equal(const struct fenced_tensor *a, const struct fenced_tensor *b, int64_t *where);

/* ---- All tensors of a call; an entry that is not open is an absent tensor ---- */

static inline bool tensor_is_open(const struct fenced_tensor *tensor) {
    return tensor->fence.pages != NULL;
}

/* Traps writes to all tensors except `outputs`, in which bit i stands for tensor i; or allows them
   again. */
void tensors_protect(const struct fenced_tensor *tensors, int count, uint64_t outputs,
                     bool read_only);

/* Whether no canary was overwritten; otherwise prints the tensor and `words`. */
bool tensors_are_intact(const struct fenced_tensor *tensors, int count, const char *words);

/* Copy all tensors, replacing older copies; restore their bytes. */
void tensors_keep(struct fenced_tensor *copies, const struct fenced_tensor *tensors, int count,
                  struct dice *dice);
void tensors_restore(const struct fenced_tensor *tensors, const struct fenced_tensor *copies,
                     int count);

/* Whether they are intact, and all except `outputs` are equal to their copies. */
bool tensors_are_kept(const struct fenced_tensor *tensors, const struct fenced_tensor *copies,
                      int count, uint64_t outputs, const char *words);

void tensors_close(struct fenced_tensor *tensors, int count);

#endif
