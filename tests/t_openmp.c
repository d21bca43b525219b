/* The header for OpenMP: what it refuses itself.

   SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include <kvmill_openmp.h>

#include "tap.h"

static bool refuses(int threads, const char *words) {
    kvmill_error error = {""};
    return kvmill_run_openmp(NULL, NULL, NULL, threads, &error) == KVMILL_E_ATTRIBUTE &&
           strcmp(error.message, words) == 0;
}

int main(void) {
    ok(refuses(0, "threads is 0; accepted: 1 or more"), "no threads");
    ok(refuses(-1, "threads is -1; accepted: 1 or more"), "fewer than none");
    ok(refuses(INT_MIN, "threads is -2147483648; accepted: 1 or more"), "the least integer");
    ok(kvmill_run_openmp(NULL, NULL, NULL, 0, NULL) == KVMILL_E_ATTRIBUTE, "without a message");
    ok(kvmill_run_openmp(NULL, NULL, NULL, 1, NULL) == KVMILL_E_NULL,
       "one thread: the plan is looked at");
    return done_testing();
}
