/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"
#include "text.h"

enum { MOST_SECONDS = 60 };

/* CC may have arguments: only a shell knows where they begin. */
static bool ask(const char *compiler, int answer, int nothing) {
    const int streams[STANDARD_STREAMS] = {nothing, answer, nothing};
    struct text command = {0};
    struct error ignored;
    int status = 1;
    if (!text_print(&command, "LC_ALL=C; export LC_ALL; %s --version", compiler))
        return false;
    char *arguments[] = {"sh", "-c", command.data, NULL};
    bool done = process_run_group(arguments, streams, "a shell", MOST_SECONDS, &status, &ignored);
    text_free(&command);
    return done && status == 0;
}

static void read_words(const char *compiler, char words[COMPILER_SIZE]) {
    int answer = memfd_create("kvmill-compiler", MFD_CLOEXEC);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    ssize_t length = 0;
    if (answer >= 0 && nothing >= 0 && ask(compiler, answer, nothing))
        length = pread(answer, words, COMPILER_SIZE - 1, 0);
    words[length > 0 ? length : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    if (*words == '\0')
        strcpy(words, "unknown");
    if (answer >= 0)
        close(answer);
    if (nothing >= 0)
        close(nothing);
}

void compiler_words(char words[COMPILER_SIZE]) {
    static char known[COMPILER_SIZE];
    const char *compiler = getenv("CC");
    if (*known == '\0')
        read_words(compiler != NULL && *compiler != '\0' ? compiler : "cc", known);
    strcpy(words, known);
}
