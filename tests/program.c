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
