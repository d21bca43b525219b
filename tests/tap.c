/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include <stdarg.h>

static int tests, failures;

/* Prints one line on standard output and flushes it, so that a crash loses nothing. */
static void say(const char *start, const char *format, va_list arguments) {
    fputs(start, stdout);
    vprintf(format, arguments);
    putchar('\n');
    fflush(stdout);
}

bool ok(bool passed, const char *format, ...) {
    char start[32];
    va_list arguments;
    tests++;
    failures += !passed;
    snprintf(start, sizeof start, "%sok %d - ", passed ? "" : "not ", tests);
    va_start(arguments, format);
    say(start, format, arguments);
    va_end(arguments);
    if (!passed && getenv("KVMILL_TEST_STOP") != NULL)
        exit(1);
    return passed;
}

bool diag(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("# ", format, arguments);
    va_end(arguments);
    return false;
}

void skip_test(const char *format, ...) {
    char start[32];
    va_list arguments;
    snprintf(start, sizeof start, "ok %d # SKIP ", ++tests);
    va_start(arguments, format);
    say(start, format, arguments);
    va_end(arguments);
}

void bail_out(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say("Bail out! ", format, arguments);
    va_end(arguments);
    exit(1);
}

int done_testing(void) {
    if (tests == 0)
        diag("no test ran");
    if (failures > 0)
        diag("%d of %d tests failed", failures, tests);
    printf("1..%d\n", tests);
    fflush(stdout);
    return failures > 0 || tests == 0;
}
