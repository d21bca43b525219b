/* SPDX-License-Identifier: Apache-2.0 */
#include "pack.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/signals.h"
#include "../defs/format.h"
#include "../spec/flow_spec.h"
#include "c_text.h"
#include "ffi.h"
#include "formats.h"
#include "generators.h"
#include "m4.h"
#include "places.h"
#include "words.h"

/* Fails if the result is empty: then the program is not m4. */
static bool expand_file(const struct expansion *expansion, struct text *text, struct error *error) {
    return expand(expansion, text, error) &&
           (text->length > 0 ||
            fail(error, EXIT_ENVIRONMENT, "m4 printed nothing; KVMILL_M4 must name GNU m4"));
}

/* ---- Kernels ---- */

static bool define_tuning(struct expansion *expansion, const char *tuning) {
    char name[TUNING_SIZE];
    int64_t value;
    while (next_tunable(&tuning, name, &value))
        if (!define_integer(expansion, name, value))
            return false;
    return true;
}

/* The definitions for templates/lib/base.m4, which keeps constants. */
static bool define_constant(struct expansion *expansion, const char *name, int64_t value) {
    return value == 0 ||
           text_print(&expansion->definitions, "km_constant(«%s», «%" PRId64 "»)", name, value);
}

static bool define_field(struct expansion *expansion, const struct field *field, int64_t value) {
    return is_constant(field) ? define_constant(expansion, field->name, value)
           : field->prefix    ? define_integer(expansion, field->name, value)
                              : define_text(expansion, field->name, field_word(field, value));
}

static bool print_features(struct text *features, const struct isa *isa) {
    const struct isa *extended = kvmill_isa_extended(isa);
    if (extended != NULL && !print_features(features, extended))
        return false;
    bool is_next = features->data != NULL && *features->data != '\0' && *isa->features != '\0';
    return text_print(features, "%s%s", is_next ? "," : "", isa->features);
}

/* Defines what kernels are compiled for: features of the instruction set, and of those that it
   extends. */
static bool define_isa(struct expansion *expansion, const struct isa *isa) {
    struct text features = {0};
    bool done = print_features(&features, isa) && define_text(expansion, "isa", isa->name) &&
                define_text(expansion, "target", features.data) &&
                define_integer(expansion, "lanes", isa->lanes);
    text_free(&features);
    return done;
}

static bool define_kernel(struct expansion *expansion, const struct kernel *kernel,
                          const char *symbol) {
    bool done = define_text(expansion, "symbol", symbol) &&
                define_text(expansion, "variant", kernel->variant) &&
                define_isa(expansion, kernel->isa) &&
                define_integer(expansion, "straight_units", straight_line_units(kernel->isa));
    for (int i = 0; done && i < kernel->family->field_count; i++)
        done = define_field(expansion, &kernel->family->fields[i], kernel->value[i]);
    return done && define_tuning(expansion, kernel->tuning) &&
           (!kernel->family->formats || define_formats(expansion)) &&
           (kernel->family->define == NULL || kernel->family->define(kernel, expansion));
}

/* The files of one expansion, in order. */
struct files {
    char paths[MOST_TEMPLATES][128];
    int count;
};

static void add_path(struct files *files, const char *directory, const char *name) {
    char *path = files->paths[files->count++];
    snprintf(path, sizeof files->paths[0], "%s/%s.m4", directory, name);
    for (int i = 0; i < files->count - 1; i++)
        if (strcmp(files->paths[i], path) == 0)
            files->count--;
}

static void add_kernel_path(struct files *files, const struct family *family, const char *name) {
    char folder[64];
    snprintf(folder, sizeof folder, "kernel/%s", family->folder);
    add_path(files, folder, name);
}

/* Adds what all formats share, then the file of each format with arithmetic of its own. */
static void add_formats(struct files *files) {
    const struct kvmill_format_parts *parts;
    add_path(files, "format", "rows");
    for (int i = 1; (parts = kvmill_format_parts(i)) != NULL; i++)
        if (parts->template != NULL)
            add_path(files, "format", parts->template);
}

static void add_types(struct files *files, const struct kernel *kernel) {
    if (kernel->family->formats)
        add_formats(files);
    for (int i = 0; i < kernel->family->field_count; i++)
        if ((kernel->family->fields[i].flags & FIELD_TYPE) != 0)
            add_path(files, "format", field_word(&kernel->family->fields[i], kernel->value[i]));
}

