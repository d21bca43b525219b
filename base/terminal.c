/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

static bool has_colours(FILE *stream) {
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return (none == NULL || *none == '\0') && terminal != NULL && strcmp(terminal, "dumb") != 0 &&
           isatty(fileno(stream));
}

void put_coloured(const char *text, enum colour colour, FILE *stream) {
    static const char *const codes[] = {
        [PLAIN] = "", [BOLD] = "\x1b[1m", [RED] = "\x1b[1;31m", [YELLOW] = "\x1b[33m"};
    bool coloured = colour != PLAIN && has_colours(stream);
    if (coloured)
        fputs(codes[colour], stream);
    put_shown(text, stream);
    if (coloured)
        fputs("\x1b[m", stream);
}

static void put_word(const char *word) {
    static const char plain[] =
        "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+,=:@%";
    if (*word != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, stderr);
        return;
    }
    print_shown(stderr, "'");
    for (const char *quote; (quote = strchr(word, '\'')) != NULL; word = quote + 1)
        print_shown(stderr, "%.*s'\\''", (int)(quote - word), word);
    print_shown(stderr, "%s'", word);
}

void say_next(const char *before, const char *path, const char *after) {
    if (!isatty(STDERR_FILENO) || !isatty(STDOUT_FILENO))
        return;
    fflush(stdout);
    put_coloured("next:", BOLD, stderr);
    print_shown(stderr, " %s ", before);
    put_word(path);
    print_shown(stderr, "%s\n", after);
}

void say_doing(const char *doing, const char *what) {
    if (!isatty(STDERR_FILENO))
        return;
    fflush(stdout);
    print_shown(stderr, "%s %s ... ", doing, what);
    fflush(stderr);
}

void say_done(void) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%72s\r", "");
}
