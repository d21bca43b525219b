/* Reports failures of the generator and the tools: a message for standard error, and an exit code.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_ERROR_H
#define KVMILL_BASE_ERROR_H

#include <stdbool.h>

enum {
    EXIT_USER = 1,        /* the user's input */
    EXIT_ENVIRONMENT = 2, /* the machine: no compiler, no m4, disk full, not permitted */
    EXIT_BUG = 3
};

struct error {
    int exit_code;
    int status;      /* the kvmill_status of a check in ops/, or 0 */
    char text[1024]; /* "file:line:column: what is wrong; what is accepted" */
};

/* Fills error and returns false, so that callers can `return fail (...)`. */
__attribute__((format(printf, 3, 4))) bool fail(struct error *error, int exit_code,
                                                const char *format, ...);

/* fail for a failed system call on `path`: EXIT_ENVIRONMENT, with the text of errno. */
bool fail_errno(struct error *error, const char *what, const char *path);

/* fail_errno for a user's file that cannot be opened or read: EXIT_USER, or EXIT_ENVIRONMENT if
   errno says that the machine is the cause (too many open files, no memory, a failing disk). */
bool fail_to_use(struct error *error, const char *what, const char *path);

/* fail for a failed malloc and similar functions: EXIT_ENVIRONMENT. */
bool out_of_memory(struct error *error);

/* Returns the candidate most similar to `word`, or NULL if none is close.  NULL ends the list. */
const char *nearest_word(const char *word, const char *const *candidates);

/* Writes "did you mean \"candidate\"? " for a message, or "" if no candidate is close. */
enum { SUGGESTION_SIZE = 128 };
void suggest_word(const char *word, const char *const *candidates, char words[SUGGESTION_SIZE]);

#endif
