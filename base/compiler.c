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

/* CC may have arguments: only a shell knows where they begin.  It exits with 127 where there is no
   such compiler, which would be said of the shell. */
static bool ask(const char *compiler, int answer, int nothing, struct error *error) {
    const int streams[STANDARD_STREAMS] = {nothing, answer, nothing};
    struct text command = {0};
    int status;
    if (!text_print(&command, "LC_ALL=C; export LC_ALL; %s --version || exit 1", compiler))
        return out_of_memory(error);
    char *arguments[] = {"sh", "-c", command.data, NULL};
    bool done = process_run_group(arguments, streams, "a shell", MOST_SECONDS, &status, error);
    text_free(&command);
    if (done && status != 0)
        return ftruncate(answer, 0) == 0 || fail_errno(error, "read", "a compiler's version");
    return done;
}

static void take_answer(int answer, char words[COMPILER_SIZE]) {
    ssize_t length = pread(answer, words, COMPILER_SIZE - 1, 0);
    words[length > 0 ? length : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    if (*words == '\0')
        strcpy(words, "unknown");
}

static bool read_words(const char *compiler, char words[COMPILER_SIZE], struct error *error) {
    int answer = memfd_create("kvmill-compiler", MFD_CLOEXEC);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool done = answer >= 0 && nothing >= 0 ? ask(compiler, answer, nothing, error)
                                            : fail_errno(error, "open", "/dev/null");
    if (done)
        take_answer(answer, words);
    if (answer >= 0)
        close(answer);
    if (nothing >= 0)
        close(nothing);
    return done;
}

bool compiler_words(char words[COMPILER_SIZE], struct error *error) {
    static char known[COMPILER_SIZE];
    const char *compiler = getenv("CC");
    if (*known == '\0' &&
        !read_words(compiler != NULL && *compiler != '\0' ? compiler : "cc", known, error))
        return false;
    strcpy(words, known);
    return true;
}
