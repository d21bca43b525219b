/* Signals that must not interrupt at any time.  They are blocked during steps that must be
   completed, or recorded while a step can still be undone.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_SIGNALS_H
#define KVMILL_BASE_SIGNALS_H

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

/* The last signal that asked this process to end while they were noted; 0: none did. */
extern volatile sig_atomic_t signals_noted;

enum { ENDING_SIGNALS = 3 };

struct signal_actions {
    struct sigaction of[ENDING_SIGNALS];
};

/* Note SIGHUP, SIGINT and SIGTERM, unless they are ignored, until signals_obey, which lets a noted
   one do what it would have done.  May be nested. */
void signals_note(struct signal_actions *before);
void signals_obey(const struct signal_actions *before);

/* Note that one from now on, even if it was ignored. */
void signals_note_one(int number);

#endif
