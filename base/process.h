/* Runs another program and waits for it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_PROCESS_H
#define KVMILL_BASE_PROCESS_H

#include <sys/types.h>

#include "error.h"

enum { STANDARD_STREAMS = 3 };

/* Runs arguments[0], found in PATH, with these standard streams; -1 leaves a stream as it is.
   `status` is waitpid's.  EXIT_ENVIRONMENT if the program cannot be run; the message names
   `needed`. */
bool process_run(char *const *arguments, const int streams[STANDARD_STREAMS], const char *needed,
                 int *status, struct error *error);

/* process_run for a program that starts other processes.  All are in one process group.  It is
   ended when the program ends, after `seconds`, when a signal is noted (signals.h), and when this
   process ends, even by SIGKILL.  The message names a timeout or a signal only if that was the
   cause. */
bool process_run_group(char *const *arguments, const int streams[STANDARD_STREAMS],
                       const char *needed, int seconds, int *status, struct error *error);

/* Waits for a child.  Returns false if it still runs after `seconds`, or if a signal is noted. */
bool process_wait(pid_t child, int seconds, int *status);

#endif
