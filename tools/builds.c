/* SPDX-License-Identifier: Apache-2.0 */
#include "builds.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/process.h"
#include "../base/signals.h"
#include "make.h"
#include "remove_tree.h"
#include "scratch.h"

static const char pack_name[] = "candidate";

struct builds {
    struct scratch scratch; /* directories of running builds, named after symbols; libraries */
    struct build *items;
    size_t count;
};

struct builds *builds_open(const char *below, struct error *error) {
    struct builds *builds = calloc(1, sizeof *builds);
    if (builds == NULL) {
        out_of_memory(error);
        return NULL;
    }
    if (scratch_open(below, "kvmill-tune", &builds->scratch, error))
        return builds;
    free(builds);
    return NULL;
}

void builds_close(struct builds *builds) {
    if (builds == NULL)
        return;
    scratch_close(&builds->scratch);
    free(builds->items);
    free(builds);
}

/* ---- Files of a build ---- */

enum { PATH_SIZE = 4096 };

static void name_file(const struct builds *builds, const struct build *build, const char *name,
                      char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%s/%s/%s", builds->scratch.directory, build->symbol, name);
}

static bool write_pack(const struct kernel *kernel, const char *directory, struct error *error) {
    struct spec_list none = {0};
    struct pack pack = {.name = pack_name, .specs = &none};
    struct output output = {0};
    int written;
    bool done = kernel_list_add(&pack.kernels, kernel, error) &&
                pack_files(&pack, &output, error) &&
                pack_write(&output, directory, &written, error);
    output_free(&output);
    kernel_list_free(&pack.kernels);
    return done;
}

/* ---- Compiling, each kernel in its own process ---- */

/* Compiles a kernel.  Exits with 0, or with 1 and a message in the file "message". */
static void compile_and_exit(const struct builds *builds, const struct build *build,
                             const struct kernel *kernel) {
    char directory[PATH_SIZE], log[PATH_SIZE], message[PATH_SIZE];
    struct error error;
    name_file(builds, build, "", directory);
    name_file(builds, build, "make.log", log);
    name_file(builds, build, "message", message);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* end with the parent, or nothing would end it */
    if (write_pack(kernel, directory, &error) && run_make(directory, log, &error))
        _exit(0);
    FILE *stream = fopen(message, "w");
    if (stream != NULL) {
        fprintf(stream, "%s\n", error.text);
        fclose(stream);
    }
    _exit(1);
}

static bool start(const struct builds *builds, const struct build *build,
                  const struct kernel *kernel, pid_t *child, struct error *error) {
    char directory[PATH_SIZE];
    name_file(builds, build, "", directory);
    if (mkdir(directory, 0777) != 0)
        return fail_errno(error, "make the directory", directory);
    *child = fork();
    if (*child == 0)
        compile_and_exit(builds, build, kernel);
    return *child > 0 || fail_errno(error, "start", "a process");
}

/* ---- The result of a build ---- */

/* Returns the total size of the sections that hold instructions, or 0 if the file cannot be
   read. */
static int64_t code_bytes_of(FILE *stream) {
    Elf64_Ehdr head;
    Elf64_Shdr section;
    int64_t bytes = 0;
    if (fread(&head, sizeof head, 1, stream) != 1 || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        fseek(stream, (long)head.e_shoff, SEEK_SET) != 0)
        return 0;
    for (int i = 0; i < head.e_shnum && fread(&section, sizeof section, 1, stream) == 1; i++)
        bytes += (section.sh_flags & SHF_EXECINSTR) != 0 ? (int64_t)section.sh_size : 0;
    return bytes;
}

static int64_t measure_code(const struct builds *builds, const struct build *build) {
    char name[SYMBOL_SIZE + 2], path[PATH_SIZE];
    snprintf(name, sizeof name, "%s.o", build->symbol);
    name_file(builds, build, name, path);
    FILE *stream = fopen(path, "rb");
    int64_t bytes = stream != NULL ? code_bytes_of(stream) : 0;
    if (stream != NULL)
        fclose(stream);
    return bytes;
}

