/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

enum { BATCH, TOKENS, POSITIONS, NUMBERS };

static const char *const names[NUMBERS] = {"BATCH", "TOKENS", "POSITIONS"};

/* From 1 on, of at most nine digits. */
static bool take_count(const char **at, int64_t *count) {
    const char *first = *at;
    for (*count = 0; **at >= '0' && **at <= '9' && *at < first + 9; ++*at)
        *count = *count * 10 + (**at - '0');
    return *first != '0' && *at > first;
}

/* The number whose name a form has there, which is passed; NUMBERS: none. */
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

bool problem_parse(const char *words, struct kvmill_call_size *size) {
    for (const char *form = PROBLEM_FORMS; form != NULL; form = strchr(form, ',')) {
        int64_t numbers[NUMBERS] = {1, 1, 0};
        form += strspn(form, ", ");
        if (match(form, words, numbers)) {
            *size = (struct kvmill_call_size){numbers[BATCH], numbers[TOKENS], numbers[POSITIONS]};
            return true;
        }
    }
    return false;
}
