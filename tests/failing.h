/* Calls of our code for memory and to the system, which the linker gives to this module
   (failures.wrap), and those of SQLite for memory: counts them, and makes one of them fail.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_FAILING_H
#define KVMILL_TESTS_FAILING_H

/* Calls that fail: of one kind at a time.  Interrupted calls fail with EINTR. */
enum kind { MEMORY, SYSTEM, INTERRUPT, KINDS };

extern const char *const kind_names[KINDS];
extern const int kind_reasons[KINDS]; /* errno */

/* What calls_stop returns. */
struct calls {
    long count;  /* of this kind, or of none for KINDS */
    long blocks; /* of memory that are left */
};

/* Begins: call `number` of this kind fails.  0: none fails, and the first call of each new way is
   noted; -1: none fails. */
void calls_start(enum kind kind, long number);
struct calls calls_stop(void);

/* The calls that the last run with number 0 noted. */
int calls_noted(const long **numbers);

/* Prints where the last call failed and what is left, as addr2line takes places. */
void calls_explain(void);

#endif
