/* kvmill bench: compares the kernels of a pack with the machine's limits.

   SPDX-License-Identifier: Apache-2.0 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/json.h"
#include "../base/text.h"
#include "../bench/bench.h"
#include "../bench/memory.h"
#include "../gen/generators.h"
#include "../gen/places.h"
#include "../import/spec_file.h"
#include "bench_words.h"
#include "best_isa.h"
#include "built_pack.h"
#include "commands.h"
#include "inputs.h"
#include "make.h"

static const struct option_help options[] = {
    INPUT_OPTIONS,
    {"threads", "N", "most threads to measure with (default: all of this machine)", NULL},
    {"huge-pages", NULL, "caches in huge pages (default: in pages of the usual size)", NULL},
    {"bars", NULL, "attention at every size with a target speed (takes most of an hour)", NULL},
    {"words", NULL, "each word of templates/words alone, on each instruction set of this CPU",
     NULL},
    COMPILE_OPTIONS,
    {"json", "FILE", "also write the results to FILE", &file_values},
    {NULL, NULL, NULL, NULL},
};

/* ---- Kernels and specs ---- */

/* Returns the path of the lib*.so in a pack's directory, to be freed, or NULL if out of memory.
   Without such a file, it is "DIRECTORY/lib*.so", which fails to load. */
