/* kvmill llama: runs a program of llama.cpp with kvmill's attention, or says whether it would.

   SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/text.h"
#include "calibration_file.h"
#include "commands.h"
#include "llama_check.h"

static const char adapter_file[] = "libggml-kvmill.so";

/* ---- Saying whether kvmill would be used ---- */

static void print_row(const char *name, const char *value) {
    print_shown(stdout, "%-9s %s\n", name, value);
}

static void print_check(const struct llama_program *program, const char *adapter,
                        const struct llama_check *check) {
    print_row("program", program->path);
    print_row("ggml", program->ggml);
    if (check->is_loaded)
        print_row("version", *check->version ? check->version : "not said");
    if (check->is_loaded)
        print_row("plugins",
                  check->loads_plugins
                      ? "are loaded by this ggml, also that of GGML_BACKEND_PATH"
                      : "are not loaded: GGML_BACKEND_PATH has no effect in most programs");
    print_row("adapter", adapter);
    print_row("kvmill", check->is_used ? "is used, with `kvmill llama`" : "cannot be used");
}

static bool find_ggml(const char *name, struct llama_program *program, struct error *error) {
    if (!llama_program_find(name, program, error) || !llama_program_ggml(program, error))
        return false;
    return *program->ggml != '\0' ||
           fail(error, EXIT_USER,
                "%s: loads no ggml when it starts, so only a run tells; accepted: a program of "
                "llama.cpp, or the library that it loads later, such as libllama.so",
                program->path);
}

static bool is_used(const struct llama_program *program, const struct llama_check *check,
                    struct error *error) {
    return check->is_used ||
           fail(error, EXIT_USER, "%s: cannot use kvmill: %s", program->path, check->reason);
}

static bool check_program(const char *name, const char *adapter, struct error *error) {
    struct llama_program program;
    struct llama_check check;
    if (!find_ggml(name, &program, error) || !llama_check(&program, adapter, &check, error))
        return false;
    print_check(&program, adapter, &check);
    return is_used(&program, &check, error);
}

/* ---- Measuring ---- */

static void print_number(const struct calibration_number *number, const struct llama_gains *gains) {
    const char *before = "; with";
    print_shown(stdout, "%-10s %8" PRId64, number->name, number->accepted[gains->count - 1]);
    for (int i = 0; i < gains->count; i++) {
        print_shown(stdout, "%s %" PRId64 ": %.2f times as fast", before, number->accepted[i],
                    gains->of[i]);
        before = ", with";
    }
    print_shown(stdout, "\n");
}

static bool calibrate_for(const char *name, const char *adapter, struct error *error) {
    struct llama_program program;
    struct llama_check check;
    char path[CALIBRATION_PATH];
    if (!find_ggml(name, &program, error) || !calibration_place(NULL, path, error) ||
        !llama_measure(&program, adapter, &check, error) || !is_used(&program, &check, error))
        return false;
    struct calibration calibration = calibration_of(path);
    for (int i = KERNEL_NUMBERS; i < CALIBRATION_NUMBERS; i++) {
        const struct calibration_number *number = &kvmill_calibration_numbers[i];
        *kvmill_calibration_at(&calibration, number) = number->accepted[check.gains[i].count - 1];
        print_number(number, &check.gains[i]);
    }
    if (!calibration_write(&calibration, path, getenv("KVMILL_CALIBRATION") != NULL, error))
        return false;
    print_shown(stdout, "%s: written\n", path);
    return true;
}

/* ---- Running a program ---- */

static bool is_flash_option(const char *argument) {
    return strcmp(argument, "-fa") == 0 || strncmp(argument, "--flash-attn", 12) == 0;
}

/* Turns flash attention on, unless the user has said whether it is.  llama.cpp's own default turns
   it off, because it would run on another device than the rest of the layer. */
