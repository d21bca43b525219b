/* Tries in a process of its own whether a ggml can use the adapter, and how fast both are.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_LLAMA_CHECK_H
#define KVMILL_TOOLS_LLAMA_CHECK_H

#include "../runtime/core/calibration.h"
#include "llama_program.h"

/* How many times as fast the adapter is with the first accepted values of a number, up to the one
   that is taken. */
struct llama_gains {
    double of[MOST_ACCEPTED];
    int count;
};

struct llama_check {
    char version[64];   /* of ggml; "" if it does not say */
    bool is_loaded;     /* ggml itself */
    bool loads_plugins; /* whether it loads backends when it starts, such as GGML_BACKEND_PATH */
    bool is_used;       /* whether it can use the adapter */
    char reason[512];   /* why not */
    struct llama_gains
        gains[CALIBRATION_NUMBERS]; /* by llama_measure; of numbers of kernels: none */
};

/* Loads program->ggml and the adapter, as the program would.  Fails only if that cannot be tried.
 */
bool llama_check(const struct llama_program *program, const char *adapter,
                 struct llama_check *check, struct error *error);

/* The same; and if the adapter can be used, measures those numbers of a calibration that depend on
   ggml, which takes up to a minute.  The least value with which the adapter is not slower is the
   number, or the largest value if there is none. */
bool llama_measure(const struct llama_program *program, const char *adapter,
                   struct llama_check *check, struct error *error);

#endif
