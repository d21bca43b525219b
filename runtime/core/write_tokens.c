/* SPDX-License-Identifier: Apache-2.0 */
#include "write_tokens.h"

enum { MOST_ROWS = 256 }; /* in one call of a kernel */

/* The rows of consecutive tokens from `first` on, up to one that is not stored. */
static int64_t find_rows(row_of_token row_of, const void *context, int64_t first, int64_t last,
                         int64_t row[MOST_ROWS]) {
    int64_t count = 0;
    while (count < MOST_ROWS && first + count < last &&
           (row[count] = row_of(context, first + count)) >= 0)
        count++;
    return count;
}

void kvmill_write_tokens(const struct kvmill_kernel *kernel, const struct kvmill_convert *problem,
                         row_of_token row_of, const void *context, int64_t first, int64_t last) {
    int64_t row[MOST_ROWS];
    struct kvmill_convert some = *problem;
    some.slot = row;
    while (first < last) {
        int64_t count = find_rows(row_of, context, first, last, row);
        some.activation = problem->activation + first * problem->token_stride;
        if (count > 0)
            kernel->run(&some, 0, count);
        first += count < MOST_ROWS ? count + 1 : count;
    }
}
