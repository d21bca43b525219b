/* Running another program and waiting for it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_PROCESS_H
#define KVMILL_GEN_PROCESS_H

#include "error.h"

enum { STANDARD_STREAMS = 3 };

/* Run arguments[0], found along PATH, with these standard streams; -1 leaves one as it is.  status
   is what waitpid says.  EXIT_ENVIRONMENT where the program cannot be run: `needed` says what is.
 */
bool process_run(char *const *arguments, const int streams[STANDARD_STREAMS], const char *needed,
                 int *status, struct error *error);

#endif