/* Lists the library, definitions, the CPU and its contract, element types, tunables. */
static void list_files(struct files *files, const struct kernel *kernel) {
    add_path(files, "lib", "base");
    add_path(files, "lib", "tunables");
    add_path(files, "lib", "words");
    add_path(files, "lib", "vectors");
    strcpy(files->paths[files->count++], "-");
    add_path(files, "cpu", kvmill_cpus[kernel->isa->cpu]);
    add_path(files, "cpu", "contract");
    add_path(files, "lib", "kernel");
    add_types(files, kernel);
    if (kernel->family->tunables != NULL)
        add_kernel_path(files, kernel->family, kernel->family->tunables);
}

static void add_algorithm(struct files *files, const struct kernel *kernel) {
    char variant[96];
    for (int i = 0; kernel->family->libraries[i] != NULL; i++)
        add_kernel_path(files, kernel->family, kernel->family->libraries[i]);
    snprintf(variant, sizeof variant, "%s_%s.c", kernel->family->name, kernel->variant);
    add_kernel_path(files, kernel->family, variant);
}

static bool expand_kernel(const struct kernel *kernel, const struct files *files, struct text *text,
                          struct error *error) {
    char symbol[SYMBOL_SIZE];
    struct expansion expansion = {.files = {NULL}};
    for (int i = 0; i < files->count; i++)
        expansion.files[i] = files->paths[i];
    kernel_symbol(kernel, symbol);
    bool done = define_kernel(&expansion, kernel, symbol) || out_of_memory(error);
    done = done && expand_file(&expansion, text, error);
    text_free(&expansion.definitions);
    return done;
}

bool kernel_source(const struct kernel *kernel, struct text *text, struct error *error) {
    struct files files = {.count = 0};
    if (kernel->family->complete != NULL && !kernel->family->complete(kernel, error))
        return false;
    size_t before = text->length;
    list_files(&files, kernel);
    add_algorithm(&files, kernel);
    return expand_kernel(kernel, &files, text, error) &&
           words_paste(kernel->isa->name, text, before, error) && c_text_tidy(text, before, error);
}

bool kernel_space(const struct kernel *kernel, struct text *text, struct error *error) {
    struct files files = {.count = 0};
    if (kernel->family->tunables == NULL)
        return true;
    list_files(&files, kernel);
    add_path(&files, "lib", "space");
    return expand_kernel(kernel, &files, text, error);
}

static bool add_kernel(const struct kernel *kernel, struct output *output, struct error *error) {
    char symbol[SYMBOL_SIZE], name[SYMBOL_SIZE + 2];
    kernel_symbol(kernel, symbol);
    snprintf(name, sizeof name, "%s.c", symbol);
    struct output_file *file = output_add(output, name, error);
    return file != NULL && kernel_source(kernel, &file->text, error);
}

/* ---- The other files of a pack ---- */

static bool define_symbols(struct expansion *expansion, const struct kernel_list *kernels) {
    struct text symbols = {0};
    char symbol[SYMBOL_SIZE];
    bool done = true;
    for (size_t i = 0; done && i < kernels->count; i++) {
        kernel_symbol(&kernels->items[i], symbol);
        done = text_print(&symbols, "%s%s", i ? ", " : "", symbol);
    }
    done = done && define_text(expansion, "symbols", symbols.data ? symbols.data : "");
    text_free(&symbols);
    return done;
}

/* Defines calls of km_measured_row. */
static bool define_measured(struct expansion *expansion, const struct measured_list *list) {
    struct text rows = {0};
    char symbol[SYMBOL_SIZE];
    bool done = true;
    for (size_t i = 0; done && i < list->count; i++) {
        const struct measured_kernel *item = &list->items[i];
        kernel_symbol(&item->kernel, symbol);
        done = text_print(
            &rows, "km_measured_row(«%s», %d, %" PRId64 ", %" PRId64 ", %" PRId64 ", «%s»)", symbol,
            item->choice, item->size.batch, item->size.tokens, item->size.positions, item->problem);
    }
    done = done && define_integer(expansion, "measured_count", (int64_t)list->count) &&
           define_text(expansion, "measured", rows.data ? rows.data : "");
    text_free(&rows);
    return done;
}

/* Defines calls of km_plan_function, one for each named spec. */
static bool define_plans(struct expansion *expansion, const struct spec_list *specs) {
    struct text plans = {0};
    bool done = true;
    for (size_t i = 0; done && i < specs->count; i++) {
        const struct spec *spec = &specs->items[i];
        const struct generator *generator = generator_of(spec);
        done = generator->define_plan == NULL || generator->define_plan(spec, &plans);
    }
    done = done && define_text(expansion, "plans", plans.data ? plans.data : "");
    text_free(&plans);
    return done;
}

