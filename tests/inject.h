/* Which calls to make fail, and what memory is left: shared by inject.c and failing.c.

   A way to a call is the call with its callers; the first call of each is noted.  For one thread at
   a time.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_INJECT_H
#define KVMILL_TESTS_INJECT_H

#include <execinfo.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static _Thread_local bool inside; /* a call that the counting program makes itself */

/* ---- Ways to calls ---- */

enum { MOST_PLACES = 1 << 14, MOST_FRAMES = 48 };

static int way_length = MOST_FRAMES; /* callers beyond are the same way */
static uint64_t way_start = 1;       /* ways of another kind of failure are others */
static uint64_t ways[MOST_PLACES];
static long places[MOST_PLACES], place_count; /* of one thread: the first time nothing fails */

static uint64_t hash_way(void) {
    void *frames[MOST_FRAMES];
    inside = true;
    int count = backtrace(frames, way_length);
    inside = false;
    uint64_t hash = way_start;
    for (int i = 0; i < count; i++)
        hash = (hash ^ (uintptr_t)frames[i]) * 0x9e3779b97f4a7c15;
    return hash | 1;
}

static void note_place(long number) {
    uint64_t way = hash_way();
    size_t at = way >> 50;
    while (ways[at] != 0 && ways[at] != way)
        at = (at + 1) % MOST_PLACES;
    if (ways[at] == 0 && place_count < MOST_PLACES / 2) {
        ways[at] = way;
        places[place_count++] = number;
    }
}

/* ---- Blocks of memory that are in use ---- */

enum { MOST_BLOCKS = 1 << 16 };

static struct block {
    void *data;
    const void *caller;
} blocks[MOST_BLOCKS];
static long block_count;

/* Returns the block's place, or the empty place where it would be. */
static struct block *block_at(const void *data) {
    size_t at = (uintptr_t)data / 16 * 0x9e3779b97f4a7c15 >> 48;
    while (blocks[at].data != NULL && blocks[at].data != data)
        at = (at + 1) % MOST_BLOCKS;
    return &blocks[at];
}

/* Removes a block.  Blocks after it that collide move to the empty place, so that they are
   found. */
static void remove_block(struct block *place) {
    size_t at = (size_t)(place - blocks);
    block_count--;
    place->data = NULL;
    while (blocks[at = (at + 1) % MOST_BLOCKS].data != NULL) {
        const struct block moved = blocks[at];
        blocks[at].data = NULL;
        *block_at(moved.data) = moved;
    }
}

static void add_block(void *data, const void *caller) {
    if (block_count < MOST_BLOCKS / 2) {
        *block_at(data) = (struct block){data, caller};
        block_count++;
    }
}

static void forget_block(const void *data) {
    struct block *place = block_at(data);
    if (data != NULL && place->data != NULL)
        remove_block(place);
}

#endif
