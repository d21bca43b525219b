/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

enum { BATCH, TOKENS, POSITIONS, NUMBERS };

static const char *const names[NUMBERS] = {"BATCH", "TOKENS", "POSITIONS"};

/* Parses a number from 1 on, with at most nine digits. */
static bool take_count(const char **at, int64_t *count) {
    const char *first = *at;
    for (*count = 0; **at >= '0' && **at <= '9' && *at < first + 9; ++*at)
        *count = *count * 10 + (**at - '0');
    return *first != '0' && *at > first;
}

/* Parses the name of a number in a form.  Returns the number, or NUMBERS if there is no name. */
static int take_name(const char **form) {
    for (int i = 0; i < NUMBERS; i++)
        if (strncmp(*form, names[i], strlen(names[i])) == 0) {
            *form += strlen(names[i]);
            return i;
        }
    return NUMBERS;
}

static bool ends(const char *form) {
    return *form == '\0' || *form == ',';
}

static bool match(const char *form, const char *words, int64_t numbers[NUMBERS]) {
    while (!ends(form)) {
        int number = take_name(&form);
        if (number < NUMBERS ? !take_count(&words, &numbers[number]) : *form++ != *words++)
            return false;
    }
    return *words == '\0';
}

struct kvmill_call_size problem_sequence(const struct kvmill_call_size *batch, int64_t b) {
    int64_t part = batch->positions * (4 - b % 4) / 4;
    if (b == batch->batch - 1)
        return (struct kvmill_call_size){1, batch->tokens, batch->positions};
    return (struct kvmill_call_size){1, 1, part > 1 ? part : 1};
}

/* Returns the size by which a call describes a batch of mixed lengths: the mean. */
static struct kvmill_call_size mean_of(const struct kvmill_call_size *batch) {
    int64_t others = batch->batch - 1;
    struct kvmill_call_size sum = problem_sequence(batch, others);
    for (int64_t b = 0; b < 4 && b < others; b++) {
        int64_t alike = (others - b + 3) / 4;
        sum.tokens += alike;
        sum.positions += alike * problem_sequence(batch, b).positions;
    }
    return (struct kvmill_call_size){batch->batch, sum.tokens / batch->batch,
                                     sum.positions / batch->batch};
}

static bool is_mixed(const char *words) {
    static const char start[] = "batch of ";
    return strncmp(words, start, sizeof start - 1) == 0;
}

bool problem_parse(const char *words, struct kvmill_call_size *size) {
    for (const char *form = PROBLEM_FORMS; form != NULL; form = strchr(form, ',')) {
        int64_t numbers[NUMBERS] = {1, 1, 0};
        form += strspn(form, ", ");
        if (match(form, words, numbers)) {
            *size = (struct kvmill_call_size){numbers[BATCH], numbers[TOKENS], numbers[POSITIONS]};
            if (is_mixed(words))
                *size = mean_of(size);
            return true;
        }
    }
    return false;
}
