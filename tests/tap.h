/* The Test Anything Protocol: one line per test, the plan after the last; and the headers of C that
   tests use.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_TAP_H
#define KVMILL_TESTS_TAP_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Report one test; returns passed, so that a failure can be explained with diag(). */
__attribute__((format(printf, 2, 3))) bool ok(bool passed, const char *format, ...);

/* A remark: "# ..." on a line of its own. */
__attribute__((format(printf, 1, 2))) void diag(const char *format, ...);

/* Report a test that cannot run here, and why. */
__attribute__((format(printf, 1, 2))) void skip_test(const char *format, ...);

/* Nothing that follows can work: say why and exit. */
__attribute__((format(printf, 1, 2), noreturn)) void bail_out(const char *format, ...);

/* The same if something that was needed failed. */
static inline void must(bool done, const char *why) {
    if (!done)
        bail_out("%s", why);
}

/* Print the plan; returns the exit code of main.  A run without a test is a failure. */
int done_testing(void);

#endif