static void read_message(const struct builds *builds, struct build *build) {
    char path[PATH_SIZE];
    name_file(builds, build, "message", path);
    if (!text_first_line(path, build->message, sizeof build->message))
        strcpy(build->message, "the compiler failed");
}

/* Moves the library out of the build's directory.  Nothing else is kept, because there may be
   thousands of builds. */
static bool keep_library(const struct builds *builds, const struct build *build) {
    char from[PATH_SIZE], to[PATH_SIZE];
    name_file(builds, build, "libcandidate.so", from);
    snprintf(to, sizeof to, "%s/libcandidate.so.%s", builds->scratch.directory, build->symbol);
    return rename(from, to) == 0;
}

static int wait_for(pid_t child) {
    int status = 0;
    if (!process_wait(child, INT32_MAX, &status)) {
        kill(child, SIGTERM);
        TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
    }
    return status;
}

static void finish(const struct builds *builds, struct build *build, pid_t child) {
    char directory[PATH_SIZE];
    int status = wait_for(child);
    build->compiled = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    build->code_bytes = build->compiled ? measure_code(builds, build) : 0;
    build->compiled = build->compiled && keep_library(builds, build);
    if (!build->compiled)
        read_message(builds, build);
    name_file(builds, build, "", directory);
    remove_tree(directory);
}

/* ---- All builds ---- */

const struct build *builds_find(const struct builds *builds, const struct kernel *kernel) {
    char symbol[SYMBOL_SIZE];
    kernel_symbol(kernel, symbol);
    for (size_t i = 0; i < builds->count; i++)
        if (strcmp(builds->items[i].symbol, symbol) == 0)
            return &builds->items[i];
    return NULL;
}

static struct build *add_build(struct builds *builds, const struct kernel *kernel,
                               struct error *error) {
    struct build *items = realloc(builds->items, (builds->count + 1) * sizeof *items);
    if (items == NULL) {
        out_of_memory(error);
        return NULL;
    }
    builds->items = items;
    items[builds->count] = (struct build){0};
    kernel_symbol(kernel, items[builds->count].symbol);
    return &items[builds->count++];
}

/* Adds a build for each kernel that has none; news[i] is the kernel of the i-th new build. */
static bool add_new(struct builds *builds, const struct kernel *const *kernels, int count,
                    const struct kernel **news, struct error *error) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        if (builds_find(builds, kernels[i]) != NULL)
            continue;
        if (add_build(builds, kernels[i], error) == NULL)
            return false;
        news[found++] = kernels[i];
    }
    return true;
}

/* Compiles the builds from `first` on.  Starts the next one while fewer than `jobs` are running,
   else waits for the oldest.  After a signal, builds that have not started are dropped. */
static bool compile_all(struct builds *builds, size_t first, const struct kernel *const *news,
                        pid_t *children, int jobs, struct error *error) {
    int count = (int)(builds->count - first), started = 0, finished = 0;
    bool done = true;
    while (finished < started || (done && started < count)) {
        if (done && started < count && started - finished < jobs && !signals_noted) {
            done = start(builds, &builds->items[first + (size_t)started], news[started],
                         &children[started], error);
            started += done;
        } else if (finished < started) {
            finish(builds, &builds->items[first + (size_t)finished], children[finished]);
            finished++;
        } else {
            break;
        }
    }
    builds->count = first + (size_t)finished;
    return done;
}

bool builds_make(struct builds *builds, const struct kernel *const *kernels, int count, int jobs,
                 struct error *error) {
    size_t first = builds->count, room = (size_t)count + 1;
    const struct kernel **news = calloc(room, sizeof *news);
    pid_t *children = calloc(room, sizeof *children);
    bool done = (news != NULL && children != NULL) || out_of_memory(error);
    done = done && add_new(builds, kernels, count, news, error);
    if (done)
        done = compile_all(builds, first, news, children, jobs, error);
    else
        builds->count = first;
    free(news);
    free(children);
    return done;
}

bool builds_load(const struct builds *builds, const struct build *build, struct built_pack *pack,
                 struct error *error) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/libcandidate.so.%s", builds->scratch.directory, build->symbol);
    return built_pack_load(path, pack, error);
}
