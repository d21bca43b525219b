/* SPDX-License-Identifier: Apache-2.0 */
#include "turns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "../base/timer.h"

/* The two bytes of the file that are locked.  A process that wants ROOM locks GATE until it has it,
   so that no other process can get ahead of one that waits to be alone. */
enum { GATE, ROOM };

bool turns_open(struct turns *turns, const char *directory, struct error *error) {
    char path[4096];
    snprintf(path, sizeof path, "%s/kvmill-turns", directory);
    turns->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return turns->file >= 0 || fail_errno(error, "open", path);
}

void turns_close(struct turns *turns) {
    close(turns->file);
}

/* Locks or unlocks a byte.  Returns false, with errno, if another process has the lock, or after an
   error. */
static bool lock(const struct turns *turns, int byte, short type) {
    const struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(turns->file, F_OFD_SETLK, &lock) == 0;
}

static void tick(const struct turns *turns) {
    if (turns->tick != NULL)
        turns->tick(turns->context);
}

/* Waits for a lock.  Returns true if it is locked, or if the run is interrupted. */
static bool wait_for(struct turns *turns, int byte, short type) {
    const struct timespec pause = {.tv_nsec = 5000000};
    double begin = timer_now();
    while (!lock(turns, byte, type)) {
        if (errno != EAGAIN && errno != EACCES)
            return false;
        if (*turns->interrupted != 0)
            break;
        tick(turns);
        nanosleep(&pause, NULL);
    }
    turns->waited += timer_now() - begin;
    return true;
}

bool turns_take(struct turns *turns, enum turn turn, struct error *error) {
    if (turns == NULL)
        return true;
    tick(turns);
    bool done = lock(turns, ROOM, F_UNLCK);
    if (turn != TURN_NONE)
        done = done && wait_for(turns, GATE, F_WRLCK) &&
               wait_for(turns, ROOM, turn == TURN_ALONE ? F_WRLCK : F_RDLCK) &&
               lock(turns, GATE, F_UNLCK);
    return done || fail_errno(error, "lock", "the file of turns");
}
