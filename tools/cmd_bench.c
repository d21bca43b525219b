/* kvmill bench: the kernels of a pack against what the machine can do.

   SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../bench/bench_rows.h"
#include "built_pack.h"
#include "commands.h"
#include "inputs.h"

static const struct option_help options[] = {
    INPUT_OPTIONS,
    {"threads", "N", "most threads to measure with (all of this machine)"},
    {"json", "FILE", "write the results there too"},
    {NULL, NULL, NULL},
};

/* ---- Where kernels and specs come from ---- */

static char *join(const char *directory, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

/* The one lib*.so there is in a pack's directory. */
static char *find_library(const char *directory) {
    glob_t found;
    char *path = join(directory, "lib*.so");
    if (path != NULL && glob(path, 0, NULL, &found) == 0) {
        free(path);
        path = strdup(found.gl_pathv[0]);
        globfree(&found);
    }
    return path;
}

static bool is_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static char *directory_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
}

/* A pack's directory, or a library in it; the loader looks along its own path for a name without
   a slash. */
static bool load_pack(const char *path, struct built_pack *built, struct spec_list *specs,
                      struct error *error) {
    bool whole = is_directory(path);
    char *directory = whole ? strdup(path) : directory_of(path);
    char *file = whole ? find_library(path) : strchr(path, '/') ? strdup(path) : join(".", path);
    char *specs_file = directory ? join(directory, "specs.json") : NULL;
    bool done =
        (file != NULL && specs_file != NULL) || fail(error, EXIT_ENVIRONMENT, "out of memory");
    done = done && specs_read(specs_file, specs, error) && built_pack_load(file, built, error);
    free(directory);
    free(file);
    free(specs_file);
    return done;
}

/* ---- Results ---- */

static void print_results(const struct bench_results *results) {
    printf("%-58s %7s %12s %8s  %-15s %6s  %s\n", "CASE", "THREADS", "TIME", "GB/S", "AGAINST",
           "RATIO", "KERNEL");
    for (int i = 0; i < results->count; i++) {
        const struct bench_result *r = &results->items[i];
        printf("%-58s %7d %9.3f us %8.2f  %-15s %6.2f  %s\n", r->what, r->threads, r->seconds * 1e6,
               r->bytes / r->seconds / 1e9, r->limit, r->limit_seconds / r->seconds, r->kernel);
    }
}

static json_t *json_of(const struct bench_results *results) {
    json_t *array = json_array();
    for (int i = 0; i < results->count; i++) {
        const struct bench_result *r = &results->items[i];
        json_array_append_new(array, json_pack("{s:s, s:s, s:i, s:f, s:f, s:s, s:f, s:f}", "case",
                                               r->what, "kernel", r->kernel, "threads", r->threads,
                                               "seconds", r->seconds, "bytes", r->bytes, "against",
                                               r->limit, "against_seconds", r->limit_seconds,
                                               "ratio", r->limit_seconds / r->seconds));
    }
    return json_pack("{s:o}", "results", array);
}

static bool write_json(const char *path, const struct bench_results *results, struct error *error) {
    json_t *document = json_of(results);
    bool done = json_dump_file(document, path, JSON_INDENT(1) | JSON_PRESERVE_ORDER) == 0 ||
                fail_errno(error, "write", path);
    json_decref(document);
    return done;
}

/* ---- The command ---- */

/* One row of 128 float16, in a pack of its own: what the call costs, not what the row does. */
static bool make_call_spec(struct spec_list *specs, struct error *error) {
    static const int64_t past[] = {1, 1, 4, 128}, update[] = {1, 1, 1, 128}, batch[] = {1};
    struct spec *spec = spec_list_append(specs, error);
    if (spec == NULL)
        return false;
    scatter_spec_begin(spec, "linear", kvmill_dtype_by_name("float16")->dl);
    return spec_set_shape(&spec->scatter.past_cache, past, 4, error) &&
           spec_set_shape(&spec->scatter.update, update, 4, error) &&
           spec_set_shape(&spec->scatter.write_indices, batch, 1, error);
}

static bool bench_one_call(struct bench_results *results, struct error *error) {
    struct spec_list specs = {0};
    struct isa_list isas;
    struct pack pack = {.name = "call", .specs = &specs};
    struct built_pack built = {0};
    bool done = isa_list_parse(NULL, &isas, error) && make_call_spec(&specs, error) &&
                specs_kernels(&specs, &isas, &pack.kernels, error) &&
                built_pack_make(&pack, &built, error) &&
                bench_call(&specs.items[0], built.pack, results, error);
    built_pack_free(&built);
    kernel_list_free(&pack.kernels);
    spec_list_free(&specs);
    return done;
}

static bool bench_all(const struct spec_list *specs, const kvmill_pack *pack, int threads,
                      struct bench_results *results, struct error *error) {
    bool terminal = isatty(STDERR_FILENO);
    if (!bench_one_call(results, error))
        return false;
    for (size_t i = 0; i < specs->count; i++) {
        if (terminal)
            fprintf(stderr, "\rspec %zu of %zu ", i + 1, specs->count);
        if (!bench_rows(&specs->items[i], pack, threads, results, error))
            return false;
    }
    if (terminal)
        fprintf(stderr, "\r                    \r");
    return true;
}

static bool open_pack(const struct options *given, struct inputs *inputs, struct built_pack *built,
                      struct error *error) {
    if (given->rest_count == 1)
        return load_pack(given->rest[0], built, &inputs->specs, error);
    return inputs_read(given, NULL, inputs, error) && built_pack_make(&inputs->pack, built, error);
}

static bool bench(const struct options *given, struct error *error) {
    static struct bench_results results;
    struct inputs inputs = {0};
    struct built_pack built = {0};
    long threads = sysconf(_SC_NPROCESSORS_ONLN);
    const char *json = option_value(given, "json");
    bool done = option_integer(given, "threads", 1, 256, &threads, error) &&
                open_pack(given, &inputs, &built, error) &&
                bench_all(&inputs.specs, built.pack, (int)threads, &results, error);
    if (done)
        print_results(&results);
    done = done && (json == NULL || write_json(json, &results, error));
    built_pack_free(&built);
    inputs_free(&inputs);
    return done;
}

const struct command bench_command = {
    .name = "bench",
    .synopsis = "PACK | (--model CONFIG | --kernels SPECS) [options]",
    .summary = "Time the kernels of a pack against what the machine can do, in one run.",
    .options = options,
    .run = bench,
};
