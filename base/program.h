/* Finds the other programs that the command needs, and reads their versions.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_PROGRAM_H
#define KVMILL_BASE_PROGRAM_H

#include "error.h"

/* The program that an environment variable names, or the usual one. */
const char *program_named(const char *variable, const char *usual);

/* The first line that a shell command prints; "unknown" where it prints none or fails.  false: it
   could not be asked, EXIT_ENVIRONMENT. */
enum { PROGRAM_SIZE = 128 };
bool program_words(const char *command, char words[PROGRAM_SIZE], struct error *error);

/* The version of the C compiler that packs are built with, CC or cc.  It is asked once. */
enum { COMPILER_SIZE = PROGRAM_SIZE };
bool compiler_words(char words[COMPILER_SIZE], struct error *error);

#endif
