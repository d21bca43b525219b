/* Turns of the processes of one machine: some work may be done by several at a time, some only
   while all others rest.  Who waits to be alone is let in before those that come later.

   The locks are of the kernel's, on the file "kvmill-turns" of a directory, and end with who holds
   them, however that ends.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TURNS_H
#define KVMILL_TOOLS_TURNS_H

#include <signal.h>

#include "../base/error.h"

enum turn { TURN_NONE, TURN_TOGETHER, TURN_ALONE };

struct turns {
    int file;
    double waited;                            /* seconds, so far */
    const volatile sig_atomic_t *interrupted; /* not zero: wait no longer */
    void (*tick)(void *context); /* called by every turns_take, and often while it waits; or NULL */
    void *context;
};

bool turns_open(struct turns *turns, const char *directory, struct error *error);
void turns_close(struct turns *turns);

/* Give back the turn there was, then wait for another.  Without turns (NULL) every turn is there at
   once. */
bool turns_take(struct turns *turns, enum turn turn, struct error *error);

#endif
