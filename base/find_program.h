/* Finds the other programs that the command needs, and reads their versions.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_FIND_PROGRAM_H
#define KVMILL_BASE_FIND_PROGRAM_H

#include "error.h"

/* Returns the program that the environment variable names, or `usual`. */
const char *program_named(const char *variable, const char *usual);

/* Returns the Python that runs: KVMILL_PYTHON, or python3. */
const char *python_program(void);

/* Reads the first line that a shell command prints, or "unknown" if it prints nothing or fails.
   Returns false, with EXIT_ENVIRONMENT, if the command could not be run. */
enum { PROGRAM_SIZE = 128 };
bool program_words(const char *command, char words[PROGRAM_SIZE], struct error *error);

/* Reads the version of the C compiler that builds packs, CC or cc.  Runs the compiler only once. */
enum { COMPILER_SIZE = PROGRAM_SIZE };
bool compiler_words(char words[COMPILER_SIZE], struct error *error);

#endif
