/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include "../../base/hash.h"
#include "../plans.h"
#include "fuzz.h"

extern const kvmill_pack kvmill_pack_kvmill_default, kvmill_pack_kvmill_test;

enum { MOST_WORKSPACE = 64 << 20 };

static uint64_t hash_memory(const struct call *call) {
    uint64_t hash = HASH_START;
    for (int i = 0; i < call->count; i++)
        hash = hash_bytes(hash, call->memory[i].fence.data, call->memory[i].fence.size);
    return hash;
}

static void require_reason(kvmill_status status, const kvmill_error *error) {
    fuzz_require(strncmp(kvmill_status_name(status), "KVMILL_E_", 9) == 0 &&
                     strlen(error->message) > 5,
                 "%s: \"%s\"", kvmill_status_name(status), error->message);
}

static kvmill_plan_options draw_options(struct dice *dice) {
    static const kvmill_pack *const packs[] = {&kvmill_pack_kvmill_default,
                                               &kvmill_pack_kvmill_test};
    static const char *const isas[] = {"scalar", "avx2", "avx512", "neon", "avx2", "avx"};
    kvmill_plan_options options = {.struct_size = sizeof options};
    options.packs = packs;
    options.pack_count = dice_once_in(dice, 8) ? 0 : 2;
    options.portable = dice_once_in(dice, 8);
    options.isa = dice_once_in(dice, 3) ? isas[dice_range(dice, 0, 5)] : NULL;
    options.threads = dice_once_in(dice, 4) ? (int)dice_range(dice, -1, 300) : 4;
    return options;
}

kvmill_plan *call_plan(const struct call *call) {
    kvmill_plan *plan = NULL;
    kvmill_error error;
    const kvmill_plan_options options = draw_options(call->dice);
    uint64_t hash = hash_memory(call);
    kvmill_status status = call->plan(call->context, &options, &plan, &error);
    fuzz_require(hash == hash_memory(call), "planning writes");
    if (status == KVMILL_OK)
        return plan;
    require_reason(status, &error);
    fuzz_require(plan == NULL, "a plan after %s", error.message);
    return NULL;
}

static void describe(const kvmill_plan *plan) {
    char text[512];
    size_t length = kvmill_plan_describe(plan, text, sizeof text);
    fuzz_require(length > 0 && (length >= sizeof text || strlen(text) == length),
                 "a description of %zu bytes", length);
}

void call_run(const struct call *call, const kvmill_plan *plan) {
    kvmill_error error;
    size_t size = kvmill_plan_workspace_size(plan);
    describe(plan);
    if (size > MOST_WORKSPACE)
        return;
    bool without = size > 0 && dice_once_in(call->dice, 16);
    FREED void *workspace = size > 0 ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
    fuzz_require(size == 0 || workspace != NULL, "no memory for the workspace");
    int threads = dice_once_in(call->dice, 2) ? 1 : 0; /* parts in any order, or all at once */
    uint64_t hash = hash_memory(call);
    kvmill_status status =
        run_in_parts(plan, call->tensors, without ? NULL : workspace, threads, call->dice, &error);
    if (status != KVMILL_OK) {
        require_reason(status, &error);
        fuzz_require(hash == hash_memory(call), "written in spite of %s", error.message);
    }
    fuzz_require(tensors_are_intact(call->memory, call->count, "of a call"),
                 "memory that is not its own");
}

int64_t bend_number(struct dice *dice) {
    static const int64_t ends[] = {INT64_MAX,     INT64_MIN, INT32_MAX,     INT32_MIN,
                                   1LL << 32,     1LL << 40, 1LL << 62,     -(1LL << 62),
                                   UINT32_MAX,    256,       INT64_MAX / 2, INT64_MIN + 1,
                                   INT64_MAX - 1, 65536,     -256};
    if (dice_range(dice, 0, 3) > 0)
        return dice_range(dice, -3, 12);
    return ends[dice_range(dice, 0, sizeof ends / sizeof *ends - 1)];
}

/* ---- The memory that a tensor describes ---- */

enum reach { INSIDE, OUTSIDE, ABSURD };

static const long double absurd = PTRDIFF_MAX; /* more bytes than exist */

static bool is_empty(const DLTensor *dl) {
    for (int d = 0; d < dl->ndim; d++)
        if (dl->shape[d] == 0)
            return true;
    return false;
}

/* Returns whether a tensor's elements are in `size` bytes; its lists must be readable.  Some ops
   take a byte for elements of fewer bits. */
