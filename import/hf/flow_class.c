/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_class.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../base/find_program.h"
#include "../../base/json.h"
#include "../../base/memory_streams.h"
#include "../../base/output.h"
#include "../../gen/places.h"

enum { MOST_SECONDS = 300 };

static const char tool[] = "bindings/python/kvmill/vflow/__main__.py";

bool is_flow_class(const char *name) {
    size_t length = strlen(name);
    return strstr(name, ".py:") != NULL || (length > 3 && strcmp(name + length - 3, ".py") == 0);
}

/* ---- Running Python ---- */

static bool write_attention(int stream, const json_t *attention, struct error *error) {
    char *written = json_dumps(attention, JSON_COMPACT);
    struct text text = {.data = written, .length = written != NULL ? strlen(written) : 0};
    bool done = written != NULL ? memory_stream_write(stream, &text, "write", "attention", error)
                                : out_of_memory(error);
    free(written);
    return done;
}

/* -B: writes no bytecode next to the user's files.  What they print to standard error is shown. */
static bool run(const char *name, const char *path, const int streams[STANDARD_STREAMS],
                int *status, struct error *error) {
    char *arguments[] = {(char *)(uintptr_t)python_program(),
                         "-B",
                         (char *)(uintptr_t)path,
                         "--document",
                         (char *)(uintptr_t)name,
                         NULL};
    const int shown[STANDARD_STREAMS] = {streams[STDIN_FILENO], streams[STDOUT_FILENO], -1};
    return process_run_group(arguments, shown, "Python 3.11 or newer, or a flow file in JSON,",
                             MOST_SECONDS, status, error);
}

/* Exit code 1: a message about the class; 2: about Python. */
static void refuse(const char *name, const struct text *said, int status, struct error *error) {
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (said->length == 0)
        fail(error, EXIT_ENVIRONMENT, "%s: %s, which reads it, failed and says why above", name,
             python_program());
    else if (code == EXIT_USER)
        fail(error, EXIT_USER, "%.*s", (int)said->length, said->data);
    else
        fail(error, EXIT_ENVIRONMENT, "%s: is read by %s: %.*s", name, python_program(),
             (int)said->length, said->data);
}

static json_t *take(const char *name, const struct text *said, int status, struct error *error) {
    if (status == 0)
        return json_parse(name, said->data, said->length, error);
    refuse(name, said, status, error);
    return NULL;
}

static json_t *run_tool(const char *name, const char *path, const json_t *attention,
                        struct error *error) {
    int streams[STANDARD_STREAMS], status = 0;
    struct text said = {0};
    json_t *document = NULL;
    if (memory_streams_open(streams, "open", "memory for a file", error) &&
        write_attention(streams[STDIN_FILENO], attention, error) &&
        run(name, path, streams, &status, error) &&
        memory_stream_read(streams[STDOUT_FILENO], &said, "read", "what Python wrote", error))
        document = take(name, &said, status, error);
    memory_streams_close(streams);
    text_free(&said);
    return document;
}

json_t *flow_class_read(const char *name, const json_t *attention, struct error *error) {
    char *path = path_join(data_directory(), tool);
    json_t *document = NULL;
    if (path == NULL)
        out_of_memory(error);
    else if (access(path, R_OK) != 0)
        fail_errno(error, "read", path);
    else
        document = run_tool(name, path, attention, error);
    free(path);
    return document;
}

/* ---- Places ---- */

/* Returns the place of a path, or of what contains it; cuts the path down to that. */
static const char *find_place(const json_t *places, char *path) {
    const json_t *place;
    while ((place = json_object_get(places, path)) == NULL && *path != '\0')
        *strrchr(path, '/') = '\0';
    return json_string_value(place);
}

/* Returns the name of the op at a path such as "/index/3", or NULL. */
static const char *op_at(const json_t *document, const char *path) {
    char list[8];
    size_t number;
    if (sscanf(path, "/%7[a-z]/%zu", list, &number) != 2)
        return NULL;
    json_t *steps = json_object_get(json_object_get(document, "flow"), list);
    return json_string_value(json_object_get(json_array_get(steps, number), "op"));
}

void flow_class_find_place(const char *name, const json_t *document, struct error *error) {
    char named[128], path[sizeof named], text[sizeof error->text];
    size_t length = strlen(name);
    int used = 0;
    bool has_path = strncmp(error->text, name, length) == 0 &&
                    sscanf(error->text + length, ": /%126[^: ]: %n", named, &used) == 1 && used > 0;
    if (!has_path)
        return;
    strcpy(text, error->text + length + used);
    snprintf(path, sizeof path, "/%.126s", named);
    const char *op = op_at(document, path);
    const char *place = find_place(json_object_get(document, "places"), path);
    if (place != NULL)
        snprintf(error->text, sizeof error->text, "%s: %s: %.800s", place, op ? op : named, text);
}
