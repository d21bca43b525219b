/* Kernels copy long runs from one place, from several in turn, and through the caches.  The library
   chooses by size and processor, so this test calls all kinds on any size.  Tests every kernel of
   the linked packs that keeps rows of whole bytes.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "packs.h"

/* Not a multiple of 4, so that some pages are left when four are copied at a time. */
enum { ROWS = 100, LEAST_ROW = 200, MOST_ROW = 420, SLOTS_WRITTEN = 3 };

/* Copies all slots except those of new rows, which must stay unchanged. */
static bool copies(const struct kvmill_kernel *kernel, int64_t stream, struct dice *dice) {
    int64_t row = dice_range(dice, LEAST_ROW, MOST_ROW), where;
    kvmill_index start = dice_range(dice, 0, ROWS - SLOTS_WRITTEN);
    OWN(fence_close) struct fence past, present;
    fence_open(&past, (size_t)(ROWS * row), FENCE_FLUSH, FENCE_ABOVE, dice);
    fence_open(&present, (size_t)(ROWS * row), FENCE_FLUSH, FENCE_ABOVE, dice);
    for (size_t i = 0; i < past.size; i++)
        past.data[i] = (unsigned char)dice_bits(dice);
    FREED unsigned char *want = malloc(present.size);
    int64_t before = start * row, after = (start + SLOTS_WRITTEN) * row;
    memcpy(want, present.data, present.size);
    memcpy(want, past.data, (size_t)before);
    memcpy(want + after, past.data + after, past.size - (size_t)after);
    const struct kvmill_rows problem = {.past = past.data,
                                        .present = present.data,
                                        .starts = &start,
                                        .batch = 1,
                                        .heads = 1,
                                        .capacity = ROWS,
                                        .rows = SLOTS_WRITTEN,
                                        .row = row,
                                        .past_stride = {0, 0, row},
                                        .present_stride = {0, 0, row},
                                        .chunks = 1,
                                        .stream_keep = stream};
    kernel->run(&problem, 0, 1);
    return memcmp(want, present.data, present.size) == 0 && fence_is_intact(&present, &where);
}

static bool is_right(const struct kvmill_kernel *kernel, struct dice *dice) {
    fence_explain_traps(kernel->symbol);
    for (int i = 0; i < 4; i++)
        for (int64_t stream = 0; stream <= 4; stream += stream + 1)
            if (!copies(kernel, stream, dice))
                return false;
    return true;
}

static bool keeps_bytes(const struct kvmill_kernel *kernel) {
    const struct kvmill_rows_shape *shape = kernel->shape;
    return kernel->family == KVMILL_KEEP_ROWS && shape->unit_bits == 8 &&
           isa_is_allowed(kernel->isa);
}

TEST(copies) {
    const struct kvmill_kernel *kernel;
    for (uint32_t i = 0; (kernel = kernel_at(i)) != NULL; i++)
        if (keeps_bytes(kernel)) {
            struct dice dice = dice_for_kernel(kernel);
            ok(is_right(kernel, &dice), "%s copies by any number of places", kernel->symbol);
        }
}
