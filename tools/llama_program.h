/* A program of llama.cpp, before it is run: can another library get into it?

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_LLAMA_PROGRAM_H
#define KVMILL_TOOLS_LLAMA_PROGRAM_H

#include <limits.h>

#include "../base/error.h"

struct llama_program {
    char path[PATH_MAX];
    char ggml[PATH_MAX]; /* the library that has ggml's functions; "" if none is loaded at start */
};

/* Finds a program as a shell does, or a library by its path.  Fails if nothing can be preloaded
   into it: not an executable for this processor, linked statically, setuid. */
bool llama_program_find(const char *name, struct llama_program *program, struct error *error);

/* Finds the ggml that the program, or library, loads when it starts.  Fails if ggml is a part of
   the program. */
bool llama_program_ggml(struct llama_program *program, struct error *error);

/* Finds the library of the adapter.  Fails if it is not there or its path cannot be preloaded. */
bool llama_adapter_find(const char *name, char path[PATH_MAX], struct error *error);

#endif
