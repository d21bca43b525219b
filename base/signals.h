/* Keeps signals from interrupting at the wrong time.  They are blocked during steps that must be
   completed, or noted during steps that can still be undone.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_SIGNALS_H
#define KVMILL_BASE_SIGNALS_H

#include <signal.h>

/* Blocks signals.  Calls can be nested. */
static inline sigset_t signals_hold(void) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    return before;
}

static inline void signals_release(sigset_t before) {
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* The last signal that asked this process to end while signals were noted, or 0. */
extern volatile sig_atomic_t signals_noted;

enum { ENDING_SIGNALS = 3 };

struct signal_actions {
    struct sigaction of[ENDING_SIGNALS];
};

/* Notes SIGHUP, SIGINT and SIGTERM, unless they are ignored, until signals_obey, which then lets a
   noted signal take effect.  Calls can be nested. */
void signals_note(struct signal_actions *before);
void signals_obey(const struct signal_actions *before);

/* Notes signal `number` from now on, even if it was ignored. */
void signals_note_one(int number);

#endif
