/* Coordinates the processes of a machine.  Several may do shared work at a time; exclusive work
   runs only while all others wait.  A process that waits for exclusive work goes before those that
   come later.

   The locks are file locks of the operating system, on the file "kvmill-turns" in a directory.  The
   system releases them when the process that has them ends, in whatever way.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TURNS_H
#define KVMILL_TOOLS_TURNS_H

#include <signal.h>

#include "../base/error.h"

enum turn { TURN_NONE, TURN_TOGETHER, TURN_ALONE };

struct turns {
    int file;
    double waited;                            /* seconds spent waiting */
    const volatile sig_atomic_t *interrupted; /* not zero: stop waiting */
    void (*tick)(void *context); /* called by each turns_take, and often while it waits; or NULL */
    void *context;
};

bool turns_open(struct turns *turns, const char *directory, struct error *error);
void turns_close(struct turns *turns);

/* Ends the current turn, then waits for another.  If turns is NULL, returns at once. */
bool turns_take(struct turns *turns, enum turn turn, struct error *error);

#endif
