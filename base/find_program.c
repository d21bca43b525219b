/* SPDX-License-Identifier: Apache-2.0 */
#include "find_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory_streams.h"

enum { MOST_SECONDS = 60 };

static const char what[] = "a program's answer";

const char *program_named(const char *variable, const char *usual) {
    const char *program = getenv(variable);
    return program != NULL && *program != '\0' ? program : usual;
}

const char *python_program(void) {
    return program_named("KVMILL_PYTHON", "python3");
}

/* Runs a command by a shell, because `asked` may contain arguments.  A missing program makes the
   shell exit with 127, which would be reported as a missing shell; "|| exit 1" prevents that. */
static bool ask(const char *asked, const int streams[STANDARD_STREAMS], int *status,
                struct error *error) {
    struct text command = {0};
    char *arguments[] = {"sh", "-c", NULL, NULL};
    bool done = text_print(&command, "LC_ALL=C; export LC_ALL; %s || exit 1", asked) ||
                out_of_memory(error);
    arguments[2] = command.data;
    done = done && process_run_group(arguments, streams, "a shell", MOST_SECONDS, status, error);
    text_free(&command);
    return done;
}

static void take_line(const struct text *answer, char words[PROGRAM_SIZE]) {
    snprintf(words, PROGRAM_SIZE, "%.*s", answer->length > 0 ? (int)strcspn(answer->data, "\n") : 0,
             answer->length > 0 ? answer->data : "");
    if (*words == '\0')
        strcpy(words, "unknown");
}

bool program_words(const char *command, char words[PROGRAM_SIZE], struct error *error) {
    int streams[STANDARD_STREAMS], status;
    struct text answer = {0};
    bool done =
        memory_streams_open(streams, "open", what, error) &&
        ask(command, streams, &status, error) &&
        (status != 0 || memory_stream_read(streams[STDOUT_FILENO], &answer, "read", what, error));
    memory_streams_close(streams);
    if (done)
        take_line(&answer, words);
    text_free(&answer);
    return done;
}

bool compiler_words(char words[COMPILER_SIZE], struct error *error) {
    static char known[COMPILER_SIZE];
    struct text command = {0};
    bool done = *known != '\0' || text_print(&command, "%s --version", program_named("CC", "cc")) ||
                out_of_memory(error);
    done = done && (*known != '\0' || program_words(command.data, known, error));
    text_free(&command);
    if (done)
        strcpy(words, known);
    return done;
}
