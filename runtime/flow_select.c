/* Which pages of a row are selected: the first, the last, and the best between them.  One total
   order, score descending, then page ascending: so the set does not depend on how it is found.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"
#include "numbers.h"

/* Digits of a key, from the highest. */
enum { DIGIT_BITS = 8, DIGITS = 4, DIGIT_VALUES = 1 << DIGIT_BITS };

/* A number that is larger where the score is; both zeros are equal, NaN is -infinity. */
static uint32_t key_of(float score) {
    uint32_t bits = kvmill_bits_of_float(score == score ? score + 0.0f : -__builtin_inff());
    return bits >> 31 ? ~bits : bits | 1u << 31;
}

/* The least key that is selected, and how many of equal ones are. */
struct threshold {
    uint32_t key;
    int64_t equal;
};

/* The digit in which the wanted-th largest of the keys that begin with `prefix` lies; of those in
   it, `wanted` are left. */
static uint32_t find_digit(const float *score, int64_t count, int digit, uint32_t prefix,
                           int64_t *wanted) {
    int64_t counts[DIGIT_VALUES] = {0};
    int shift = (DIGITS - 1 - digit) * DIGIT_BITS;
    for (int64_t i = 0; i < count; i++) {
        uint32_t key = key_of(score[i]);
        if (digit == 0 || key >> shift >> DIGIT_BITS == prefix)
            counts[key >> shift & (DIGIT_VALUES - 1)]++;
    }
    uint32_t value = DIGIT_VALUES - 1;
    for (; value > 0 && counts[value] < *wanted; value--)
        *wanted -= counts[value];
    return value;
}

/* Of the wanted-th largest; 1 <= wanted <= count. */
static struct threshold find_threshold(const float *score, int64_t count, int64_t wanted) {
    uint32_t key = 0;
    for (int digit = 0; digit < DIGITS; digit++)
        key = key << DIGIT_BITS | find_digit(score, count, digit, key, &wanted);
    return (struct threshold){key, wanted};
}

/* The best `wanted` of [0, count), ascending. */
static void select_best(const float *score, int64_t count, int64_t wanted, int32_t *list) {
    struct threshold threshold = find_threshold(score, count, wanted);
    for (int64_t i = 0; i < count; i++) {
        uint32_t key = key_of(score[i]);
        bool taken = key > threshold.key || (key == threshold.key && threshold.equal > 0);
        threshold.equal -= key == threshold.key;
        if (taken)
            *list++ = (int32_t)i;
    }
}

/* ---- The best first ---- */

/* Whether page a comes behind page b. */
static bool is_behind(const float *score, int32_t a, int32_t b) {
    uint32_t first = key_of(score[a]), second = key_of(score[b]);
    return first < second || (first == second && a > b);
}

/* Let entry i of a heap sink to its place. */
static void sink(const float *score, int32_t *list, int64_t count, int64_t i) {
    for (int64_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && is_behind(score, list[child + 1], list[child]))
            child++;
        if (!is_behind(score, list[child], list[i]))
            return;
        int32_t entry = list[i];
        list[i] = list[child];
        list[child] = entry;
    }
}

/* Heapsort: the one that comes last is on top. */
static void sort_by_score(const float *score, int32_t *list, int64_t count) {
    for (int64_t i = count / 2; i > 0; i--)
        sink(score, list, count, i - 1);
    for (int64_t last = count - 1; last > 0; last--) {
        int32_t entry = list[0];
        list[0] = list[last];
        list[last] = entry;
        sink(score, list, last, 0);
    }
}

/* ---- Lists ---- */

static void list_run(int64_t first, int64_t count, int32_t *list) {
    for (int64_t i = 0; i < count; i++)
        list[i] = (int32_t)(first + i);
}

void kvmill_flow_list_all(const struct flow_row *row, int32_t *list) {
    list_run(0, row->pages, list);
}

void kvmill_flow_list(const struct kvmill_flow_problem *problem, const struct flow_row *row,
                      const float *score, int32_t *list) {
    int64_t bos = problem->budget.bos, eos = problem->budget.eos;
    int64_t wanted = row->selected - bos - eos;
    list_run(0, bos, list);
    if (wanted > 0)
        select_best(score, row->pages - bos - eos, wanted, list + bos);
    if (wanted > 0 && problem->by_score)
        sort_by_score(score, list + bos, wanted);
    for (int64_t i = 0; i < wanted; i++)
        list[bos + i] += (int32_t)bos;
    list_run(row->pages - eos, eos, list + bos + wanted);
}

void kvmill_flow_absolute(const int32_t *list, int64_t count, const int32_t *ids, int64_t kv_heads,
                          int64_t head, int32_t *absolute) {
    for (int64_t i = 0; i < count; i++)
        absolute[i] = (int32_t)(ids[list[i]] * kv_heads + head);
}