static enum reach reach_of(const DLTensor *dl, size_t size) {
    long double low = 0, high = 0, dense = 1,
                bits = dl->dtype.bits < 8 ? 8 : dl->dtype.bits * dl->dtype.lanes;
    bool negative = false;
    for (int d = dl->ndim - 1; d >= 0; d--) {
        long double step = dl->strides != NULL ? dl->strides[d] : dense;
        long double way = (dl->shape[d] - (long double)1) * step;
        *(way < 0 ? &low : &high) += way;
        negative |= dl->shape[d] < 0;
        dense = dense > absurd ? dense : dense * dl->shape[d];
    }
    if (negative)
        return ABSURD;
    if (is_empty(dl))
        return INSIDE;
    long double first = low * bits / 8, last = (high + 1) * bits / 8, offset = dl->byte_offset;
    if (offset > absurd || last - first > absurd)
        return ABSURD;
    return offset + first >= 0 && offset + last <= (long double)size ? INSIDE : OUTSIDE;
}

/* ---- Bending ---- */

static void bend_type(DLTensor *dl, struct dice *dice) {
    static const uint8_t bits[] = {32, 16, 8, 64, 4, 1, 0, 128, 7};
    dl->dtype.code = (uint8_t)dice_range(dice, 0, 18);
    dl->dtype.bits = bits[dice_range(dice, 0, sizeof bits - 1)];
    dl->dtype.lanes = dice_once_in(dice, 8) ? (uint16_t)dice_range(dice, 0, 4) : 1;
}

static void bend_rank(DLTensor *dl, struct dice *dice) {
    static const int ranks[] = {-1, INT32_MIN, 1 << 30, 65};
    dl->ndim =
        dice_once_in(dice, 3) ? ranks[dice_range(dice, 0, 3)] : (int)dice_range(dice, 0, MOST_DIMS);
}

static void bend_strides(struct fenced_tensor *bent, struct dice *dice) {
    int64_t dense = 1;
    for (int d = bent->dl.ndim - 1; d >= 0; d--) {
        bent->strides[d] = dense;
        dense = (int64_t)((uint64_t)dense * (uint64_t)bent->shape[d]);
    }
    bent->dl.strides = bent->strides;
    if (bent->dl.ndim > 0 && dice_once_in(dice, 2))
        bent->strides[dice_range(dice, 0, bent->dl.ndim - 1)] = bend_number(dice);
}

static void bend_pointer(DLTensor *dl, struct dice *dice) {
    int64_t which = dice_range(dice, 0, 3);
    if (which == 0)
        dl->data = NULL;
    else if (which == 1)
        dl->shape = NULL;
    else if (which == 2)
        dl->device.device_type = (DLDeviceType)dice_range(dice, 0, 12);
    else
        dl->byte_offset = (uint64_t)bend_number(dice);
}

static void bend_once(struct fenced_tensor *bent, struct dice *dice) {
    DLTensor *dl = &bent->dl;
    int64_t which = dice_range(dice, 0, 5);
    if (which == 0)
        bend_type(dl, dice);
    else if (which == 1)
        bend_rank(dl, dice);
    else if (which == 4)
        bend_strides(bent, dice);
    else if (which == 5)
        bend_pointer(dl, dice);
    else if (dl->ndim > 0)
        bent->shape[dice_range(dice, 0, dl->ndim - 1)] = bend_number(dice);
}

static void copy(struct fenced_tensor *to, const struct fenced_tensor *from) {
    *to = *from;
    to->dl.shape = to->shape;
    to->dl.strides = from->dl.strides != NULL ? to->strides : NULL;
}

/* Sets unused dims to 1. */
static void complete(struct fenced_tensor *bent, int rank) {
    for (int d = rank; d < MOST_DIMS; d++)
        bent->shape[d] = bent->strides[d] = 1;
}

void bend_tensor(struct fenced_tensor *bent, const struct fenced_tensor *from, struct dice *dice) {
    copy(bent, from);
    complete(bent, from->dl.ndim);
    bend_once(bent, dice);
    bool readable = bent->dl.ndim >= 0 && bent->dl.ndim <= MOST_DIMS && bent->dl.shape != NULL;
    if (readable && dice_once_in(dice, 4))
        bend_once(bent, dice);
    readable = bent->dl.ndim >= 0 && bent->dl.ndim <= MOST_DIMS && bent->dl.shape != NULL;
    if (readable && bent->dl.data != NULL && reach_of(&bent->dl, from->fence.size) == OUTSIDE)
        copy(bent, from);
}

void bend_indices(const struct fenced_tensor *tensor, struct dice *dice) {
    size_t bytes = tensor->dl.dtype.bits / 8u;
    for (size_t n = (size_t)dice_range(dice, 1, 3); n > 0 && bytes > 0; n--) {
        int64_t count = (int64_t)(tensor->fence.size / bytes), value = bend_number(dice);
        if (count > 0)
            memcpy(tensor->fence.data +
                       bytes * (size_t)dice_range(dice, 0, count < 256 ? count - 1 : 255),
                   &value, bytes);
    }
}