static char *find_library(const char *directory) {
    glob_t found;
    char *path = path_join(directory, "lib*.so");
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

/* Loads a pack from its directory, or from a library in it, and reads its specs.  A file name
   without a slash gets "./": otherwise the loader would search only its own path. */
static bool load_pack(const char *path, struct built_pack *built, struct spec_list *specs,
                      struct error *error) {
    if (access(path, F_OK) != 0)
        return fail_to_use(error, "read", path);
    bool whole = is_directory(path);
    char *directory = whole ? strdup(path) : directory_of(path);
    char *file = whole               ? find_library(path)
                 : strchr(path, '/') ? strdup(path)
                                     : path_join(".", path);
    char *specs_file = directory ? path_join(directory, "specs.json") : NULL;
    bool done = (file != NULL && specs_file != NULL) || out_of_memory(error);
    done = done && specs_read(specs_file, specs, error) && built_pack_load(file, built, error);
    free(directory);
    free(file);
    free(specs_file);
    return done;
}

/* ---- Results ---- */

static void print_rate(const struct bench_result *r) {
    if (r->flops > 0)
        print_shown(stdout, " %9.1f GFLOP/s", r->flops / r->seconds / 1e9);
    else if (r->bytes > 0)
        print_shown(stdout, " %9.2f GB/s   ", r->bytes / r->seconds / 1e9);
    else
        print_shown(stdout, " %17s", "");
}

static void print_figures(const struct bench_result *r) {
    char bytes[16] = "", cycles[16] = "", share[16] = "";
    if (r->rows > 0 && r->bytes > 0)
        snprintf(bytes, sizeof bytes, "%.2f", r->bytes / (1 << 20));
    if (r->rows > 0)
        snprintf(cycles, sizeof cycles, "%.1f", bench_cycles(r));
    if (r->one > 0)
        snprintf(share, sizeof share, "%.2f", bench_share_of_core(r));
    print_shown(stdout, " %8s %7s %5s", bytes, cycles, share);
}

static void print_limit(const struct bench_result *r) {
    char bar[16] = "", ratio[16] = "", mark = r->limit == NULL || bench_is_trusted(r) ? ' ' : '?';
    if (r->limit != NULL)
        snprintf(ratio, sizeof ratio, "%.2f", bench_ratio(r));
    if (r->bar > 0)
        snprintf(bar, sizeof bar, "%.2f", r->bar);
    print_shown(stdout, "  %-15s %6s%c%5s %-5s  %s\n", r->limit ? r->limit : "", ratio, mark, bar,
                bench_verdict(r), r->kernel);
}

static void print_results(const struct bench_results *results) {
    bool attends = false;
    int doubted = bench_doubted(results);
    print_shown(stdout, "%-66s %7s %14s %17s %8s %7s %5s  %-15s %6s %5s %-5s  %s\n", "CASE",
                "THREADS", "TIME", "RATE   ", "MIB", "CYCLES", "CORE", "AGAINST", "RATIO", "BAR",
                "", "KERNEL");
    for (int i = 0; i < results->count; i++) {
        const struct bench_result *r = &results->items[i];
        print_shown(stdout, "%-66s %7d %11.3f us", r->what, r->threads, r->seconds * 1e6);
        print_rate(r);
        print_figures(r);
        attends |= r->rows > 0;
        print_limit(r);
    }
    if (bench_memory_is_huge())
        print_shown(stdout, "All memory was in huge pages as far as the system had them.\n");
    if (attends)
        print_shown(stdout,
                    "CYCLES: of a token and kv head; CORE: the share of what one core reads.\n");
    if (doubted > 0)
        print_shown(stdout, "?: something else ran meanwhile, or the limit varied by more than a "
                            "tenth.\n");
    if (4 * doubted > results->count)
        print_shown(stdout, "This machine was not quiet: do not trust %d of these %d cases.\n",
                    doubted, results->count);
}

static json_t *json_of_result(const struct bench_result *r) {
    json_t *object = json_pack("{s:s, s:s, s:i, s:f}", "case", r->what, "kernel", r->kernel,
                               "threads", r->threads, "seconds", r->seconds);
    json_set_positive(object, "bytes", r->bytes);
    json_set_positive(object, "flops", r->flops);
    if (r->limit != NULL)
        json_object_set_new(object, "against", json_string(r->limit));
    json_set_positive(object, "against_seconds", r->limit_seconds);
    json_set_positive(object, "ratio", bench_ratio(r));
    json_set_positive(object, "bar", r->bar);
    json_set_positive(object, "cycles", bench_cycles(r));
    json_set_positive(object, "share_of_core", bench_share_of_core(r));
    json_set_positive(object, "spread", r->spread);
    json_set_positive(object, "disturbed", r->disturbed);
    return object;
}

static json_t *json_of(const struct bench_results *results) {
    json_t *array = json_array();
    for (int i = 0; i < results->count; i++)
        json_array_append_new(array, json_of_result(&results->items[i]));
    return json_pack("{s:b, s:o}", "huge_pages", bench_memory_is_huge(), "results", array);
}

/* Writes directly to the path, which may be a pipe, for example. */
static bool save(const char *path, const struct text *text, struct error *error) {
    FILE *stream = fopen(path, "w");
    bool written = stream != NULL && fwrite(text->data, 1, text->length, stream) == text->length;
    bool closed = stream != NULL && fclose(stream) == 0;
    return (written && closed) || fail_errno(error, "write", path);
}

/* Takes the object. */
static bool write_json(const char *path, json_t *object, struct error *error) {
    struct text text = {0};
    bool done = json_write(object, &text, error) && save(path, &text, error);
    text_free(&text);
    return done;
}

static const int64_t limit_bytes = 1 << 30;

/* ---- All cases ---- */

/* Makes a spec that stores one row of 128 float16: the time is that of the call, not of the
   copy. */
static bool make_call_spec(struct spec_list *specs, struct error *error) {
    static const int64_t past[] = {1, 1, 4, 128}, update[] = {1, 1, 1, 128}, batch[] = {1};
    struct spec *spec = spec_list_append(specs, error);
    if (spec == NULL)
        return false;
    scatter_spec_begin(spec, "linear", kvmill_float16);
    return spec_set_shape(&spec->scatter.past_cache, past, 4, error) &&
           spec_set_shape(&spec->scatter.update, update, 4, error) &&
           spec_set_shape(&spec->scatter.write_indices, batch, 1, error);
}

static bool bench_one_call(struct bench_results *results, struct error *error) {
    struct spec_list specs = {0};
    struct isa_list isas;
    struct pack pack = {.name = "call", .specs = &specs};
    struct built_pack built = {0};
    bool done = isa_list_parse(NULL, best_isa(), &isas, error) && make_call_spec(&specs, error) &&
                specs_kernels(&specs, &isas, &pack.kernels, error) &&
                built_pack_make(&pack, &built, error) &&
                bench_call(&specs.items[0], built.pack, results, error);
    built_pack_free(&built);
    kernel_list_free(&pack.kernels);
    spec_list_free(&specs);
    return done;
}

static bool has(const struct spec_list *specs, enum op_family family) {
    for (size_t i = 0; i < specs->count; i++)
        if (spec_is(&specs->items[i], family))
            return true;
    return false;
}

static bool has_attention(const struct spec_list *specs) {
    return has(specs, OP_CACHE_ATTENTION) || has(specs, OP_ATTENTION);
}

static bool bench_all(const struct spec_list *specs, const struct scene_setting *setting,
                      struct bench_results *results, struct error *error) {
    bool terminal = isatty(STDERR_FILENO), done = true;
    if ((has(specs, OP_TENSOR_SCATTER) && !bench_one_call(results, error)) ||
        (has_attention(specs) &&
         !bench_limits(setting->threads, scene_rotation(limit_bytes), results, error)))
        return false;
    for (size_t i = 0; done && i < specs->count; i++) {
        if (terminal)
            fprintf(stderr, "\rspec %zu of %zu ", i + 1, specs->count);
        done = bench_spec(&specs->items[i], setting, results, error);
    }
    if (terminal)
        fprintf(stderr, "\r                    \r");
    return done;
}

/* ---- Inputs ---- */

/* Lists the instruction sets of this CPU, except scalar, separated by commas. */
static void usable_isas(char list[128]) {
    const char *name;
    size_t length = 0;
    list[0] = '\0';
    for (size_t i = 1; (name = kvmill_isa_name(i)) != NULL; i++)
        if (kvmill_isa_usable(name))
            length +=
                (size_t)snprintf(list + length, 128 - length, "%s%s", length ? "," : "", name);
}

static void give(struct options *options, const char *name, const char *value) {
    if (option_value(options, name) != NULL || options->count == MOST_OPTIONS)
        return;
    options->given[options->count].name = name;
    options->given[options->count++].value = value;
}

/* Reads the inputs.  --bars reads the specs of configs/bars.json, for the instruction sets that
   this CPU has. */
static bool read_inputs(const struct options *given, struct inputs *inputs, struct error *error) {
    struct options options = *given;
    char isas[128], *bars = path_join(data_directory(), "configs/bars.json");
    if (bars == NULL)
        return out_of_memory(error);
    usable_isas(isas);
    if (option_value(given, "bars") && isas[0])
        give(&options, "isa", isas);
    if (option_value(given, "bars") && !option_value(given, "model"))
        give(&options, "kernels", bars);
    bool done = inputs_read(&options, NULL, inputs, error);
    free(bars);
    return done;
}

static bool open_pack(const struct options *given, struct inputs *inputs, struct built_pack *built,
                      struct error *error) {
    if (given->rest_count == 1)
        return load_pack(given->rest[0], built, &inputs->specs, error);
    return read_inputs(given, inputs, error) && built_pack_make(&inputs->pack, built, error);
}

/* ---- The command ---- */

static bool is_for_words(const char *option) {
    static const char *const names[] = {"words", "isa", "json", "compile-timeout"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(option, names[i]) == 0)
            return true;
    return false;
}

static bool time_words(const struct options *given, struct error *error) {
    const char *json = option_value(given, "json");
    json_t *results = NULL;
    for (int i = 0; i < given->count; i++)
        if (!is_for_words(given->given[i].name))
            return fail(error, EXIT_USER,
                        "--words: is given with --%s; accepted with it: --isa, --json, "
                        "--compile-timeout",
                        given->given[i].name);
    if (given->rest_count > 0)
        return fail(error, EXIT_USER, "--words: is given with a pack, %s; words need none",
                    given->rest[0]);
    bool done = make_read_options(given, error) && bench_words(given, &results, error);
    if (done && json != NULL)
        return write_json(json, results, error);
    json_decref(results);
    return done;
}

static bool bench_kernels(const struct options *given, struct error *error) {
    static struct bench_results results;
    struct inputs inputs = {0};
    struct built_pack built = {0};
    long threads = sysconf(_SC_NPROCESSORS_ONLN);
    const char *json = option_value(given, "json");
    bool done = option_integer(given, "threads", 1, 256, &threads, error) &&
                make_read_options(given, error) &&
                (option_value(given, "huge-pages") == NULL || bench_memory_use_huge_pages(error)) &&
                open_pack(given, &inputs, &built, error);
    const struct scene_setting setting = {built.pack, (int)threads,
                                          option_value(given, "bars") != NULL, ATTENTION_ROTATION};
    done = done && bench_all(&inputs.specs, &setting, &results, error);
    if (results.count > 0)
        print_results(&results);
    json_watch();
    done = done && (json == NULL || write_json(json, json_of(&results), error));
    built_pack_free(&built);
    inputs_free(&inputs);
    return done;
}

static bool bench(const struct options *given, struct error *error) {
    return option_value(given, "words") ? time_words(given, error) : bench_kernels(given, error);
}

const struct command bench_command = {
    .name = "bench",
    .synopsis = "PACK | (--model CONFIG | --kernels SPECS | --bars | --words) [options]",
    .summary = "Time kernels and compare them with the machine's limits, in the same run.",
    .options = options,
    .arguments = &file_values,
    .run = bench,
};
