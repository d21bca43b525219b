/* Test programs, which use libtest's main.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_PROGRAM_H
#define KVMILL_TESTS_PROGRAM_H

#include "fence.h"
#include "tap.h"

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};
void add_test(struct test *test);

/* TEST(NAME) { ... } defines a test of its program.  Tests run in the order of the file: all, or
   those named on the command line. */
#define TEST(NAME)                                                                                 \
    static void test_##NAME(void);                                                                 \
    __attribute__((constructor)) static void add_##NAME(void) {                                    \
        static struct test test = {#NAME, test_##NAME, NULL};                                      \
        add_test(&test);                                                                           \
    }                                                                                              \
    static void test_##NAME(void)

/* Defines the random numbers of a program. */
#define DICE(WORDS)                                                                                \
    static struct dice dice;                                                                       \
    __attribute__((constructor)) static void take_dice(void) {                                     \
        dice = dice_for(WORDS);                                                                    \
    }                                                                                              \
    _Static_assert(true, "")

/* Counts a case of this kind if it is one.  expect_seen tests that each of the kinds, which are
   separated by "; ", has occurred; times_seen returns how often. */
void saw(const char *kind, bool is_one);
void expect_seen(const char *kinds);
int64_t times_seen(const char *kind);

/* Runs before the first test, if the program defines it. */
void before_tests(void);

/* Runs the tests, for programs with a main of their own; returns its exit code. */
int run_tests(char **names);

#endif
