/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/find_program.h"
#include "../base/hash.h"
#include "../base/output.h"
#include "../base/text.h"
#include "../gen/families.h"
#include "../gen/places.h"
#include "environment.h"

/* ---- The templates ---- */

/* Returns the length of the comment or space at the beginning of a text, or 0 if it begins with
   code.  An m4_dnl without words counts as code. */
static size_t length_of_gap(const char *text) {
    if (strncmp(text, "m4_dnl ", 7) == 0)
        return strcspn(text, "\n");
    if (strncmp(text, "/*", 2) == 0) {
        const char *end = strstr(text, "*/");
        return end != NULL ? (size_t)(end - text) + 2 : strlen(text);
    }
    return strspn(text, " \n");
}

/* Hashes only the code, so that results stay valid when comments and line breaks change. */
static uint64_t hash_code(uint64_t state, const char *text) {
    for (size_t gap; *text != '\0'; text += gap > 0 ? gap : 1) {
        gap = length_of_gap(text);
        if (gap == 0)
            state = hash_bytes(state, text, 1);
        else if (length_of_gap(text + gap) == 0)
            state = hash_bytes(state, " ", 1);
    }
    return state;
}

static bool hash_file(const char *directory, const char *name, uint64_t *state,
                      struct error *error) {
    struct text text = {0};
    char *path = path_join(directory, name);
    if (path == NULL)
        return out_of_memory(error);
    bool done = text_read_file(&text, path) || fail_errno(error, "read", path);
    *state = hash_bytes(*state, name, strlen(name) + 1);
    if (done && text.data != NULL)
        *state = hash_code(*state, text.data);
    text_free(&text);
    free(path);
    return done;
}

/* Whether a file is a template.  Editors may leave other files in the directory. */
static int is_template(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && (strcmp(dot, ".m4") == 0 || strcmp(dot, ".h") == 0);
}

static int compare_names(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool hash_directory(const char *directory, const char *name, uint64_t *state,
                           struct error *error) {
    struct dirent **entries;
    char *path = path_join(directory, name);
    if (path == NULL)
        return out_of_memory(error);
    int count = scandir(path, &entries, is_template, compare_names);
    bool done = count >= 0 || fail_errno(error, "read", path);
    for (int i = 0; i < count; i++) {
        done = done && hash_file(path, entries[i]->d_name, state, error);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    free(path);
    return done;
}

static bool hash_kernel_file(const char *directory, const struct family *family, const char *words,
                             const char *variant, uint64_t *state, struct error *error) {
    char name[160];
    snprintf(name, sizeof name, variant != NULL ? "kernel/%s/%s_%s.c.m4" : "kernel/%s/%s.m4",
             family->folder, words, variant);
    return hash_file(directory, name, state, error);
}

static bool hash_family(const char *directory, const struct family *family, uint64_t *state,
                        struct error *error) {
    bool done = family->tunables == NULL ||
                hash_kernel_file(directory, family, family->tunables, NULL, state, error);
    for (int i = 0; done && family->libraries[i] != NULL; i++)
        done = hash_kernel_file(directory, family, family->libraries[i], NULL, state, error);
    for (int i = 0; done && family->variants[i] != NULL; i++)
        done = hash_kernel_file(directory, family, family->name, family->variants[i], state, error);
    return done;
}

static void print_hash(uint64_t state, char hash[HASH_SIZE]) {
    snprintf(hash, HASH_SIZE, "%016" PRIx64, state);
}

bool machine_hash_templates(const char *directory, struct machine *machine, struct error *error) {
    static const char *const shared[] = {"cpu", "format", "lib", "words"};
    uint64_t common = HASH_START;
    bool done = true;
    for (size_t i = 0; done && i < sizeof shared / sizeof *shared; i++)
        done = hash_directory(directory, shared[i], &common, error);
    uint64_t all = common;
    for (size_t i = 0; done && i < MOST_FAMILIES && family_at(i) != NULL; i++) {
        uint64_t own = common;
        done = hash_family(directory, family_at(i), &own, error);
        all = hash_bytes(all, &own, sizeof own);
        print_hash(own, machine->family_templates[i]);
    }
    print_hash(all, machine->templates);
    return done;
}

const char *machine_templates(const struct machine *machine, const char *spec) {
    const struct family *family = family_of_symbol(spec);
    for (size_t i = 0; family != NULL && i < MOST_FAMILIES; i++)
        if (family_at(i) == family)
            return machine->family_templates[i];
    return machine->templates;
}

static bool read_templates(struct machine *machine, struct error *error) {
    char *path = path_join(data_directory(), "templates");
    bool done = path != NULL ? machine_hash_templates(path, machine, error) : out_of_memory(error);
    free(path);
    return done;
}

/* ---- The compiler ---- */

static const char *variable(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : otherwise;
}

bool machine_read(struct machine *machine, struct error *error) {
    char cpu[CPU_SIZE], compiler[COMPILER_SIZE];
    if (!environment_read_cpu("", cpu, error) || !compiler_words(compiler, error))
        return false;
    text_show(cpu, machine->cpu, sizeof machine->cpu);
    text_show(variable("CFLAGS", "-O3"), machine->flags, sizeof machine->flags);
    text_show(compiler, machine->compiler, sizeof machine->compiler);
    return read_templates(machine, error);
}

/* ---- Results that are not valid here ---- */

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
    if (strcmp(machine_templates(machine, key->spec), key->templates) != 0)
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
