/* kvmill list: the kernels of a pack, read from the manifest inside its sources or library.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "../gen/spec.h"
#include "../gen/text.h"
#include "commands.h"
#include "kernel_table.h"

static const char marker[] = "@kvmill-pack ";

/* ---- A library ---- */

static bool read_file(const char *path, struct text *text, struct error *error) {
    char block[65536];
    size_t got;
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return fail(error, EXIT_USER, "%s: cannot read: %s", path, strerror(errno));
    bool done = true;
    while (done && (got = fread(block, 1, sizeof block, stream)) > 0)
        done = text_append(text, block, got) || fail(error, EXIT_ENVIRONMENT, "out of memory");
    fclose(stream);
    return done;
}

/* One symbol a line, up to "@end". */
static bool parse_manifest(const char *at, struct kernel_list *kernels, struct error *error) {
    char line[SYMBOL_SIZE + 1];
    while (strncmp(at, "@end", 4) != 0) {
        struct kernel kernel;
        size_t length = strcspn(at, "\n");
        if (at[length] == '\0' || length > SYMBOL_SIZE)
            return fail(error, EXIT_USER, "the manifest is damaged; accepted: a pack's library");
        memcpy(line, at, length);
        line[length] = '\0';
        if (!kernel_parse(line, &kernel, error) || !kernel_list_add(kernels, &kernel, error))
            return false;
        at += length + 1;
    }
    return true;
}

static bool list_library(const char *path, struct kernel_list *kernels, struct error *error) {
    struct text text = {0};
    bool done = read_file(path, &text, error);
    const char *at =
        done && text.data ? memmem(text.data, text.length, marker, strlen(marker)) : NULL;
    if (done && at == NULL)
        done = fail(error, EXIT_USER, "%s: holds no pack; accepted: a pack's directory or library",
                    path);
    done = done && parse_manifest(at + strcspn(at, "\n") + 1, kernels, error);
    text_free(&text);
    return done;
}

/* ---- A directory: what its specs give, where the sources are there ---- */

static bool has_source(const char *directory, const struct kernel *kernel) {
    char symbol[SYMBOL_SIZE], path[4096];
    struct stat status;
    kernel_symbol(kernel, symbol);
    snprintf(path, sizeof path, "%s/%s.c", directory, symbol);
    return stat(path, &status) == 0;
}

static bool list_directory(const char *directory, struct kernel_list *kernels,
                           struct error *error) {
    struct isa_words every_isa;
    struct spec_list specs = {0};
    struct isa_list isas;
    struct kernel_list all = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/specs.json", directory);
    bool done = isa_list_parse(isa_join(",", &every_isa), &isas, error) &&
                specs_read(path, &specs, error) && specs_kernels(&specs, &isas, &all, error);
    for (size_t i = 0; done && i < all.count; i++)
        if (has_source(directory, &all.items[i]))
            done = kernel_list_add(kernels, &all.items[i], error);
    kernel_list_free(&all);
    spec_list_free(&specs);
    return done;
}

static bool list(const struct options *given, struct error *error) {
    struct kernel_list kernels = {0};
    struct stat status;
    if (given->rest_count != 1)
        return fail(error, EXIT_USER,
                    "kvmill list: %d arguments; accepted: one pack directory or library",
                    given->rest_count);
    const char *path = given->rest[0];
    if (stat(path, &status) != 0)
        return fail(error, EXIT_USER, "%s: cannot read: %s", path, strerror(errno));
    bool done = S_ISDIR(status.st_mode) ? list_directory(path, &kernels, error)
                                        : list_library(path, &kernels, error);
    if (done)
        print_kernel_table(&kernels);
    kernel_list_free(&kernels);
    return done;
}

const struct command list_command = {
    .name = "list",
    .synopsis = "DIR|LIB",
    .summary = "List the kernels of a pack: op, shape, types, instruction set, variant.",
    .run = list,
};
