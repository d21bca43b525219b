/* SPDX-License-Identifier: Apache-2.0 */
#include "m4.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/find_program.h"
#include "../base/memory_streams.h"
#include "places.h"

/* ---- Definitions ---- */

bool define_text(struct expansion *expansion, const char *name, const char *value) {
    return text_print(&expansion->definitions, "m4_define(«km_%s», «%s»)m4_dnl\n", name, value);
}

bool define_integer(struct expansion *expansion, const char *name, int64_t value) {
    return text_print(&expansion->definitions, "m4_define(«km_%s», «%" PRId64 "»)m4_dnl\n", name,
                      value);
}

/* ---- The command ---- */

const char *m4_program(void) {
    return program_named("KVMILL_M4", KVMILL_M4);
}

/* Full paths: m4 would look for a relative name in the current directory first. */
struct command {
    char paths[MOST_TEMPLATES][1024];
    char *arguments[MOST_TEMPLATES + 8];
};

/* Sets the path of a file of an expansion; "-" stands for the definitions. */
static bool set_path(char path[1024], const char *file, struct error *error) {
    if (strcmp(file, "-") == 0) {
        strcpy(path, file);
        return true;
    }
    if (snprintf(path, 1024, "%s/templates/%s", data_directory(), file) < 1024 &&
        access(path, R_OK) == 0)
        return true;
    return fail(
        error, EXIT_ENVIRONMENT,
        "%.700s: cannot read the template: %s; KVMILL_DATADIR names the directory that holds "
        "templates/",
        path, strerror(errno));
}

static bool set_command(struct command *command, const struct expansion *expansion,
                        struct error *error) {
    static const char *const options[] = {"-P", "-E", "-E"};
    int count = 0;
    command->arguments[count++] = (char *)m4_program();
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        command->arguments[count++] = (char *)options[i];
    for (int i = 0; expansion->files[i] != NULL; i++) {
        if (!set_path(command->paths[i], expansion->files[i], error))
            return false;
        command->arguments[count++] = command->paths[i];
    }
    command->arguments[count] = NULL;
    return true;
}

static void trace(const struct command *command, const struct expansion *expansion) {
    const char *wanted = getenv("KVMILL_TRACE");
    if (wanted == NULL || *wanted == '\0')
        return;
    fprintf(stderr, "%s", expansion->definitions.data ? expansion->definitions.data : "");
    for (int i = 0; command->arguments[i] != NULL; i++)
        fprintf(stderr, "%s%s", i ? " " : "# ", command->arguments[i]);
    fprintf(stderr, "\n");
}

/* ---- Running m4, with memory files for its three streams ---- */

static bool read_output(int stream, struct text *text, struct error *error) {
    return memory_stream_read(stream, text, "read the output of", "m4", error);
}

/* Whether the output stopped at the limit on file sizes. */
static bool is_at_limit(int stream) {
    struct rlimit limit;
    struct stat status;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && fstat(stream, &status) == 0 &&
           (rlim_t)status.st_size >= limit.rlim_cur;
}

/* A message of m4 is about a template, so it is a bug; a failure to run is not. */
static bool complain(const char *program, int status, const int streams[STANDARD_STREAMS],
                     const struct text *messages, struct error *error) {
    if (is_at_limit(streams[1]) || is_at_limit(streams[2]))
        return fail(error, EXIT_ENVIRONMENT, "%s: cannot write: %s", program, strerror(EFBIG));
    if (WIFSIGNALED(status))
        return fail(error, EXIT_ENVIRONMENT, "%s: ended by signal %d", program, WTERMSIG(status));
    if (messages->length == 0)
        return fail(error, EXIT_ENVIRONMENT, "%s: failed without a message; GNU m4 is needed",
                    program);
    return fail(error, EXIT_BUG, "%.900s", messages->data);
}

static bool run_streams(char *const *arguments, const struct expansion *expansion,
                        int streams[STANDARD_STREAMS], struct text *result, struct error *error) {
    struct text messages = {0};
    int status;
    bool done = memory_stream_write(streams[0], &expansion->definitions, "write definitions for",
                                    "m4", error) &&
                process_run(arguments, streams, "GNU m4", &status, error);
    if (done && status != 0)
        done = read_output(streams[2], &messages, error) &&
               complain(arguments[0], status, streams, &messages, error);
    text_free(&messages);
    return done && read_output(streams[1], result, error);
}

/* ---- Leftovers ---- */

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether the word at `at`, after any underscores, begins with a prefix of the templates. */
static bool is_template_word(const char *at) {
    at += strspn(at, "_");
    return strncmp(at, "km_", 3) == 0 || strncmp(at, "m4_", 3) == 0;
}

/* Returns the first word of the templates, or quote, that is left in the text, or NULL. */
static const char *find_leftover(const char *text) {
    for (const char *at = text; (at = strpbrk(at, "_km\xc2")) != NULL; at++)
        if (((at == text || !is_word(at[-1])) && is_template_word(at)) ||
            strncmp(at, "«", strlen("«")) == 0 || strncmp(at, "»", strlen("»")) == 0)
            return at;
    return NULL;
}

static size_t leftover_length(const char *leftover) {
    size_t length = 0;
    while (is_word(leftover[length]))
        length++;
    return length ? length : strlen("«");
}

static bool check_leftovers(const struct expansion *expansion, const char *text,
                            struct error *error) {
    const char *leftover = find_leftover(text);
    int line = 1, files = 0;
    if (leftover == NULL)
        return true;
    for (const char *at = text; at < leftover; at++)
        line += *at == '\n';
    while (expansion->files[files + 1] != NULL)
        files++;
    return fail(error, EXIT_BUG, "%s: \"%.*s\" is left over in line %d of the expansion",
                expansion->files[files], (int)leftover_length(leftover), leftover, line);
}

bool expand(const struct expansion *expansion, struct text *result, struct error *error) {
    struct command command;
    int streams[STANDARD_STREAMS];
    size_t before = result->length;
    if (!set_command(&command, expansion, error))
        return false;
    trace(&command, expansion);
    bool done = memory_streams_open(streams, "create a memory file for", "m4", error) &&
                run_streams(command.arguments, expansion, streams, result, error);
    memory_streams_close(streams);
    return done &&
           (result->data == NULL || check_leftovers(expansion, result->data + before, error));
}
