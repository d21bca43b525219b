/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../gen/hash.h"
#include "../gen/m4.h"
#include "environment.h"

/* ---- The templates ---- */

static bool hash_file(const char *path, uint64_t *state, struct error *error) {
    char block[65536];
    size_t got;
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return fail_errno(error, "read", path);
    while ((got = fread(block, 1, sizeof block, stream)) > 0)
        *state = hash_bytes(*state, block, got);
    bool done = !ferror(stream) || fail_errno(error, "read", path);
    fclose(stream);
    return done;
}

static bool hash_directory(const char *directory, uint64_t *state, struct error *error);

static bool hash_entry(const char *directory, const struct dirent *entry, uint64_t *state,
                       struct error *error) {
    struct text path = {0};
    *state = hash_bytes(*state, entry->d_name, strlen(entry->d_name) + 1);
    bool done = text_print(&path, "%s/%s", directory, entry->d_name)
                    ? strstr(entry->d_name, ".m4") != NULL ? hash_file(path.data, state, error)
                                                           : hash_directory(path.data, state, error)
                    : out_of_memory(error);
    text_free(&path);
    return done;
}

/* Templates and directories of them; what an editor leaves beside them is none. */
static int is_template(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot == NULL || strcmp(dot, ".m4") == 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool hash_directory(const char *directory, uint64_t *state, struct error *error) {
    struct dirent **entries;
    int count = scandir(directory, &entries, is_template, compare_names);
    if (count < 0)
        return fail_errno(error, "read", directory);
    bool done = true;
    for (int i = 0; i < count; i++) {
        done = done && hash_entry(directory, entries[i], state, error);
        free(entries[i]);
    }
    free(entries);
    return done;
}

bool machine_hash_files(const char *directory, char hash[17], struct error *error) {
    uint64_t state = HASH_START;
    bool done = hash_directory(directory, &state, error);
    snprintf(hash, 17, "%016" PRIx64, state);
    return done;
}

static bool read_templates(struct machine *machine, struct error *error) {
    struct text path = {0};
    bool done = text_print(&path, "%s/templates", data_directory())
                    ? machine_hash_files(path.data, machine->templates, error)
                    : out_of_memory(error);
    text_free(&path);
    return done;
}

/* ---- The compiler ---- */

static const char *variable(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : otherwise;
}

static void read_compiler(struct machine *machine) {
    struct text command = {0};
    FILE *pipe = NULL;
    strcpy(machine->compiler, "unknown");
    if (text_print(&command, "LC_ALL=C %s --version 2>/dev/null", variable("CC", "cc")))
        pipe = popen(command.data, "r");
    if (pipe != NULL && fgets(machine->compiler, sizeof machine->compiler, pipe) == NULL)
        strcpy(machine->compiler, "unknown");
    if (pipe != NULL)
        pclose(pipe);
    machine->compiler[strcspn(machine->compiler, "\n")] = '\0';
    text_free(&command);
}

bool machine_read(struct machine *machine, struct error *error) {
    struct environment environment;
    environment_read("", &environment);
    snprintf(machine->cpu, sizeof machine->cpu, "%s", environment.cpu);
    snprintf(machine->flags, sizeof machine->flags, "%.255s", variable("CFLAGS", "-O3"));
    read_compiler(machine);
    return read_templates(machine, error);
}

/* ---- What does not fit ---- */

const char *misfit_words(enum misfit misfit) {
    static const char *const words[MISFITS] = {
        [FITS] = "fits",
        [FOREIGN_CPU] = "measured on another CPU",
        [STALE_TEMPLATES] = "measured with other templates",
        [OTHER_COMPILER] = "measured with another compiler or other flags",
    };
    return words[misfit];
}

enum misfit machine_misfit(const struct machine *machine, const struct sweep_key *key) {
    if (strcmp(machine->cpu, key->cpu) != 0)
        return FOREIGN_CPU;
    if (strcmp(machine->templates, key->templates) != 0)
        return STALE_TEMPLATES;
    return strcmp(machine->compiler, key->compiler) != 0 || strcmp(machine->flags, key->flags) != 0
               ? OTHER_COMPILER
               : FITS;
}

void machine_filter(const struct machine *machine, unsigned refused, struct sweeps *sweeps,
                    size_t results[MISFITS]) {
    struct sweeps kept = {sweeps->items, 0};
    for (enum misfit misfit = FITS; misfit < MISFITS; misfit++)
        results[misfit] = 0;
    for (size_t i = 0; i < sweeps->count; i++) {
        enum misfit misfit = machine_misfit(machine, &sweeps->items[i].key);
        results[misfit] += sweeps->items[i].count;
        if (misfit != FITS && refused & 1u << misfit)
            sweep_free(&sweeps->items[i]);
        else
            kept.items[kept.count++] = sweeps->items[i];
    }
    *sweeps = kept;
}