/* Defines calls of km_flow_words. */
static bool define_flows(struct expansion *expansion, const struct spec_list *specs) {
    struct text flows = {0};
    bool done = true;
    for (size_t i = 0; done && i < specs->count; i++) {
        const struct spec *spec = &specs->items[i];
        const struct generator *generator = generator_of(spec);
        if (generator->words != NULL)
            done = text_print(&flows, "km_flow_words(«%s: ", spec->name[0] ? spec->name : "flow") &&
                   generator->words(spec, &flows) && text_print(&flows, "»)");
    }
    done = done && define_text(expansion, "flows", flows.data ? flows.data : "");
    text_free(&flows);
    return done;
}

/* Defines the names of the files that have a handler, separated by commas. */
static bool define_handlers(struct expansion *expansion, const struct pack *pack) {
    struct text names = {0};
    char name[HANDLER_SIZE];
    int count = 0;
    bool done = true;
    for (size_t i = 0; done && pack->handlers && i < pack->specs->count; i++)
        if (handler_of(&pack->specs->items[i]) != NULL) {
            handler_name(pack, i, name);
            done = text_print(&names, "%s%s", count++ ? ", " : "", name);
        }
    done = done && define_integer(expansion, "handler_count", count) &&
           define_text(expansion, "handlers", names.data ? names.data : "");
    text_free(&names);
    return done;
}

static bool define_pack(struct expansion *expansion, const struct pack *pack) {
    return define_text(expansion, "pack", pack->name) &&
           define_text(expansion, "version", KVMILL_VERSION) &&
           define_integer(expansion, "kernel_count", (int64_t)pack->kernels.count) &&
           define_symbols(expansion, &pack->kernels) &&
           define_measured(expansion, &pack->measured) && define_plans(expansion, pack->specs) &&
           define_flows(expansion, pack->specs) && define_handlers(expansion, pack);
}

/* Adds file `name` to the output, expanded from a template. */
static bool add_file(const struct pack *pack, const char *name, const char *template,
                     struct output *output, struct error *error) {
    struct output_file *file = output_add(output, name, error);
    struct expansion expansion = {.files = {"lib/base.m4", "-", template}};
    if (file == NULL)
        return false;
    bool done = define_pack(&expansion, pack) || out_of_memory(error);
    done = done && expand_file(&expansion, &file->text, error);
    text_free(&expansion.definitions);
    return done;
}

static bool add_named(const struct pack *pack, const char *suffix, const char *template,
                      struct output *output, struct error *error) {
    char name[128];
    snprintf(name, sizeof name, "%s%s", pack->name, suffix);
    return add_file(pack, name, template, output, error);
}

static bool add_handler(const struct pack *pack, size_t at, struct output *output,
                        struct error *error) {
    char handler[HANDLER_SIZE], name[HANDLER_SIZE + 2];
    const struct spec *spec = &pack->specs->items[at];
    const struct handler *own = handler_of(spec);
    struct expansion expansion = {.files = {"lib/base.m4", "-", "pack/ffi.m4", own->template}};
    handler_name(pack, at, handler);
    snprintf(name, sizeof name, "%s.c", handler);
    struct output_file *file = output_add(output, name, error);
    bool done = file != NULL &&
                ((define_text(&expansion, "pack", pack->name) &&
                  define_text(&expansion, "version", KVMILL_VERSION) &&
                  define_text(&expansion, "handler", handler) && own->define(&expansion, spec)) ||
                 out_of_memory(error)) &&
                expand_file(&expansion, &file->text, error);
    text_free(&expansion.definitions);
    return done;
}

static bool add_handlers(const struct pack *pack, struct output *output, struct error *error) {
    for (size_t i = 0; pack->handlers && i < pack->specs->count; i++)
        if (handler_of(&pack->specs->items[i]) != NULL && !add_handler(pack, i, output, error))
            return false;
    return true;
}

static bool add_specs(const struct pack *pack, struct output *output, struct error *error) {
    struct output_file *file = output_add(output, "specs.json", error);
    json_watch();
    return file != NULL && json_write(specs_write(pack->specs), &file->text, error);
}

/* A pack contains a copy of the header. */
static bool add_kernel_header(struct output *output, struct error *error) {
    char path[1280];
    struct output_file *file = output_add(output, "kvmill_kernel.h", error);
    snprintf(path, sizeof path, "%s/include/kvmill_kernel.h", data_directory());
    return file != NULL && (text_read_file(&file->text, path) || fail_errno(error, "read", path));
}

bool pack_files(const struct pack *pack, struct output *output, struct error *error) {
    for (size_t i = 0; i < pack->kernels.count; i++)
        if (!add_kernel(&pack->kernels.items[i], output, error))
            return false;
    return add_named(pack, ".c", "pack/registry.c.m4", output, error) &&
           add_named(pack, ".h", "pack/header.h.m4", output, error) &&
           add_named(pack, "_plan.h", "pack/plan.h.m4", output, error) &&
           add_named(pack, ".pc", "pack/pc.m4", output, error) &&
           add_named(pack, "Config.cmake", "pack/cmake.m4", output, error) &&
           add_file(pack, "Makefile", "pack/makefile.m4", output, error) &&
           add_handlers(pack, output, error) && add_specs(pack, output, error) &&
           add_kernel_header(output, error);
}

