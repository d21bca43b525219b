/* kvmill list: lists the kernels of a pack, from the manifest in its sources or library.

   SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/input.h"
#include "../gen/pack.h"
#include "../tune/problem.h"
#include "built_pack.h"
#include "commands.h"
#include "kernel_table.h"

static bool holds_no_pack(const char *path, struct error *error) {
    return fail(error, EXIT_USER,
                "%s: does not contain a pack; accepted: the directory or library of a pack", path);
}

/* ---- The manifest: "@kvmill-pack NAME", one symbol a line, "@for SYMBOL PROBLEM", "@flow WORDS",
   "@end" ---- */

struct contents {
    char pack[65];
    struct kernel_list kernels;
    json_t *sizes; /* kernels chosen by the size of a call: problem and symbol of each */
    json_t *flows; /* descriptions */
};

static bool is_damaged(const char *path, struct error *error) {
    return fail(error, EXIT_USER, "%s: its list of kernels is damaged; generate the pack again",
                path);
}

static bool parse_symbol(const char *symbol, struct contents *contents, struct error *error) {
    struct kernel kernel;
    return kernel_parse(symbol, &kernel, error) &&
           kernel_list_add(&contents->kernels, &kernel, error);
}

/* Parses "SYMBOL PROBLEM". */
static bool parse_size(char *line, struct contents *contents, struct error *error) {
    struct kvmill_call_size size;
    struct kernel kernel;
    char *words = strchr(line, ' ');
    if (words == NULL || !problem_parse(words + 1, &size))
        return false;
    *words = '\0';
    return kernel_parse(line, &kernel, error) &&
           (json_array_append_new(contents->sizes, json_pack("{s:s, s:s}", "problem", words + 1,
                                                             "symbol", line)) == 0 ||
            out_of_memory(error));
}

/* Parses the description of a flow.  A pack may come from anyone, so control characters, which a
   terminal would obey, count as damage. */
static bool parse_flow(const char *path, const char *at, size_t length, struct contents *contents,
                       struct error *error) {
    struct text words = {0};
    if (!text_print(&words, "%.*s", (int)length, at))
        return out_of_memory(error);
    bool plain = text_is_plain(words.data, "");
    bool done = plain && json_array_append_new(contents->flows, json_string(words.data)) == 0;
    text_free(&words);
    return done || (plain ? out_of_memory(error) : is_damaged(path, error));
}

static bool parse_line(const char *path, const char *at, size_t length, struct contents *contents,
                       struct error *error) {
    static const char size[] = "@for ", flow[] = "@flow ";
    char line[SYMBOL_SIZE + PROBLEM_SIZE];
    if (strncmp(at, flow, strlen(flow)) == 0)
        return parse_flow(path, at + strlen(flow), length - strlen(flow), contents, error);
    if (length >= sizeof line)
        return is_damaged(path, error);
    memcpy(line, at, length);
    line[length] = '\0';
    bool done = strncmp(line, size, strlen(size)) == 0
                    ? parse_size(line + strlen(size), contents, error)
                    : parse_symbol(line, contents, error);
    return done || is_damaged(path, error);
}

/* Parses the manifest.  The text ends with NUL, perhaps before the manifest is complete. */
static bool parse_manifest(const char *path, const char *text, struct contents *contents,
                           struct error *error) {
    const char *at = strchr(text, '\n'), *end;
    if (sscanf(text, "@kvmill-pack%*1[ ]%64[A-Za-z0-9_]", contents->pack) != 1)
        return is_damaged(path, error);
    for (; at != NULL && strncmp(at + 1, "@end", 4) != 0; at = end) {
        end = strchr(at + 1, '\n');
        if (end == NULL)
            return is_damaged(path, error);
        if (!parse_line(path, at + 1, (size_t)(end - at - 1), contents, error))
            return false;
    }
    return at != NULL || is_damaged(path, error);
}

/* ---- In a library ---- */

static char *find(const struct text *text, const char *word) {
    return text->data ? memmem(text->data, text->length, word, strlen(word)) : NULL;
}

static bool list_library(const char *path, struct contents *contents, struct error *error) {
    struct text text = {0};
    bool done = input_read(path, &pack_library_input, &text, error);
    const char *manifest = find(&text, "@kvmill-pack ");
    if (done)
        done =
            manifest ? parse_manifest(path, manifest, contents, error) : holds_no_pack(path, error);
    text_free(&text);
    return done;
}

/* ---- In a directory: the manifest as strings in the source of the pack's registry ---- */

