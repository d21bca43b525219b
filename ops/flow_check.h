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
    const char *names[KVMILL_MOST_FLOW_VALUES]; /* of the values of the program at hand */
    bool written[KVMILL_MOST_FLOW_FIELDS];      /* by the cache program, so far */
    int writer[KVMILL_MOST_FLOW_FIELDS];        /* enum kvmill_flow_code of the op that wrote it */
};

/* What messages are about from now on. */
static inline void stand_at(struct checker *checker, const char *list, int number) {
    *checker->place = (struct kvmill_flow_place){list, number};
}

#define REFUSE(CHECKER, STATUS, ...) kvmill_fail((CHECKER)->error, KVMILL_E_##STATUS, __VA_ARGS__)

/* "q", "k" or "v". */
bool kvmill_flow_is_reserved(const char *name);

/* Names become words of generated text. */
kvmill_status kvmill_flow_check_name(const struct checker *checker, const char *name);

/* Positive, and not too many elements. */
kvmill_status kvmill_flow_check_dims(struct checker *checker, int64_t rows, int64_t columns);

/* Number of the field of that name; -1: none. */
int kvmill_flow_find_field(const kvmill_flow *flow, const char *name);

/* Rows of K or V that a step of the cache program writes, of such a shape. */
kvmill_status kvmill_flow_check_rows(struct checker *checker, const struct kvmill_flow_step *step,
                                     const struct kvmill_flow_shape *shape);

/* The type of a field that has scales; what scales there are, once all fields are known. */
kvmill_status kvmill_flow_check_codes(struct checker *checker, int i);
kvmill_status kvmill_flow_check_scales(struct checker *checker);

/* Whether fields can lie as problem->field_layout says; where each begins. */
kvmill_status kvmill_flow_check_fields_layout(struct checker *checker);

/* Both programs, and what of the flow they do not use. */
kvmill_status kvmill_flow_check_programs(struct checker *checker);

#endif
