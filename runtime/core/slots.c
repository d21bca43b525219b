/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include <sched.h>
#include <stdatomic.h>

static atomic_flag *flag_of(const struct thread_slots *slots, int i) {
    return (atomic_flag *)(void *)(slots->first + slots->size * i);
}

void kvmill_clear_slots(const struct thread_slots *slots) {
    for (int i = 0; i < slots->count; i++)
        atomic_flag_clear_explicit(flag_of(slots, i), memory_order_relaxed);
}

unsigned char *kvmill_acquire_slot(const struct thread_slots *slots) {
    for (;;) {
        for (int i = 0; i < slots->count; i++)
            if (!atomic_flag_test_and_set_explicit(flag_of(slots, i), memory_order_acquire))
                return slots->first + slots->size * i;
        sched_yield();
    }
}

void kvmill_release_slot(unsigned char *slot) {
    atomic_flag_clear_explicit((atomic_flag *)(void *)slot, memory_order_release);
}
