/* What `make coverage` includes before each file of ours: a process that ends by _exit saves its
 * counts, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KVMILL_TESTS_COVERAGE_H
#define KVMILL_TESTS_COVERAGE_H

void __gcov_dump(void);
void kvmill_exit_of_libc(int status) __asm__("_exit") __attribute__((noreturn));
void kvmill_counted_exit(int status) __attribute__((noreturn, weak, visibility("hidden")));

void kvmill_counted_exit(int status) {
    __gcov_dump();
    kvmill_exit_of_libc(status);
}

#define _exit kvmill_counted_exit

#endif
