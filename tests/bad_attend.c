/* SPDX-License-Identifier: Apache-2.0 */
#include "bad_attend.h"

static void attend_to_nothing(const void *problem, int64_t first, int64_t last) {
    const struct kvmill_attend *attend = problem;
    (void)first, (void)last;
    for (int64_t i = 0; attend->end && attend->partial == NULL && i < attend->rows; i++)
        memset(attend->row[i].output, 0, 64);
    for (int64_t i = 0; attend->partial != NULL && i < attend->rows * 34; i++)
        attend->partial[i] = 1;
}

static const struct kvmill_attend_shape half_attend = {.activation = KVMILL_F16,
                                                       .key = {KVMILL_F16, 32, 0, 0},
                                                       .value = {KVMILL_F16, 32, 0, 0},
                                                       .rows = 2,
                                                       .workspace = 64};
const struct kvmill_kernel bad_attend = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_ATTEND,
    .symbol = "bad__scalar_attend",
    .isa = "scalar",
    .shape = &half_attend,
    .run = attend_to_nothing,
};
