/* Runs make.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MAKE_H
#define KVMILL_TOOLS_MAKE_H

#include "options.h"

/* The options of all commands that compile. */
#define COMPILE_OPTIONS                                                                            \
    { "compile-timeout", "SECONDS", "time limit for a compiler, 1 to 1000000 (default 3600)", NULL }

/* Reads the option, which applies to every run_make. */
bool make_read_options(const struct options *given, struct error *error);

/* The make program, and how many jobs it runs at a time. */
enum { MAKE_JOBS = 2 };
const char *make_program(void);

/* Runs make -C directory.  Its output goes to `log`, or to standard error if that is NULL. */
bool run_make(const char *directory, const char *log, struct error *error);

/* run_make for one target, for at most so many seconds; NULL is the default target. */
bool make_target(const char *directory, const char *target, const char *log, double seconds,
                 struct error *error);

#endif
