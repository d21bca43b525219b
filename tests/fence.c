/* SPDX-License-Identifier: Apache-2.0 */
#include "fence.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"

/* ---- Random numbers ---- */

static const uint64_t default_seed = 20240824;

uint64_t dice_seed(void) {
    const char *text = getenv("KVMILL_SEED");
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : default_seed;
}

/* FNV-1a. */
struct dice dice_for(const char *words) {
    struct dice dice = {.state = dice_seed() ^ 0xcbf29ce484222325};
    for (; *words; words++)
        dice.state = (dice.state ^ (unsigned char)*words) * 0x100000001b3;
    return dice;
}

struct dice dice_of_bytes(const unsigned char *bytes, size_t size) {
    return (struct dice){.bytes = bytes, .left = size};
}

static uint64_t take_bytes(struct dice *dice) {
    uint64_t low = *dice->bytes++, high = --dice->left > 0 ? *dice->bytes++ : 0;
    dice->left -= dice->left > 0;
    return low | high << 8;
}

/* SplitMix64. */
uint64_t dice_bits(struct dice *dice) {
    if (dice->left > 0)
        return take_bytes(dice);
    uint64_t x = dice->state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

int64_t dice_range(struct dice *dice, int64_t least, int64_t most) {
    return least + (int64_t)(dice_bits(dice) % (uint64_t)(most - least + 1));
}

bool dice_once_in(struct dice *dice, int64_t times) {
    return dice_range(dice, 1, times) == 1;
}

void dice_order(struct dice *dice, int64_t *order, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t j = dice_range(dice, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
}

bool is_slow_run(void) {
    const char *text = getenv("KVMILL_TEST_SLOW");
    return text != NULL && (strcmp(text, "1") == 0 || strcmp(text, "2") == 0);
}

bool is_slowest_run(void) {
    return is_slow_run() && strcmp(getenv("KVMILL_TEST_SLOW"), "2") == 0;
}

int few_cases(int cases) {
    return is_slowest_run() ? (cases + 2) / 3 : cases;
}

void *take(int64_t count, size_t bytes) {
    void *memory = calloc((size_t)count + 1, bytes);
    must(memory != NULL, "out of memory");
    return memory;
}

/* ---- Fenced buffers ---- */

enum { CANARY = 0xc5 };

static size_t page_size(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Returns the bytes left between the buffer and its fence. */
static size_t slack_of(uintptr_t flush, int misalignment, enum fence_side side) {
    if (misalignment == FENCE_FLUSH)
        return 0;
    size_t wanted = (size_t)misalignment, have = flush % 64;
    return side == FENCE_ABOVE ? (have - wanted) % 64 : (wanted - have) % 64;
}

void fence_repeat(const struct fence *fence, size_t size) {
    for (size_t more; size > 0 && size < fence->size; size += more) {
        more = size < fence->size - size ? size : fence->size - size;
        memcpy(fence->data + size, fence->data, more);
    }
}

/* A prime, so that rows are equal only if a row has this length. */
enum { NOISE_PERIOD = 65537 };

/* Fills with noise, one multiplication for each word, and copies for workspaces of megabytes:
   filling is much of what tests write. */
static void fill_with_noise(const struct fence *fence, struct dice *dice) {
    uint64_t weyl = dice_bits(dice), bits = 0;
    size_t size = fence->size < NOISE_PERIOD ? fence->size : NOISE_PERIOD;
    size_t whole = size / sizeof bits * sizeof bits;
    for (size_t i = 0; i < whole; i += sizeof bits) {
        bits = (weyl += 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
        bits ^= bits >> 32;
        memcpy(fence->data + i, &bits, sizeof bits);
    }
    bits = dice_bits(dice);
    memcpy(fence->data + whole, &bits, size - whole);
    fence_repeat(fence, size);
}

static void unmap(unsigned char *pages, size_t size) {
    size_t page = page_size();
    if (size > 0)
        munmap(pages - page, size + 2 * page);
}

/* Keeps the pages of buffers that were closed last, with their pages that trap.  They trap, too,
   until they are used again.  Mapping new pages took a third of some programs' time. */
enum { MOST_KEPT = 64, MOST_KEPT_BYTES = 64 << 20 };
static _Thread_local struct {
    struct {
        unsigned char *pages;
        size_t size;
    } of[MOST_KEPT];
    int oldest;
    size_t bytes;
} kept;

static bool take_kept(struct fence *fence) {
    for (int i = 0; i < MOST_KEPT; i++)
        if (kept.of[i].size == fence->pages_size) {
            fence->pages = kept.of[i].pages;
            kept.of[i].size = 0;
            kept.bytes -= fence->pages_size;
            fence_protect(fence, false);
            return true;
        }
    return false;
}

static void drop_oldest(void) {
    int i = kept.oldest++ % MOST_KEPT;
    unmap(kept.of[i].pages, kept.of[i].size);
    kept.bytes -= kept.of[i].size;
    kept.of[i].size = 0;
}

static void keep(unsigned char *pages, size_t size) {
    if (size > MOST_KEPT_BYTES / 4 || mprotect(pages, size, PROT_NONE) != 0) {
        unmap(pages, size);
        return;
    }
    while (kept.bytes + size > MOST_KEPT_BYTES)
        drop_oldest();
    drop_oldest();
    int i = (kept.oldest + MOST_KEPT - 1) % MOST_KEPT;
    kept.of[i].pages = pages;
    kept.of[i].size = size;
    kept.bytes += size;
}

/* Maps pages, with one that traps on each side. */
static void map_pages(struct fence *fence, size_t size) {
    size_t page = page_size();
    fence->size = size;
    fence->pages_size = (size + 63 + page) / page * page;
    if (take_kept(fence))
        return;
    unsigned char *map = mmap(NULL, fence->pages_size + 2 * page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (map == MAP_FAILED || mprotect(map, page, PROT_NONE) != 0 ||
        mprotect(map + page + fence->pages_size, page, PROT_NONE) != 0)
        bail_out("no memory for a buffer of %zu bytes", size);
    fence->pages = map + page;
}

/* Opens a buffer with canaries around the bytes that the caller fills. */
static void open_blank(struct fence *fence, size_t size, int misalignment, enum fence_side side) {
    map_pages(fence, size);
    unsigned char *flush =
        side == FENCE_ABOVE ? fence->pages + fence->pages_size - size : fence->pages;
    size_t slack = slack_of((uintptr_t)flush, misalignment, side);
    fence->data = side == FENCE_ABOVE ? flush - slack : flush + slack;
    size_t before = (size_t)(fence->data - fence->pages);
    memset(fence->pages, CANARY, before);
    memset(fence->data + size, CANARY, fence->pages_size - before - size);
}

void fence_open(struct fence *fence, size_t size, int misalignment, enum fence_side side,
                struct dice *dice) {
    open_blank(fence, size, misalignment, side);
    fill_with_noise(fence, dice);
}

void fence_close(struct fence *fence) {
    if (fence->pages != NULL)
        keep(fence->pages, fence->pages_size);
    *fence = (struct fence){0};
}

void fence_protect(const struct fence *fence, bool read_only) {
    int protection = PROT_READ | (read_only ? 0 : PROT_WRITE);
    if (mprotect(fence->pages, fence->pages_size, protection) != 0)
        bail_out("cannot protect a buffer of %zu bytes", fence->size);
}

static bool are_canaries(const struct fence *fence, const unsigned char *from,
                         const unsigned char *to, int64_t *where) {
    while (from < to && *from == CANARY)
        from++;
    if (where != NULL)
        *where = from - fence->data;
    return from == to;
}

bool fence_is_intact(const struct fence *fence, int64_t *where) {
    return are_canaries(fence, fence->pages, fence->data, where) &&
           are_canaries(fence, fence->data + fence->size, fence->pages + fence->pages_size, where);
}

/* ---- Traps ---- */

static const char *trap_text;

/* Ends the run, with only what a signal handler may do. */
static void on_trap(int number) {
    static const char start[] = "Bail out! memory was touched that is not the problem's: ";
    ssize_t ignored = write(STDOUT_FILENO, start, sizeof start - 1);
    ignored = write(STDOUT_FILENO, trap_text, strlen(trap_text));
    ignored = write(STDOUT_FILENO, "\n", 1);
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

void fence_explain_traps(const char *text) {
    trap_text = text;
    signal(SIGSEGV, on_trap);
    signal(SIGBUS, on_trap);
}

/* ---- Tensors ---- */

struct reach {
    int64_t lowest, highest; /* elements, from element 0 */
    bool empty;
};

static struct reach reach_of(int rank, const int64_t *shape, const int64_t *strides) {
    struct reach reach = {0};
    for (int d = 0; d < rank; d++)
        reach.empty |= shape[d] == 0;
    for (int d = 0; d < rank; d++) {
        int64_t step = reach.empty ? 0 : (shape[d] - 1) * strides[d];
        *(step < 0 ? &reach.lowest : &reach.highest) += step;
    }
    return reach.empty ? (struct reach){.highest = -1, .empty = true} : reach;
}

static void set_dims(struct fenced_tensor *tensor, int rank, const int64_t *shape,
                     const int64_t *strides) {
    uint64_t dense = 1; /* unsigned: it may overflow if another dim is 0 */
    for (int d = rank - 1; d >= 0; d--) {
        tensor->shape[d] = shape[d];
        tensor->strides[d] = strides != NULL ? strides[d] : (int64_t)dense;
        dense *= (uint64_t)shape[d];
    }
    tensor->dl.ndim = rank;
    tensor->dl.shape = tensor->shape;
    tensor->dl.strides = strides != NULL ? tensor->strides : NULL;
}

static size_t bytes_of(DLDataType dtype, int64_t count) {
    return ((size_t)count * dtype.bits * dtype.lanes + 7) / 8;
}

static int random_misalignment(struct dice *dice) {
    return dice_once_in(dice, 2) ? FENCE_FLUSH : (int)dice_range(dice, 0, 63);
}

/* Opens a tensor whose elements are not set yet. */
static void open_blank_tensor(struct fenced_tensor *tensor, DLDataType dtype, int rank,
                              const int64_t *shape, const int64_t *strides, int misalignment,
                              struct dice *dice) {
    *tensor = (struct fenced_tensor){.dl = {.device = {kDLCPU, 0}, .dtype = dtype}};
    set_dims(tensor, rank, shape, strides);
    struct reach reach = reach_of(rank, tensor->shape, tensor->strides);
    enum fence_side side = dice_once_in(dice, 3) ? FENCE_BELOW : FENCE_ABOVE;
    open_blank(&tensor->fence, bytes_of(dtype, reach.highest - reach.lowest + 1), misalignment,
               side);
    tensor->dl.data = tensor->fence.data;
    tensor->dl.byte_offset = bytes_of(dtype, -reach.lowest);
}

void tensor_open_at(struct fenced_tensor *tensor, DLDataType dtype, int rank, const int64_t *shape,
                    const int64_t *strides, int misalignment, struct dice *dice) {
    open_blank_tensor(tensor, dtype, rank, shape, strides, misalignment, dice);
    fill_with_noise(&tensor->fence, dice);
}

void tensor_open(struct fenced_tensor *tensor, DLDataType dtype, int rank, const int64_t *shape,
                 const int64_t *strides, struct dice *dice) {
    tensor_open_at(tensor, dtype, rank, shape, strides, random_misalignment(dice), dice);
}

void tensor_open_aligned(struct fenced_tensor *tensor, DLDataType dtype, int rank,
                         const int64_t *shape, struct dice *dice) {
    do {
        tensor_close(tensor);
        tensor_open(tensor, dtype, rank, shape, NULL, dice);
    } while ((uintptr_t)tensor->dl.data % bytes_of(dtype, 1) != 0);
}

void tensor_open_copy(struct fenced_tensor *copy, const struct fenced_tensor *tensor,
                      struct dice *dice) {
    open_blank_tensor(copy, tensor->dl.dtype, tensor->dl.ndim, tensor->shape, tensor->dl.strides,
                      random_misalignment(dice), dice);
    memcpy(copy->fence.data, tensor->fence.data, tensor->fence.size);
}

void tensor_close(struct fenced_tensor *tensor) {
    fence_close(&tensor->fence);
}

bool tensor_is_equal(const struct fenced_tensor *a, const struct fenced_tensor *b, int64_t *where) {
    if (memcmp(a->fence.data, b->fence.data, a->fence.size) == 0)
        return true;
    size_t first = 0;
    while (a->fence.data[first] == b->fence.data[first])
        first++;
    if (where != NULL)
        *where = (int64_t)first;
    return false;
}

/* ---- All tensors of a call ---- */

void tensors_protect(const struct fenced_tensor *tensors, int count, uint64_t outputs,
                     bool read_only) {
    for (int i = 0; i < count; i++)
        if (tensor_is_open(&tensors[i]) && !(outputs >> i & 1))
            fence_protect(&tensors[i].fence, read_only);
}

bool tensors_are_intact(const struct fenced_tensor *tensors, int count, const char *words) {
    int64_t where;
    for (int i = 0; i < count; i++)
        if (tensor_is_open(&tensors[i]) && !fence_is_intact(&tensors[i].fence, &where))
            return diag("byte %" PRId64 " is outside of tensor %d, but was written; %s", where, i,
                        words);
    return true;
}

void tensors_keep(struct fenced_tensor *copies, const struct fenced_tensor *tensors, int count,
                  struct dice *dice) {
    tensors_close(copies, count);
    for (int i = 0; i < count; i++)
        if (tensor_is_open(&tensors[i]))
            tensor_open_copy(&copies[i], &tensors[i], dice);
}

void tensors_restore(const struct fenced_tensor *tensors, const struct fenced_tensor *copies,
                     int count) {
    for (int i = 0; i < count; i++)
        if (tensor_is_open(&copies[i]))
            memcpy(tensors[i].fence.data, copies[i].fence.data, copies[i].fence.size);
}

bool tensors_are_kept(const struct fenced_tensor *tensors, const struct fenced_tensor *copies,
                      int count, uint64_t outputs, const char *words) {
    int64_t where;
    for (int i = 0; i < count; i++)
        if (tensor_is_open(&copies[i]) && !(outputs >> i & 1) &&
            !tensor_is_equal(&tensors[i], &copies[i], &where))
            return diag("byte %" PRId64 " of tensor %d is another; %s", where, i, words);
    return tensors_are_intact(tensors, count, words);
}

void tensors_close(struct fenced_tensor *tensors, int count) {
    for (int i = 0; i < count; i++)
        tensor_close(&tensors[i]);
}
