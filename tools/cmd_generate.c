/* kvmill generate: generates a pack from a model or from specs.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../base/terminal.h"
#include "../base/text.h"
#include "../gen/ffi.h"
#include "calibrated.h"
#include "commands.h"
#include "inputs.h"
#include "make.h"
#include "pack_cache.h"
#include "tuned.h"

static const struct option_help options[] = {
    INPUT_OPTIONS,
    {"o", "DIR", "directory for the pack: new, empty, or with an older pack (required)",
     &directory_values},
    {"force", NULL, "write to any directory, and overwrite files with the same names", NULL},
    {"build", NULL, "also compile the pack: make -C DIR", NULL},
    {"keep", NULL, "compile once in the cache directory, and print the library's path (without -o)",
     NULL},
    COMPILE_OPTIONS,
    {"ffi", NULL, "add a handler for each gather and scatter, for jitted JAX", NULL},
    {"tuned", "DB", "use tuning results: a database, a text or a directory; may be repeated",
     &file_values},
    {"calibration", "FILE", "compile in a file that kvmill calibrate wrote", &file_values},
    {NULL, NULL, NULL, NULL},
};

static void print_handlers(const struct pack *pack) {
    char name[HANDLER_SIZE];
    for (size_t i = 0; pack->handlers && i < pack->specs->count; i++)
        if (handler_of(&pack->specs->items[i]) != NULL) {
            handler_name(pack, i, name);
            print_shown(stdout, "  %s: %s\n", name, pack->specs->items[i].where);
        }
}

static bool write_pack(const struct inputs *inputs, const char *directory, struct error *error) {
    struct output output = {0};
    int written = 0;
    say_doing("generating pack", inputs->name);
    bool done = pack_files(&inputs->pack, &output, error) &&
                pack_write(&output, directory, &written, error);
    say_done();
    if (done)
        print_shown(stdout,
                    "%s: pack %s, %zu kernels, about %lld KiB of code; %d of %zu files written\n",
                    directory, inputs->name, inputs->pack.kernels.count,
                    (long long)(pack_code_bytes(&inputs->pack, &output, NULL) + 1023) / 1024,
                    written, output.count);
    if (done)
        print_handlers(&inputs->pack);
    output_free(&output);
    return done;
}

/* Builds the pack in the cache.  Prints only its path to standard output. */
static bool keep_pack(const struct inputs *inputs, struct error *error) {
    struct output output = {0};
    struct pack_cache cache = {.directory = -1};
    char *path = NULL;
    if (pack_files(&inputs->pack, &output, error) && pack_cache_open(&cache, error))
        path = pack_cache_keep(&cache, &output, inputs->name, error);
    bool done = path != NULL;
    if (done)
        print_shown(stdout, "%s\n", path);
    free(path);
    pack_cache_close(&cache);
    output_free(&output);
    return done;
}

static bool apply_tuned(const struct options *given, struct inputs *inputs, struct error *error) {
    struct sweeps sweeps = {0};
    bool done = tuned_read(given, &sweeps, error) &&
                tuned_apply(&sweeps, &inputs->isas, &inputs->pack, error);
    sweeps_free(&sweeps);
    return done;
}

static bool choose_handlers(const struct options *given, struct inputs *inputs,
                            struct error *error) {
    inputs->pack.handlers = option_value(given, "ffi") != NULL;
    return !inputs->pack.handlers || check_handlers(&inputs->pack, error);
}

/* Removes libraries of an earlier pack, because they do not match the new sources. */
static void remove_libraries(const char *directory, const char *name) {
    static const char *const endings[] = {"a", "so"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct text path = {0};
        if (text_print(&path, "%s/lib%s.%s", directory, name, endings[i]))
            unlink(path.data);
        text_free(&path);
    }
}

static bool build(const char *directory, const char *name, struct error *error) {
    bool done = run_make(directory, NULL, error);
    if (!done)
        remove_libraries(directory, name);
    return done;
}

static bool deliver(const struct options *given, const char *directory, const struct inputs *inputs,
                    struct error *error) {
    bool done = write_pack(inputs, directory, error);
    fflush(stdout);
    bool built = option_value(given, "build") != NULL;
    done = done && (!built || build(directory, inputs->name, error));
    if (done)
        say_next(built ? "kvmill bench" : "make -C", directory, "");
    return done;
}

/* Requires -o DIR, or --keep without options about a directory. */
static bool check_target(const struct options *given, const char *directory, struct error *error) {
    bool keep = option_value(given, "keep") != NULL;
    if (directory == NULL && !keep)
        return fail(error, EXIT_USER, "no directory to write to; accepted: -o DIR");
    if (keep && (directory || option_value(given, "force") || option_value(given, "build")))
        return fail(error, EXIT_USER,
                    "--keep chooses the directory itself; accepted without -o, "
                    "--force and --build");
    return keep || option_value(given, "force") || pack_target_check(directory, error);
}

static bool generate(const struct options *given, struct error *error) {
    struct inputs inputs = {0};
    const char *directory = option_value(given, "o");
    const char *calibration = option_value(given, "calibration");
    bool done =
        check_target(given, directory, error) && make_read_options(given, error) &&
        inputs_read(given, directory, &inputs, error) && choose_handlers(given, &inputs, error) &&
        (option_value(given, "tuned") == NULL || apply_tuned(given, &inputs, error)) &&
        (calibration == NULL || calibrated_apply(calibration, &inputs.pack, error)) &&
        (directory != NULL ? deliver(given, directory, &inputs, error) : keep_pack(&inputs, error));
    inputs_free(&inputs);
    return done;
}

const struct command generate_command = {
    .name = "generate",
    .synopsis = "(--model CONFIG | --kernels SPECS) [options] -o DIR",
    .summary = "Write a pack: specialised kernels in C, with a Makefile that builds them.",
    .options = options,
    .run = generate,
};
