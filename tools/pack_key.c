/* SPDX-License-Identifier: Apache-2.0 */
#include "pack_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/find_program.h"

/* Adds data with its length, so that data that follows cannot be taken for a part of it. */
static void add_bytes(struct sha256 *sha, const char *data, size_t length) {
    uint64_t count = length;
    sha256_add(sha, &count, sizeof count);
    sha256_add(sha, data, length);
}

static void add_text(struct sha256 *sha, const char *text) {
    add_bytes(sha, text, strlen(text));
}

/* Whether a line of /proc/cpuinfo describes the CPU; other lines change from moment to moment. */
static bool describes_cpu(const char *line) {
    static const char *const starts[] = {"vendor_id", "cpu family", "model", "stepping",
                                         "flags",     "Features",   "CPU ",  NULL};
    for (int i = 0; starts[i] != NULL; i++)
        if (strncmp(line, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

/* Adds the lines of the first processor. */
static bool add_lines(struct sha256 *sha, FILE *stream) {
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stream) > 1)
        if (describes_cpu(line))
            add_text(sha, line);
    bool done = line != NULL && !ferror(stream);
    free(line);
    return done;
}

static bool add_cpu(struct sha256 *sha, const char *root, struct error *error) {
    char *path = path_join(root, "proc/cpuinfo");
    if (path == NULL)
        return out_of_memory(error);
    FILE *stream = fopen(path, "r");
    bool done = (stream != NULL && add_lines(sha, stream)) || fail_errno(error, "read", path);
    if (stream != NULL)
        fclose(stream);
    free(path);
    return done;
}

bool pack_key(const struct output *output, const char *root, char key[SHA256_TEXT],
              struct error *error) {
    static const char *const variables[] = {"CC", "CFLAGS", "CPPFLAGS", "LDFLAGS"};
    char compiler[COMPILER_SIZE];
    struct sha256 sha;
    bool is_native = false;
    sha256_begin(&sha);
    for (size_t i = 0; i < output->count; i++) {
        add_text(&sha, output->files[i].name);
        add_bytes(&sha, output->files[i].text.data, output->files[i].text.length);
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        add_text(&sha, value ? value : "");
        is_native = is_native || (value && strstr(value, "native"));
    }
    if (!compiler_words(compiler, error))
        return false;
    add_text(&sha, compiler);
    if (is_native && !add_cpu(&sha, root, error))
        return false;
    sha256_end(&sha, key);
    return true;
}
