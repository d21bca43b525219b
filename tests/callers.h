/* One good call of every plan function, by the struct it is handed: for tests that bend them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CALLERS_H
#define KVMILL_TESTS_CALLERS_H

#include "../defs/op.h"

/* What a call said. */
struct answer {
    kvmill_status status;
    kvmill_error error;
    char text[4096]; /* of the plan; or numbers of a layout */
};

/* A call that takes a struct with a struct_size; all else that it needs is as it should be. */
struct caller {
    const char *name;            /* the function, and which of its structs */
    const char *what;            /* the struct's name in messages */
    const struct op *op;         /* whose first struct it is, TensorScatter's where NULL; */
    const struct op_struct *own; /* else that struct */
    const void *good;
    void (*call)(const void *given, struct answer *answer);
    void (*init)(void *given, size_t size);
    kvmill_status (*plan)(const void *op, const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *error); /* where it is a plan function */
    bool may_be_null;
    bool is_result; /* the call fills it */
};

/* Up to one without a name. */
extern const struct caller callers[];

const struct op_struct *caller_part(const struct caller *caller);

/* Before anything else: what no initialiser can say. */
void callers_open(void);

extern kvmill_flow callers_flow;
extern kvmill_flow_limits callers_limits;

#endif
