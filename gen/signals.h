/* Steps that must not be left half-done: signals wait until they are over.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SIGNALS_H
#define KVMILL_GEN_SIGNALS_H

#include <signal.h>

/* May be nested. */
static inline sigset_t signals_hold(void) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    return before;
}

static inline void signals_release(sigset_t before) {
    sigprocmask(SIG_SETMASK, &before, NULL);
}

#endif
