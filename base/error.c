/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool fail(struct error *error, int exit_code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    error->exit_code = exit_code;
    error->status = 0;
    return false;
}

bool out_of_memory(struct error *error) {
    return fail(error, EXIT_ENVIRONMENT, "out of memory");
}

static const char *shown(const char *path) {
    return path[0] != '\0' ? path : "\"\"";
}

bool fail_errno(struct error *error, const char *what, const char *path) {
    return fail(error, EXIT_ENVIRONMENT, "%s: cannot %s: %s", shown(path), what, strerror(errno));
}

static bool is_of_system(int reason) {
    return reason == EMFILE || reason == ENFILE || reason == ENOMEM || reason == EIO;
}

bool fail_to_use(struct error *error, const char *what, const char *path) {
    int reason = errno;
    return fail(error, is_of_system(reason) ? EXIT_ENVIRONMENT : EXIT_USER, "%s: cannot %s: %s",
                shown(path), what, strerror(reason));
}

static int least(int a, int b, int c) {
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

enum { LONGEST_WORD = 64 };

/* Returns the Levenshtein distance of two words, or LONGEST_WORD if one of them is longer than
   that. */
static int edit_distance(const char *a, const char *b) {
    int row[LONGEST_WORD + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > LONGEST_WORD || n > LONGEST_WORD)
        return LONGEST_WORD;
    for (size_t j = 0; j <= n; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= m; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= n; j++) {
            int above = row[j];
            row[j] = least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n];
}

const char *nearest_word(const char *word, const char *const *candidates) {
    const char *nearest = NULL;
    int best = strlen(word) > LONGEST_WORD ? 0 : (int)strlen(word) / 2 + 1;
    for (; *candidates != NULL; candidates++) {
        int distance = edit_distance(word, *candidates);
        if (distance < best) {
            best = distance;
            nearest = *candidates;
        }
    }
    return nearest;
}

void suggest_word(const char *word, const char *const *candidates, char words[SUGGESTION_SIZE]) {
    const char *nearest = nearest_word(word, candidates);
    words[0] = '\0';
    if (nearest != NULL)
        snprintf(words, SUGGESTION_SIZE, "did you mean \"%.100s\"? ", nearest);
}
