/* Fields of a flow that lie beside each other, for tests that keep them apart: before a run they go
   into one piece of fenced memory, of which the run sees views, and then back.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_BESIDE_H
#define KVMILL_TESTS_FLOW_BESIDE_H

#include <kvmill.h>

#include "fence.h"

enum { MOST_BESIDE = 32 }; /* as many as a flow may have */

struct flow_beside {
    int count; /* 0: they stay apart */
    struct fence piece;
    DLTensor view[MOST_BESIDE], apart[MOST_BESIDE];
    int64_t dims[MOST_BESIDE][4], strides[MOST_BESIDE][4];
};

/* Views in place of the fields in `list`, which are dense, where `layout` says so and all are
   there. */
void flow_beside_open(struct flow_beside *beside, const char *layout, const DLTensor **list,
                      int fields, struct dice *dice);

/* Take what a run left back into the fields that are apart; false: it wrote outside of the piece. */
bool flow_beside_read(const struct flow_beside *beside);

/* The same, and no more. */
bool flow_beside_close(struct flow_beside *beside);

#endif
