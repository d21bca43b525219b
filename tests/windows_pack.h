/* Random gathers and kernels made for them: one run of a test tells their specs, a later one, from
   the same seed, takes the pack that was made of these.  tests/windows.test says so by the
   environment.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WINDOWS_PACK_H
#define KVMILL_TESTS_WINDOWS_PACK_H

#include <kvmill.h>

/* Cases of a kind, KVMILL_WINDOWS_CASES; or `usual`. */
int windows_cases(int usual);

/* Write the spec to the file KVMILL_WINDOWS_SPECS, if there is to be one. */
void windows_tell_gather(const kvmill_gather *op);

/* Plan with the pack KVMILL_WINDOWS_PACK, a library's path or "linked", if there is one; else NULL.
 */
const kvmill_plan_options *windows_options(void);

/* The pack of that name in a library. */
const kvmill_pack *loaded_pack(const char *path, const char *name);

/* Remember the pack's kernel that the plan takes, if any; how many plans took one. */
void windows_count(const kvmill_plan *plan);
int64_t windows_counted(void);

/* One test: the pack's kernels for the best instruction set that is allowed have all been taken. */
void windows_test_all_taken(void);

#endif
