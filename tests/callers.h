/* One valid call of every plan function, by the struct that it takes, for tests that change the
   struct.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CALLERS_H
#define KVMILL_TESTS_CALLERS_H

#include "../defs/op.h"

/* The result of a call. */
struct answer {
    kvmill_status status;
    kvmill_error error;
    char text[4096]; /* of the plan; or numbers of a layout */
};

/* A call that takes a struct with a struct_size.  All its other arguments are valid. */
struct caller {
    const char *name;            /* the function, and which of its structs */
    const char *what;            /* the struct's name in messages */
    const struct op *op;         /* the struct is its first; NULL: TensorScatter; */
    const struct op_struct *own; /* or this is the struct, unless NULL */
    const void *good;
    void (*call)(const void *given, struct answer *answer);
    void (*init)(void *given, size_t size);
    kvmill_status (*plan)(const void *op, const kvmill_plan_options *options, kvmill_plan **plan,
                          kvmill_error *error); /* for plan functions */
    bool may_be_null;
    bool is_result; /* the call fills it */
};

/* The list ends with an entry without a name. */
extern const struct caller callers[];

const struct op_struct *caller_part(const struct caller *caller);

/* Called before everything else: sets what initialisers cannot express. */
void callers_open(void);

extern kvmill_flow callers_flow;
extern kvmill_flow_limits callers_limits;

#endif
