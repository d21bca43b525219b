/* SPDX-License-Identifier: Apache-2.0 */
#include "llama_check.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/process.h"
#include "../base/text.h"

enum { SECONDS = 20, SECONDS_TO_MEASURE = 600 };

/* ---- In the process that loads ggml ---- */

static bool no(struct llama_check *check, const char *what, const char *reason) {
    if (*check->reason == '\0')
        snprintf(check->reason, sizeof check->reason, "%.100s: %.400s", what, reason);
    return false;
}

static void *find(void *library, const char *name, struct llama_check *check) {
    void *found = dlsym(library, name);
    if (found == NULL)
        no(check, name, "this ggml does not have that function");
    return found;
}

static int directory_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (int)(slash - path) + 1 : 0;
}

/* Loads ggml, and its backends from the program's directory if none is linked. */
static bool load_ggml(const struct llama_program *program, struct llama_check *check) {
    char directory[PATH_MAX];
    void *library = dlopen(program->ggml, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        return no(check, program->ggml, dlerror());
    size_t (*count)(void) = (size_t(*)(void))find(library, "ggml_backend_reg_count", check);
    void (*load)(const char *) =
        (void (*)(const char *))find(library, "ggml_backend_load_all_from_path", check);
    const char *(*version)(void) = (const char *(*)(void))dlsym(library, "ggml_version");
    if (count == NULL || load == NULL)
        return false;
    snprintf(check->version, sizeof check->version, "%s", version != NULL ? version() : "");
    snprintf(directory, sizeof directory, "%.*s", directory_length(program->path), program->path);
    check->is_loaded = true;
    check->loads_plugins = count() == 0;
    if (check->loads_plugins)
        load(directory);
    return true;
}

/* The adapter prints the reason if it cannot be used. */
static bool load_adapter(const char *adapter, void **loaded, struct llama_check *check) {
    void *library = *loaded = dlopen(adapter, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return no(check, adapter, dlerror());
    void *(*start)(void) = (void *(*)(void))dlsym(library, "ggml_backend_init");
    if (start == NULL || dlsym(library, "ggml_backend_dev_count") == NULL)
        return no(check, adapter, "is not the adapter; accepted: libggml-kvmill.so");
    return start() != NULL;
}

/* ---- Measuring ---- */

typedef double gain_function(const char *number, int64_t value);

static bool measure_number(const struct calibration_number *number, gain_function *gain_of,
                           struct llama_gains *gains) {
    for (int i = 0; i < MOST_ACCEPTED && number->accepted[i] != 0; i++) {
        double gain = gains->of[gains->count++] = gain_of(number->name, number->accepted[i]);
        if (gain == 0 || gain >= 1)
            return gain != 0;
    }
    return true;
}

/* The adapter's own numbers must not decide while they are measured. */
static bool take_no_number(struct llama_check *check) {
    struct calibration least = kvmill_calibration_presets();
    char text[CALIBRATION_SIZE], place[64];
    int file = memfd_create("calibration", 0);
    least.asleep = kvmill_calibration_named("asleep")->accepted[0];
    size_t length = kvmill_calibration_print(&least, text);
    snprintf(place, sizeof place, "/proc/self/fd/%d", file);
    return (file >= 0 && write(file, text, length) == (ssize_t)length &&
            setenv("KVMILL_CALIBRATION", place, 1) == 0 &&
            setenv("KVMILL_GGML_LEAST", "0", 1) == 0) ||
           no(check, "a calibration", strerror(errno));
}

static bool measure(void *adapter, struct llama_check *check) {
    gain_function *gain_of = (gain_function *)dlsym(adapter, "kvmill_ggml_gain");
    bool done = gain_of != NULL;
    for (int i = KERNEL_NUMBERS; done && i < CALIBRATION_NUMBERS; i++)
        done = measure_number(&kvmill_calibration_numbers[i], gain_of, &check->gains[i]);
    return done || no(check, "the adapter",
                      "cannot be measured: it has no kernels for f16, q8_0 or q4_0 caches, or "
                      "is of another version");
}

_Noreturn static void try(const struct llama_program *program, const char *adapter, bool measures,
                          int messages, struct llama_check *check) {
    void *library;
    dup2(messages, STDOUT_FILENO);
    dup2(messages, STDERR_FILENO);
    unsetenv("GGML_BACKEND_PATH");
    unsetenv("KVMILL_VERBOSE");
    alarm(measures ? SECONDS_TO_MEASURE : SECONDS);
    check->is_used = (!measures || take_no_number(check)) && load_ggml(program, check) &&
                     load_adapter(adapter, &library, check) &&
                     (!measures || measure(library, check));
    fflush(stderr);
    _exit(0);
}

/* ---- In this process ---- */

/* Takes the adapter's own reason from among ggml's messages. */
static void read_reason(int messages, struct llama_check *check) {
    static const char begins[] = "kvmill: not in use: ";
    struct text text = {0};
    char place[64];
    snprintf(place, sizeof place, "/proc/self/fd/%d", messages);
    const char *found =
        text_read_file(&text, place) && text.data != NULL ? strstr(text.data, begins) : NULL;
    if (found != NULL) {
        found += sizeof begins - 1;
        snprintf(check->reason, sizeof check->reason, "%.*s", (int)strcspn(found, "\n"), found);
    }
    text_free(&text);
}

static bool wait_for(pid_t child, const char *ggml, struct error *error) {
    int status = 0;
    if (child < 0 || TEMP_FAILURE_RETRY(waitpid(child, &status, 0)) < 0)
        return fail_errno(error, "start", "a process");
    return WIFEXITED(status) ||
           fail(error, EXIT_ENVIRONMENT, "%s: ended by signal %d (%s) when it was loaded", ggml,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
}

static bool try_in_child(const struct llama_program *program, const char *adapter, bool measures,
                         int messages, struct llama_check *shared, struct error *error) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        try(program, adapter, measures, messages, shared);
    return wait_for(child, program->ggml, error);
}

static bool run_child(const struct llama_program *program, const char *adapter, bool measures,
                      struct llama_check *check, struct error *error) {
    int messages = memfd_create("messages", MFD_CLOEXEC);
    struct llama_check *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (messages < 0 || shared == MAP_FAILED)
        return fail_errno(error, "create", "memory for a process");
    bool done = try_in_child(program, adapter, measures, messages, shared, error);
    *check = *shared;
    if (done && !check->is_used)
        read_reason(messages, check);
    munmap(shared, sizeof *shared);
    close(messages);
    return done;
}

bool llama_check(const struct llama_program *program, const char *adapter,
                 struct llama_check *check, struct error *error) {
    return run_child(program, adapter, false, check, error);
}

bool llama_measure(const struct llama_program *program, const char *adapter,
                   struct llama_check *check, struct error *error) {
    return run_child(program, adapter, true, check, error);
}