/* Replaces C source by the contents of its strings.  `text` begins inside a string. */
static void unquote(char *text) {
    bool quoted = true;
    char *to = text;
    for (const char *at = text; *at != '\0'; at++) {
        bool newline = quoted && at[0] == '\\' && at[1] == 'n';
        if (*at == '"')
            quoted = !quoted;
        else if (quoted)
            *to++ = newline ? '\n' : *at;
        at += newline;
    }
    *to = '\0';
}

/* Counts sources with a manifest in `found`, and parses the first manifest. */
static bool list_source(const char *path, int *found, struct contents *contents,
                        struct error *error) {
    static const struct input_kind source_input = {.words = "a C source", .most = 64 << 20};
    struct text text = {0};
    bool done = input_read(path, &source_input, &text, error);
    char *manifest = find(&text, "\"@kvmill-pack ");
    if (done && manifest != NULL && ++*found == 1) {
        unquote(manifest + 1);
        done = parse_manifest(path, manifest + 1, contents, error);
    }
    text_free(&text);
    return done;
}

/* Whether a file is a C source, but not a kernel's: those are named kvmill_... with two underscores
   in a row. */
static int may_be_registry(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".c") == 0 &&
           (strncmp(entry->d_name, "kvmill_", 7) != 0 || strstr(entry->d_name, "__") == NULL);
}

static bool list_sources(const char *directory, struct dirent **names, int count,
                         struct contents *contents, struct error *error) {
    int found = 0;
    bool done = true;
    for (int i = 0; done && i < count; i++) {
        struct text path = {0};
        done = (text_print(&path, "%s/%s", directory, names[i]->d_name) || out_of_memory(error)) &&
               list_source(path.data, &found, contents, error);
        text_free(&path);
    }
    if (done && found == 0)
        return holds_no_pack(directory, error);
    if (done && found > 1)
        return fail(error, EXIT_USER, "%s: holds %d packs; accepted: the library of one of them",
                    directory, found);
    return done;
}

static bool list_directory(const char *directory, struct contents *contents, struct error *error) {
    struct dirent **names;
    int count = scandir(directory, &names, may_be_registry, alphasort);
    if (count < 0)
        return fail_to_use(error, "read", directory);
    bool done = list_sources(directory, names, count, contents, error);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return done;
}

/* ---- The command ---- */

static void print_contents(const struct contents *contents) {
    size_t i;
    json_t *item;
    print_kernel_table(&contents->kernels);
    if (json_array_size(contents->sizes) > 0)
        print_shown(stdout, "\nBy the nearest size of a call:\n");
    json_array_foreach(contents->sizes, i, item)
        print_shown(stdout, "  %-22s %s\n", json_string_value(json_object_get(item, "problem")),
                    json_string_value(json_object_get(item, "symbol")));
    if (json_array_size(contents->flows) > 0)
        print_shown(stdout, "\nSparse flows:\n");
    json_array_foreach(contents->flows, i, item)
        print_shown(stdout, "  %s\n", json_string_value(item));
}

static bool print_contents_json(const struct contents *contents, struct error *error) {
    return json_print(json_pack("{s:s, s:o, s:O, s:O}", "pack", contents->pack, "kernels",
                                json_of_kernels(&contents->kernels), "by_size", contents->sizes,
                                "flows", contents->flows),
                      error);
}

static bool read_contents(const char *path, struct contents *contents, struct error *error) {
    struct stat status;
    if (stat(path, &status) != 0)
        return fail_to_use(error, "read", path);
    json_watch();
    contents->sizes = json_array();
    contents->flows = json_array();
    return S_ISDIR(status.st_mode) ? list_directory(path, contents, error)
                                   : list_library(path, contents, error);
}

static bool list(const struct options *given, struct error *error) {
    struct contents contents = {0};
    if (given->rest_count != 1)
        return fail(error, EXIT_USER,
                    "kvmill list: %d arguments; accepted: one pack directory or library",
                    given->rest_count);
    bool done = read_contents(given->rest[0], &contents, error);
    if (done && option_value(given, "json"))
        done = print_contents_json(&contents, error);
    else if (done)
        print_contents(&contents);
    kernel_list_free(&contents.kernels);
    json_decref(contents.sizes);
    json_decref(contents.flows);
    return done;
}

static const struct option_help options[] = {JSON_OPTION, {NULL, NULL, NULL, NULL}};

const struct command list_command = {
    .name = "list",
    .synopsis = "DIR|LIB [--json]",
    .summary = "List the kernels of a pack: op, shape, types, instruction set, variant.",
    .options = options,
    .arguments = &file_values,
    .run = list,
};
