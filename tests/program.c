/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

static struct test *first, **last = &first;

void add_test(struct test *test) {
    *last = test;
    last = &test->next;
}

static bool is_wanted(const char *name, char **names) {
    bool wanted = *names == NULL;
    for (; *names != NULL; names++)
        wanted = wanted || strcmp(*names, name) == 0;
    return wanted;
}

__attribute__((weak)) void before_tests(void) {
}

/* ---- Kinds of cases ---- */

static struct {
    char name[64];
    int64_t count;
} kinds[64];

static int64_t *count_of(const char *kind) {
    size_t i = 0;
    while (kinds[i].name[0] != '\0' && strcmp(kinds[i].name, kind) != 0)
        must(++i < sizeof kinds / sizeof *kinds, "too many kinds of cases");
    snprintf(kinds[i].name, sizeof kinds[i].name, "%s", kind);
    return &kinds[i].count;
}

void saw(const char *kind, bool is_one) {
    *count_of(kind) += is_one;
}

int64_t times_seen(const char *kind) {
    return *count_of(kind);
}

void expect_seen(const char *list) {
    for (char kind[64]; *list != '\0'; list += strspn(list, "; ")) {
        size_t length = strcspn(list, ";");
        snprintf(kind, sizeof kind, "%.*s", (int)length, list);
        ok(times_seen(kind) > 0, "cases with %s: %" PRId64, kind, times_seen(kind));
        list += length;
    }
}

/* ---- All tests ---- */

int run_tests(char **names) {
    diag("KVMILL_SEED=%" PRIu64, dice_seed());
    before_tests();
    for (const struct test *test = first; test != NULL; test = test->next)
        if (is_wanted(test->name, names)) {
            diag("%s", test->name);
            test->run();
        }
    return done_testing();
}
