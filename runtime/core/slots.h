/* Slots in a workspace, one for each thread that runs parts.  A part takes a slot that no other
   part uses.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_SLOTS_H
#define KVMILL_RUNTIME_CORE_SLOTS_H

#include <stdint.h>

/* A slot begins with a cache line for the flag that says whether it is taken. */
enum { SLOT_HEAD = 64 };

struct thread_slots {
    unsigned char *first;
    int64_t size; /* of a slot, a multiple of 64 */
    int count;
};

static inline int64_t whole_lines(int64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Mark all slots as free, before the first part. */
void kvmill_clear_slots(const struct thread_slots *slots);

/* Acquire a free slot, waiting if more threads run than there are slots, and release it. */
unsigned char *kvmill_acquire_slot(const struct thread_slots *slots);
void kvmill_release_slot(unsigned char *slot);

#endif
