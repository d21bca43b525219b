/* SELECT_PAGES for every shape: finds the key of the last selected page digit by digit, then
   selects all pages above it, and of pages with an equal key the first ones.

   SPDX-License-Identifier: Apache-2.0 */
#include "portable.h"
#include "score_key.h"

/* Digits of a key, from the highest. */
enum { DIGIT_BITS = 8, DIGITS = 4, DIGIT_VALUES = 1 << DIGIT_BITS };

/* The least key that is selected, and how many pages with this key are. */
struct threshold {
    uint32_t key;
    int64_t equal;
};

/* Find the digit of the wanted-th largest of the keys that begin with `prefix`; `wanted` becomes
   the rank among keys with this digit. */
static uint32_t find_digit(const int32_t *keys, int64_t count, int digit, uint32_t prefix,
                           int64_t *wanted) {
    int64_t counts[DIGIT_VALUES] = {0};
    int shift = (DIGITS - 1 - digit) * DIGIT_BITS;
    for (int64_t i = 0; i < count; i++) {
        uint32_t key = (uint32_t)keys[i];
        if (digit == 0 || key >> shift >> DIGIT_BITS == prefix)
            counts[key >> shift & (DIGIT_VALUES - 1)]++;
    }
    uint32_t value = DIGIT_VALUES - 1;
    for (; value > 0 && counts[value] < *wanted; value--)
        *wanted -= counts[value];
    return value;
}

/* The key of the wanted-th largest score; 1 <= wanted <= count. */
static struct threshold find_threshold(const int32_t *keys, int64_t count, int64_t wanted) {
    uint32_t key = 0;
    for (int digit = 0; digit < DIGITS; digit++)
        key = key << DIGIT_BITS | find_digit(keys, count, digit, key, &wanted);
    return (struct threshold){key, wanted};
}

static void run_select(const void *pointer, int64_t first, int64_t last) {
    const struct kvmill_select_pages *problem = pointer;
    int32_t *list = problem->list;
    if (first == last || problem->wanted == 0)
        return;
    for (int64_t i = 0; i < problem->count; i++)
        problem->keys[i] = (int32_t)kvmill_score_key(problem->score[i]);
    struct threshold threshold = find_threshold(problem->keys, problem->count, problem->wanted);
    for (int64_t i = 0; i < problem->count; i++) {
        uint32_t key = (uint32_t)problem->keys[i];
        bool taken = key > threshold.key || (key == threshold.key && threshold.equal > 0);
        threshold.equal -= key == threshold.key;
        if (taken)
            *list++ = (int32_t)i;
    }
}

const struct kvmill_kernel kvmill_portable_select_pages = {
    .abi = KVMILL_KERNEL_ABI,
    .family = KVMILL_SELECT_PAGES,
    .symbol = "kvmill_select_pages__portable",
    .isa = "portable",
    .run = run_select,
};
