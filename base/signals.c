/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

static const int ending[ENDING_SIGNALS] = {SIGHUP, SIGINT, SIGTERM};

volatile sig_atomic_t signals_noted;

static void note(int number) {
    signals_noted = number;
}

void signals_note_one(int number) {
    const struct sigaction ours = {.sa_handler = note};
    sigaction(number, &ours, NULL);
}

void signals_note(struct signal_actions *before) {
    for (int i = 0; i < ENDING_SIGNALS; i++) {
        sigaction(ending[i], NULL, &before->of[i]);
        if (before->of[i].sa_handler != SIG_IGN)
            signals_note_one(ending[i]);
    }
}

void signals_obey(const struct signal_actions *before) {
    for (int i = 0; i < ENDING_SIGNALS; i++)
        sigaction(ending[i], &before->of[i], NULL);
    if (signals_noted)
        raise(signals_noted);
}
