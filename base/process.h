/* Runs another program and waits for it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_PROCESS_H
#define KVMILL_BASE_PROCESS_H

#include <sys/types.h>

#include "error.h"

enum { STANDARD_STREAMS = 3 };

/* Run arguments[0], found along PATH, with these standard streams; -1 leaves a stream as it is.
   status is that of waitpid.  EXIT_ENVIRONMENT if the program cannot be run; `needed` says what is
   needed. */
bool process_run(char *const *arguments, const int streams[STANDARD_STREAMS], const char *needed,
                 int *status, struct error *error);

/* The same for a program that starts others.  All are in one process group, which is ended when the
   program ends, after `seconds`, when a signal is noted (signals.h), and when this process ends,
   even by SIGKILL.  Only in these cases does the error say so. */
bool process_run_group(char *const *arguments, const int streams[STANDARD_STREAMS],
                       const char *needed, int seconds, int *status, struct error *error);

/* Wait for a child.  false: it still runs after `seconds`, or a signal is noted. */
bool process_wait(pid_t child, int seconds, int *status);

#endif