/* ---- Writing ---- */

static bool is_in(const struct output *output, const char *name) {
    for (size_t i = 0; i < output->count; i++)
        if (strcmp(output->files[i].name, name) == 0)
            return true;
    return false;
}

/* Whether `name` is the source or object of a kernel that is not in this pack. */
static bool is_stale(const struct output *output, const char *name) {
    char source[SYMBOL_SIZE + 2];
    struct kernel kernel;
    struct error ignored;
    size_t length = strlen(name);
    if (length < 3 || length >= sizeof source || name[length - 2] != '.' ||
        (name[length - 1] != 'c' && name[length - 1] != 'o'))
        return false;
    memcpy(source, name, length + 1);
    source[length - 2] = '\0';
    if (!kernel_parse(source, &kernel, &ignored))
        return false;
    strcpy(source + length - 2, ".c");
    return !is_in(output, source);
}

static void remove_stale(const struct output *output, const char *directory) {
    DIR *stream = opendir(directory);
    struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL)
        if (is_stale(output, entry->d_name))
            unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream != NULL)
        closedir(stream);
}

static bool write_and_sweep(const struct output *output, const char *directory, int *written,
                            struct error *error) {
    bool made;
    if (!output_make_directory(directory, &made, error))
        return false;
    bool done = output_write(output, directory, written, error);
    if (done)
        remove_stale(output, directory);
    else if (made)
        rmdir(directory);
    return done;
}

bool pack_write(const struct output *output, const char *directory, int *written,
                struct error *error) {
    sigset_t before = signals_hold();
    bool done = write_and_sweep(output, directory, written, error);
    signals_release(before);
    return done;
}

/* ---- Facts about a pack ---- */

bool measured_list_add(struct measured_list *list, const struct measured_kernel *measured,
                       struct error *error) {
    struct measured_kernel *items = realloc(list->items, (list->count + 1) * sizeof *list->items);
    if (items == NULL)
        return out_of_memory(error);
    list->items = items;
    items[list->count++] = *measured;
    return true;
}

void measured_list_free(struct measured_list *list) {
    free(list->items);
    *list = (struct measured_list){0};
}

/* Bytes of code for a line of C: the average of gcc 12 -O3 over the kernels of whole models. */
enum { LINE_CODE_BYTES = 14 };

int64_t source_code_bytes(const struct text *source) {
    int64_t lines = 0;
    for (size_t i = 0; i < source->length; i++)
        lines += source->data[i] == '\n';
    return lines * LINE_CODE_BYTES;
}

int64_t pack_code_bytes(const struct pack *pack, const struct output *files,
                        const struct isa *isa) {
    int64_t bytes = 0;
    for (size_t i = 0; i < pack->kernels.count; i++)
        if (isa == NULL || pack->kernels.items[i].isa == isa)
            bytes += source_code_bytes(&files->files[i].text);
    return bytes;
}

static bool is_identifier(const char *name) {
    size_t length = strlen(name);
    bool good = length > 0 && length <= 64 && !isdigit((unsigned char)name[0]);
    for (size_t i = 0; good && i < length; i++)
        good = isalnum((unsigned char)name[i]) || name[i] == '_';
    return good;
}

/* Words of the templates would be expanded, and names of the library's files would shadow them. */
static bool is_reserved(const char *name) {
    static const char *const ours[] = {
        "kvmill",        "kvmill_attention", "kvmill_core", "kvmill_ffi",       "kvmill_flow",
        "kvmill_kernel", "kvmill_openmp",    "kvmill_pool", "kvmill_stablehlo", NULL};
    const char *word = name + strspn(name, "_");
    for (int i = 0; ours[i] != NULL; i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return strncmp(word, "km_", 3) == 0 || strncmp(word, "m4_", 3) == 0 ||
           (name[0] >= 'A' && name[0] <= 'Z' && name[1] == '\0'); /* a loop counter */
}

bool pack_name_check(const char *name, struct error *error) {
    if (is_identifier(name) && !is_reserved(name))
        return true;
    return fail(error, EXIT_USER,
                "\"%.64s\" cannot name a pack (--name, or the last part of -o); accepted: a C "
                "identifier of at most 64 letters, digits and underscores%s",
                name,
                is_identifier(name)
                    ? ", but not km_..., m4_..., a single capital, nor the name of a "
                      "header of kvmill's"
                    : "");
}
