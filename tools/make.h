/* Running make.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MAKE_H
#define KVMILL_TOOLS_MAKE_H

#include "options.h"

/* Options of all commands that compile. */
#define COMPILE_OPTIONS                                                                            \
    { "compile-timeout", "SECONDS", "time limit for a compiler, 1 to 1000000 (default 3600)", NULL }

/* Take the option: it holds for every run_make. */
bool make_read_options(const struct options *given, struct error *error);

/* What is run, with so many jobs. */
enum { MAKE_JOBS = 2 };
const char *make_program(void);

/* make -C directory; its output goes to `log` (NULL: standard error). */
bool run_make(const char *directory, const char *log, struct error *error);

/* The same for one of its files. */
bool make_target(const char *directory, const char *target, const char *log, struct error *error);

#endif
