/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"
#include "text.h"

enum { MOST_SECONDS = 60 };

const char *program_named(const char *variable, const char *usual) {
    const char *program = getenv(variable);
    return program != NULL && *program != '\0' ? program : usual;
}

/* A program may come with arguments: only a shell knows where they begin.  It exits with 127 where
   there is no such program, which would be said of the shell. */
static bool ask(const char *asked, int answer, int nothing, struct error *error) {
    const int streams[STANDARD_STREAMS] = {nothing, answer, nothing};
    struct text command = {0};
    int status;
    if (!text_print(&command, "LC_ALL=C; export LC_ALL; %s || exit 1", asked))
        return out_of_memory(error);
    char *arguments[] = {"sh", "-c", command.data, NULL};
    bool done = process_run_group(arguments, streams, "a shell", MOST_SECONDS, &status, error);
    text_free(&command);
    if (done && status != 0)
        return ftruncate(answer, 0) == 0 || fail_errno(error, "read", "a program's version");
    return done;
}

static void take_answer(int answer, char words[PROGRAM_SIZE]) {
    ssize_t length = pread(answer, words, PROGRAM_SIZE - 1, 0);
    words[length > 0 ? length : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    if (*words == '\0')
        strcpy(words, "unknown");
}

bool program_words(const char *command, char words[PROGRAM_SIZE], struct error *error) {
    int answer = memfd_create("kvmill-answer", MFD_CLOEXEC);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool done = answer >= 0 && nothing >= 0 ? ask(command, answer, nothing, error)
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
    struct text command = {0};
    if (*known == '\0') {
        bool done = (text_print(&command, "%s --version", program_named("CC", "cc")) ||
                     out_of_memory(error)) &&
                    program_words(command.data, known, error);
        text_free(&command);
        if (!done) {
            *known = '\0';
            return false;
        }
    }
    strcpy(words, known);
    return true;
}
