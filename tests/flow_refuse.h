/* A step of a flow that is good, to be bent: runs that are refused write nothing.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FLOW_REFUSE_H
#define KVMILL_TESTS_FLOW_REFUSE_H

#include "flow_step.h"

extern struct dice dice;
extern struct flow_step step;
extern const char *const step_names[FLOW_STEP_KINDS];

/* "query", ... "kmin". */
const char *name_of(int which);

/* Requests of 8, 3, 3 and 0 pages; window 0: none. */
void open_step(int64_t window);

/* Whether the run that step.given is for is refused so; what a test has changed in memory stays. */
bool is_refused(enum flow_step_kind kind, kvmill_status status, const char *what);
bool is_accepted(enum flow_step_kind kind);

/* A tensor that a test may bend. */
struct bent {
    DLTensor dl;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
};

/* The tensor of the next run as a copy that may be bent, of which there is one. */
struct bent *bend(int which);

/* Put a number; what was there.  With that number a run is refused, by the status of that name. */
int64_t put(int which, int64_t at, int64_t number);
void refuse_number(enum flow_step_kind kind, int which, int64_t at, int64_t number,
                   const char *status, const char *what);

/* tests/tables/flow_numbers.tsv and flow_sizes.tsv. */
void test_numbers(void);
void test_sizes(void);

#endif
