/* How the generator and the tools report failure: a message for standard error and an exit code.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_ERROR_H
#define KVMILL_BASE_ERROR_H

#include <stdbool.h>

enum {
    EXIT_USER = 1,        /* the user's input */
    EXIT_ENVIRONMENT = 2, /* no compiler, no m4, disk full, not permitted */
    EXIT_BUG = 3
};

struct error {
    int exit_code;
    int status;      /* the kvmill_status of a check in ops/, or 0 */
    char text[1024]; /* "file:line:column: what is wrong; what is accepted" */
};

/* Fill error and return false, so that callers can `return fail (...)`. */
__attribute__((format(printf, 3, 4))) bool fail(struct error *error, int exit_code,
                                                const char *format, ...);

/* The same for a failed system call on `path`: EXIT_ENVIRONMENT, with the text of errno. */
bool fail_errno(struct error *error, const char *what, const char *path);

/* The same for a user's file that cannot be opened or read: EXIT_USER, unless the cause is not the
   name: too many open files, no memory, a failing disk. */
bool fail_to_use(struct error *error, const char *what, const char *path);

/* EXIT_ENVIRONMENT, for a failed malloc and the like. */
bool out_of_memory(struct error *error);

/* The candidate most similar to `word` (in a list that ends with NULL), or NULL if none is close.
 */
const char *nearest_word(const char *word, const char *const *candidates);

/* "did you mean \"candidate\"? " for messages, or "" if none is close. */
enum { SUGGESTION_SIZE = 128 };
void suggest_word(const char *word, const char *const *candidates, char words[SUGGESTION_SIZE]);

#endif
