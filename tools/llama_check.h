/* Tries in a process of its own whether a ggml can use the adapter.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_LLAMA_CHECK_H
#define KVMILL_TOOLS_LLAMA_CHECK_H

#include "llama_program.h"

struct llama_check {
    char version[64];   /* of ggml; "" if it does not say */
    bool is_loaded;     /* ggml itself */
    bool loads_plugins; /* whether it loads backends when it starts, such as GGML_BACKEND_PATH */
    bool is_used;       /* whether it can use the adapter */
    char reason[512];   /* why not */
};

/* Loads program->ggml and the adapter, as the program would.  Fails only if that cannot be tried.
 */
bool llama_check(const struct llama_program *program, const char *adapter,
                 struct llama_check *check, struct error *error);

#endif