static bool turn_flash_on(char *const *arguments) {
    for (int i = 1; arguments[i] != NULL; i++)
        if (is_flash_option(arguments[i]))
            return true;
    return setenv("LLAMA_ARG_FLASH_ATTN", "on", 0) == 0;
}

static bool set_environment(const char *adapter, char *const *arguments) {
    const char *others = getenv("LD_PRELOAD");
    char *preloaded, process[24];
    snprintf(process, sizeof process, "%ld", (long)getpid());
    if (asprintf(&preloaded, "%s%s%s", adapter, others && *others ? ":" : "",
                 others ? others : "") < 0)
        return false;
    bool done = setenv("LD_PRELOAD", preloaded, 1) == 0 &&
                setenv("KVMILL_LAUNCHED", process, 1) == 0 && unsetenv("GGML_BACKEND_PATH") == 0 &&
                turn_flash_on(arguments);
    free(preloaded);
    return done;
}

static void say_what_is_done(const char *path, const char *adapter) {
    const char *flash = getenv("LLAMA_ARG_FLASH_ATTN");
    print_shown(stderr, "kvmill llama: %s is preloaded into %s%s%s\n", adapter, path,
                flash ? "; LLAMA_ARG_FLASH_ATTN=" : "", flash ? flash : "");
}

/* Becomes the program.  Returns only if that fails. */
static bool become(const char *name, char **arguments, const char *adapter, struct error *error) {
    struct llama_program program;
    if (!llama_program_find(name, &program, error) || !llama_program_ggml(&program, error))
        return false;
    if (!set_environment(adapter, arguments))
        return out_of_memory(error);
    say_what_is_done(program.path, adapter);
    fflush(NULL);
    signal(SIGXFSZ, SIG_DFL);
    execv(program.path, arguments);
    return fail(error, errno == ENOMEM ? EXIT_ENVIRONMENT : EXIT_USER, "%s: cannot run it: %s",
                program.path, strerror(errno));
}

/* ---- The command ---- */

/* Finds the option of which this command takes one, instead of a program to run. */
static bool find_action(const struct options *given, const char **action, struct error *error) {
    static const char *const actions[] = {"check", "calibrate"};
    const char *other = given->rest_count > 0 ? given->rest[0] : NULL;
    *action = NULL;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (option_value(given, actions[i]) == NULL)
            continue;
        if (other != NULL)
            return fail(error, EXIT_USER,
                        "kvmill llama: --%s and \"%.200s\"; accepted: one of them", actions[i],
                        other);
        *action = other = actions[i];
    }
    return other != NULL ||
           fail(error, EXIT_USER,
                "kvmill llama: no program; accepted: kvmill llama -- PROGRAM [ARGUMENTS], "
                "kvmill llama --check PROGRAM, kvmill llama --calibrate PROGRAM");
}

static bool llama(const struct options *given, struct error *error) {
    const char *action, *adapter = option_value(given, "adapter");
    char path[PATH_MAX];
    if (!find_action(given, &action, error) ||
        !llama_adapter_find(adapter ? adapter : adapter_file, path, error))
        return false;
    if (action == NULL)
        return become(given->rest[0], given->rest, path, error);
    return (strcmp(action, "check") == 0 ? check_program
                                         : calibrate_for)(option_value(given, action), path, error);
}

static const struct option_help options[] = {
    {"adapter", "LIBRARY", "the adapter (default: libggml-kvmill.so, in this directory)",
     &file_values},
    {"check", "PROGRAM", "only say whether this program, or library, can use kvmill", &file_values},
    {"calibrate", "PROGRAM", "measure which nodes are left to its ggml, for all later runs",
     &file_values},
    {NULL, NULL, NULL, NULL},
};

const struct command llama_command = {
    .name = "llama",
    .synopsis =
        "[--adapter LIBRARY] (-- PROGRAM [ARGUMENTS] | --check PROGRAM | --calibrate PROGRAM)",
    .summary = "Run a program of llama.cpp with kvmill's attention.",
    .options = options,
    .runs_others = true,
    .run = llama,
};
