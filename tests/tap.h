/* The Test Anything Protocol: one line per test, and the plan after the last.  Includes the
   standard headers that tests use.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_TAP_H
#define KVMILL_TESTS_TAP_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reports one test; returns `passed`, so that diag() can explain a failure. */
__attribute__((format(printf, 2, 3))) bool ok(bool passed, const char *format, ...);

/* Prints a remark, "# ..." on a line of its own.  Returns false, the result of checks that fail:
   return good || diag ("why not"). */
__attribute__((format(printf, 1, 2))) bool diag(const char *format, ...);

/* Reports a test that cannot run here, and why. */
__attribute__((format(printf, 1, 2))) void skip_test(const char *format, ...);

/* Prints why the tests cannot go on, and exits. */
__attribute__((format(printf, 1, 2), noreturn)) void bail_out(const char *format, ...);

/* Bails out if something that the tests need failed. */
static inline void must(bool done, const char *why) {
    if (!done)
        bail_out("%s", why);
}

/* Variables that are released where their block ends.  OWN(text_free) struct text text: calls
   text_free (&text).  FREED char *text: calls free (text). */
#define OWN(release) __attribute__((cleanup(release)))
#define FREED        OWN(free_pointer)
static inline void free_pointer(void *variable) {
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    free(memory);
}

/* Prints the plan; returns the exit code of main.  A run without a test is a failure. */
int done_testing(void);

#endif
