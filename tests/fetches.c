/* Does a kernel that attends fetch each line of keys and of values once, into the cache that the
   problem names?  fetches.test compiles this with a generated kernel: SOURCE is its file, SYMBOL
   its name, KEY_BYTES and VALUE_BYTES are the bytes of a row.

   SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

static void fetched(const void *address, int locality);
#define __builtin_prefetch(ADDRESS, WRITES, LOCALITY) fetched(ADDRESS, LOCALITY)
#include SOURCE

enum { POSITIONS = 512, PAGE = 16, AHEAD = 128, LINE = 64, STRIDE = 2048, SCALES = 64 };

/* How often each line of a row was fetched. */
static struct side {
    int times[POSITIONS][STRIDE / LINE];
    int bytes;
} sides[] = {{.bytes = KEY_BYTES}, {.bytes = VALUE_BYTES}};

static unsigned char *memory[2]; /* of keys, of values */

/* A bit for each locality of a fetch: 3 is the first cache, 2 the second. */
static int localities;

static void fetched(const void *address, int locality) {
    for (int i = 0; i < 2; i++) {
        size_t at = (size_t)((const unsigned char *)address - memory[i]);
        if (at >= (size_t)POSITIONS * STRIDE)
            continue;
        sides[i].times[at / STRIDE][at % STRIDE / LINE]++;
        localities |= 1 << locality;
    }
}

/* The first rows were fetched by the call before.  At the end the last row stands for those that do
 * not exist. */
static int is_fetched_once(const struct side *side, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++)
        for (int line = 0; line < STRIDE / LINE; line++)
            if (side->times[row][line] != (line * LINE < side->bytes)) {
                printf("row %d, line %d: %d times\n", (int)row, line, side->times[row][line]);
                return 0;
            }
    return 1;
}

static void attend(const struct kvmill_extent *extents, int into_l2) {
    const struct kvmill_attend_shape *shape = SYMBOL.shape;
    unsigned char *query = calloc(POSITIONS, STRIDE), *scales = calloc(POSITIONS, SCALES);
    struct kvmill_query_row row[128];
    for (int r = 0; r < shape->rows; r++)
        row[r] = (struct kvmill_query_row){
            .query = query, .output = query + STRIDE, .last = POSITIONS, .sink = -INFINITY};
    struct kvmill_attend problem = {
        .shape = shape,
        .row = row,
        .rows = shape->rows,
        .key = memory[0],
        .value = memory[1],
        .key_scale = scales,
        .value_scale = scales,
        .key_stride = STRIDE,
        .value_stride = STRIDE,
        .key_scale_stride = SCALES,
        .value_scale_stride = SCALES,
        .extent = extents,
        .count = POSITIONS,
        .scale = 1,
        .begin = 1,
        .end = 1,
        .into_l2 = into_l2,
        .workspace = aligned_alloc(64, (size_t)(shape->workspace + 63) / 64 * 64)};
    SYMBOL.run(&problem, 0, 1);
    free(problem.workspace);
    free(query);
    free(scales);
}

/* Codes are always fetched into the first cache. */
static int is_fetched_into(int into_l2) {
    const struct kvmill_attend_shape *shape = SYMBOL.shape;
    int key = shape->key.element;
    bool is_float = key == KVMILL_F32 || key == KVMILL_F16 || key == KVMILL_BF16;
    if (localities == 1 << (is_float && into_l2 ? 2 : 3))
        return 1;
    printf("with into_l2 %d: localities %#x\n", into_l2, (unsigned)localities);
    return 0;
}

int main(void) {
    const struct kvmill_extent one[] = {{0, POSITIONS}, {0, 0}};
    int right = 1;
    for (int i = 0; i < 2; i++)
        memory[i] = calloc(POSITIONS, STRIDE);
    for (int into_l2 = 0; into_l2 < 2; into_l2++) {
        memset(sides[0].times, 0, sizeof sides[0].times);
        memset(sides[1].times, 0, sizeof sides[1].times);
        localities = 0;
        attend(one, into_l2);
        right = right && is_fetched_once(&sides[0], AHEAD, POSITIONS - 1) &&
                is_fetched_once(&sides[1], AHEAD, POSITIONS - 1) && is_fetched_into(into_l2);
    }
    return !right;
}
