/* Checks a flow: shared by the checks of its declarations (flow_check.c) and of its programs
   (flow_program.c).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_FLOW_CHECK_H
#define KVMILL_OPS_FLOW_CHECK_H

#include "fail.h"
#include "flow.h"

struct checker {
    const kvmill_flow *flow;
    struct kvmill_flow_problem *problem;
    struct kvmill_flow_place *place;
    kvmill_error *error;
    const char *names[KVMILL_MOST_FLOW_VALUES]; /* of the values of the current program */
    bool written[KVMILL_MOST_FLOW_FIELDS];      /* by the cache program, so far */
    int writer[KVMILL_MOST_FLOW_FIELDS];        /* the op that wrote it, enum kvmill_flow_code */
};

/* Set what following messages are about. */
static inline void set_place(struct checker *checker, const char *list, int number) {
    *checker->place = (struct kvmill_flow_place){list, number};
}

#define REFUSE(CHECKER, STATUS, ...) kvmill_fail((CHECKER)->error, KVMILL_E_##STATUS, __VA_ARGS__)

/* "q", "k" or "v". */
bool kvmill_flow_is_reserved(const char *name);

/* Check a name, which becomes a word of generated text. */
kvmill_status kvmill_flow_check_name(const struct checker *checker, const char *name);

/* Check that dims are positive, and elements are not too many. */
kvmill_status kvmill_flow_check_dims(struct checker *checker, int64_t rows, int64_t columns);

/* The number of the field with this name; -1: none. */
int kvmill_flow_find_field(const kvmill_flow *flow, const char *name);

/* Check that a step of the cache program may write rows of K or V with this shape. */
kvmill_status kvmill_flow_check_rows(struct checker *checker, const struct kvmill_flow_step *step,
                                     const struct kvmill_flow_shape *shape);

/* Check the type of a field with scales; and the scales, once all fields are known. */
kvmill_status kvmill_flow_check_codes(struct checker *checker, int i);
kvmill_status kvmill_flow_check_scales(struct checker *checker);

/* Check that fields can be arranged as problem->field_layout says; compute where each begins. */
kvmill_status kvmill_flow_check_fields_layout(struct checker *checker);

/* Check both programs, and find parts of the flow that they do not use. */
kvmill_status kvmill_flow_check_programs(struct checker *checker);

#endif
