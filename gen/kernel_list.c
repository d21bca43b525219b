/* Lists of kernels without duplicates.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static bool kernels_equal(const struct kernel *a, const struct kernel *b) {
    return a->family == b->family && a->isa == b->isa && a->variant == b->variant &&
           memcmp(a->value, b->value, sizeof a->value) == 0 && strcmp(a->tuning, b->tuning) == 0;
}

/* The kernels' index follows them in the same memory: twice as many slots as there is room for
   kernels.  A slot has 1 + a position, or 0.  The room is the next power of two from the count
   on. */
enum { LEAST_ROOM = 16 };

static size_t room_for(size_t count) {
    size_t room = LEAST_ROOM;
    while (room < count)
        room *= 2;
    return room;
}

static uint64_t mix(uint64_t state, uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15;
    return state ^ state >> 32;
}

static uint64_t hash(const struct kernel *kernel) {
    uint64_t state = mix((uintptr_t)kernel->family, (uintptr_t)kernel->isa);
    state = mix(state, (uintptr_t)kernel->variant);
    for (int i = 0; i < MOST_FIELDS; i++)
        state = mix(state, (uint64_t)kernel->value[i]);
    for (const char *c = kernel->tuning; *c != '\0'; c++)
        state = mix(state, (unsigned char)*c);
    return state;
}

/* Returns the slot of an equal kernel, or the free slot for the kernel. */
static uint32_t *find_slot(const struct kernel *items, size_t room, const struct kernel *kernel) {
    uint32_t *slots = (uint32_t *)(items + room);
    size_t at = hash(kernel) % (2 * room);
    while (slots[at] != 0 && !kernels_equal(&items[slots[at] - 1], kernel))
        at = (at + 1) % (2 * room);
    return &slots[at];
}

static struct kernel *grow(const struct kernel_list *list, size_t room) {
    struct kernel *items = calloc(1, room * (sizeof *items + 2 * sizeof(uint32_t)));
    for (size_t i = 0; items != NULL && i < list->count; i++) {
        items[i] = list->items[i];
        *find_slot(items, room, &items[i]) = (uint32_t)i + 1;
    }
    return items;
}

static bool make_room(struct kernel_list *list, size_t room, struct error *error) {
    if (list->items != NULL && room == room_for(list->count))
        return true;
    struct kernel *items = grow(list, room);
    if (items == NULL)
        return out_of_memory(error);
    free(list->items);
    list->items = items;
    return true;
}

bool kernel_list_add(struct kernel_list *list, const struct kernel *kernel, struct error *error) {
    size_t room = room_for(list->count + 1);
    if (list->items != NULL && *find_slot(list->items, room_for(list->count), kernel) != 0)
        return true;
    if (!make_room(list, room, error))
        return false;
    list->items[list->count++] = *kernel;
    *find_slot(list->items, room, kernel) = (uint32_t)list->count;
    return true;
}

void kernel_list_free(struct kernel_list *list) {
    free(list->items);
    *list = (struct kernel_list){0};
}
