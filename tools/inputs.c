/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/text.h"
#include "../defs/arithmetic.h"
#include "../gen/attend_family.h"
#include "../gen/generators.h"
#include "../gen/places.h"
#include "../import/gguf/gguf.h"
#include "../import/hf/specs_of_model.h"
#include "../import/onnx/onnx.h"
#include "../import/spec_file.h"
#include "../spec/stablehlo.h"
#include "best_isa.h"
#include "ggml_types.h"
#include "model_file.h"
#include "other_formats.h"

/* Options that apply only to kvmill's own caches. */
static const char *const own_caches[] = {"activations", "cache", "quant-group", "cache-layout",
                                         "math",        "flow",  NULL};

static const struct kvmill_format_parts *find_format(const char *text, size_t length) {
    char word[40];
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word), text);
    const struct kvmill_format_parts *parts =
        kvmill_format_parts(kvmill_format_of_word(word, KVMILL_ANY_SCALES));
    return parts != NULL && parts->transposed ? NULL : parts;
}

/* Parses "K" or "K,V": one type for both, or two.  Returns false if a type is unknown. */
static bool find_pair(const char *given,
                      const struct kvmill_format_parts *(*find)(const char *text, size_t length),
                      const struct kvmill_format_parts *pair[2]) {
    const char *comma = strchrnul(given, ',');
    pair[0] = find(given, (size_t)(comma - given));
    pair[1] = *comma == ',' ? find(comma + 1, strlen(comma + 1)) : pair[0];
    return pair[0] != NULL && pair[1] != NULL;
}

static bool read_cache_type(const struct options *options, struct cache_choice *choice,
                            struct error *error) {
    const char *given = option_value(options, "cache"), *words[KVMILL_MOST_FORMATS + 1];
    const struct kvmill_format_parts *pair[2];
    char accepted[KVMILL_WORDS_SIZE], advice[128];
    if (given == NULL)
        return true;
    if (find_pair(given, find_format, pair)) {
        choice->type = pair[0];
        choice->value_type = pair[1] == pair[0] ? NULL : pair[1];
        return true;
    }
    kvmill_format_words(KVMILL_ANY_SCALES, words);
    return fail(error, EXIT_USER, "--cache: \"%.80s\"%s; accepted: one or two, with a comma, of %s",
                given, other_format_advice(given, advice, sizeof advice),
                kvmill_list_words(words, "", accepted));
}

static bool read_activations(const struct options *options, struct cache_choice *choice,
                             struct error *error) {
    const char *name = option_value(options, "activations"), *words[KVMILL_MOST_FORMATS + 1];
    char accepted[KVMILL_WORDS_SIZE];
    if (name == NULL)
        return true;
    choice->activations = kvmill_format_parts(kvmill_format_of_word(name, KVMILL_WITHOUT_SCALES));
    if (choice->activations != NULL && choice->activations->activation)
        return true;
    kvmill_activation_words(words);
    return fail(error, EXIT_USER, "--activations: \"%.40s\"; accepted: %s", name,
                kvmill_list_words(words, "", accepted));
}

static bool has_groups(const struct kvmill_format_parts *type) {
    return type != NULL && type->scales == KVMILL_SCALES_OF_GROUPS;
}

/* Reads --quant-group, which needs an int8 or int4 cache.  Whether it divides the head size is
   checked when specs are made. */
static bool read_group(const struct options *options, struct cache_choice *choice,
                       struct error *error) {
    long group = 0;
    if (!option_integer(options, "quant-group", 1, 65536, &group, error))
        return false;
    if (group != 0 && !has_groups(choice->type) && !has_groups(choice->value_type))
        return fail(error, EXIT_USER, "--quant-group requires --cache int8 or int4");
    choice->quant_group = group;
    return true;
}

static bool read_math(const struct options *options, struct cache_choice *choice,
                      struct error *error) {
    const char *name = option_value(options, "math");
    int math = kvmill_math_of(name);
    choice->math = math > KVMILL_MATH_F32 ? kvmill_math_names[math] : NULL;
    return math >= 0 ||
           fail(error, EXIT_USER, "--math: \"%.40s\"; accepted: f32, near, fast", name);
}

/* ---- Caches of llama.cpp ---- */

/* Reads --ggml.  Refuses options that describe kvmill's own caches, because llama.cpp's have a
   fixed form. */
static bool read_ggml(const struct options *options, const char *given, struct cache_choice *choice,
                      struct error *error) {
    for (int i = 0; own_caches[i] != NULL; i++)
        if (option_value(options, own_caches[i]))
            return fail(error, EXIT_USER,
                        "--%s is for kvmill's own caches; accepted for llama.cpp's: --ggml",
                        own_caches[i]);
    return find_pair(given, ggml_type_find, choice->ggml) || ggml_type_refuse(given, error);
}

static bool read_choice(const struct options *options, const char *file,
                        struct cache_choice *choice, struct error *error) {
    const char *ggml = option_value(options, "ggml");
    long layout = -1;
    if (ggml != NULL || is_gguf_name(file))
        return read_ggml(options, ggml ? ggml : "f16", choice, error);
    if (!read_activations(options, choice, error) || !read_cache_type(options, choice, error) ||
        !read_group(options, choice, error) || !read_math(options, choice, error) ||
        !option_integer(options, "cache-layout", 0, 3, &layout, error))
        return false;
    choice->layout = (int)layout;
    return true;
}

static void note_without_attention(const char *file, const struct model *model) {
    const char *reason = model_without_attention(model);
    if (reason != NULL)
        print_shown(stderr, "%s: note: kernels store its rows, but none attends: %s\n", file,
                    reason);
}

static void note_dense(const char *file, const struct spec_list *specs) {
    for (size_t i = 0; i < specs->count; i++) {
        const struct attention_spec *attention = &specs->items[i].attention;
        if (spec_is(&specs->items[i], OP_CACHE_ATTENTION) && attention->op.left_window_size >= 0)
            print_shown(stderr,
                        "%s: note: layers %s have a window of %" PRId64
                        ", and stay dense, without the flow\n",
                        file, attention->layers, kvmill_window_of(attention->op.left_window_size));
    }
}

static bool add_flow(const char *file, const char *flow, const struct cache_choice *choice,
                     struct inputs *inputs, struct error *error) {
    if (!specs_add_flow(flow, &inputs->model, choice, &inputs->specs, error))
        return false;
    note_dense(file, &inputs->specs);
    return true;
}

/* Adds the flow for a model that has an indexer in its config; not called if --flow is given. */
static bool add_indexer(const char *file, const struct cache_choice *choice, struct inputs *inputs,
                        struct error *error) {
    char *flow = path_join(data_directory(), "configs/flows/dsa.json");
    bool done = flow != NULL ? add_flow(file, flow, choice, inputs, error) : out_of_memory(error);
    free(flow);
    return done;
}

static void note_ggml_is_dense(const char *file) {
    print_shown(stderr,
                "%s: note: an indexer picks tokens; llama.cpp's kernels attend to all of them\n",
                file);
}

static bool read_model_file(const char *file, struct inputs *inputs, struct error *error) {
    return (is_gguf_name(file) ? gguf_read : model_read)(file, &inputs->model, &inputs->specs.notes,
                                                         error);
}

static bool read_model(const struct options *options, const char *file, struct inputs *inputs,
                       struct error *error) {
    struct cache_choice *choice = &inputs->choice;
    *choice = (struct cache_choice){.layout = -1};
    if (!read_choice(options, file, choice, error) || !read_model_file(file, inputs, error) ||
        !specs_of_model(&inputs->model, choice, &inputs->specs, error))
        return false;
    const char *flow = option_value(options, "flow");
    bool is_indexed = inputs->model.indexer.topk > 0;
    if (choice->ggml[GGML_KEY] != NULL) {
        if (is_indexed)
            note_ggml_is_dense(file);
        return true;
    }
    note_without_attention(file, &inputs->model);
    if (flow != NULL)
        return add_flow(file, flow, choice, inputs, error);
    return !is_indexed || add_indexer(file, choice, inputs, error);
}

/* ---- Nodes of ONNX Runtime ---- */

/* Makes dims dynamic, except those with a bit in `kept`. */
static void open_dims(DLTensor *tensor, unsigned kept) {
    for (int d = 0; d < tensor->ndim; d++)
        if (!(kept >> d & 1))
            tensor->shape[d] = KVMILL_DYNAMIC;
}

/* Keeps only row sizes and numbers of heads, with which the provider plans: it would not find
   kernels for one batch size or capacity. */
static void open_scatter(struct scatter_spec *scatter) {
    int rank = scatter->past_cache.ndim;
    int64_t axis = scatter->op.axis < 0 ? scatter->op.axis + rank : scatter->op.axis;
    unsigned rows = ~0u << (axis + 1);
    open_dims(&scatter->past_cache, rows);
    open_dims(&scatter->update, rows);
    open_dims(&scatter->write_indices, 0);
}

static void open_attention(struct onnx_attention_spec *attention) {
    for (int i = 0; i < KVMILL_ATTENTION_Y; i++) {
        bool rows = i <= KVMILL_ATTENTION_V || i == KVMILL_ATTENTION_PAST_KEY ||
                    i == KVMILL_ATTENTION_PAST_VALUE;
        DLTensor *tensor = &attention->tensor[i];
        open_dims(tensor, !rows ? 0 : tensor->ndim == 4 ? 1u << 1 | 1u << 3 : 1u << 2);
    }
}

static void open_shapes(struct spec *spec) {
    if (spec_is(spec, OP_TENSOR_SCATTER))
        open_scatter(&spec->scatter);
    if (spec_is(spec, OP_ATTENTION))
        open_attention(&spec->onnx_attention);
}

static void set_math(struct spec *spec, const char *math) {
    bool scores = kvmill_op_member(spec->op->parts[0], "math") != NULL &&
                  kvmill_op_member(spec->op->parts[0], "math")->ops & kvmill_op_bit(spec->op);
    if (scores && spec_is(spec, OP_CACHE_ATTEND))
        spec->cache_attend.math = math;
    if (scores && spec_is(spec, OP_CACHE_ATTENTION))
        spec->attention.op.math = math;
}

static bool read_ort(const struct options *options, const char *file, struct inputs *inputs,
                     struct error *error) {
    struct cache_choice *choice = &inputs->choice;
    struct spec_list *specs = &inputs->specs;
    if (!read_math(options, choice, error) || !specs_of_onnx_runtime(file, specs, error))
        return false;
    for (size_t i = 0; i < specs->count; i++) {
        open_shapes(&specs->items[i]);
        set_math(&specs->items[i], choice->math);
    }
    return true;
}

/* ---- Sources ---- */

static bool read_specs(const struct options *options, const char *file, struct inputs *inputs,
                       struct error *error) {
    bool ort = option_value(options, "ort") != NULL;
    const char *for_models = option_value(options, "ggml") ? "ggml" : NULL;
    for (int i = 0; for_models == NULL && own_caches[i] != NULL; i++)
        if (option_value(options, own_caches[i]) && !(ort && strcmp(own_caches[i], "math") == 0))
            for_models = own_caches[i];
    if (for_models != NULL)
        return fail(error, EXIT_USER,
                    "--%s requires --model with a config; specs and ONNX models state it",
                    for_models);
    return ort ? read_ort(options, file, inputs, error) : specs_read(file, &inputs->specs, error);
}

static bool read_source(const struct options *options, struct inputs *inputs, struct error *error) {
    const char *model = option_value(options, "model"), *specs = option_value(options, "kernels");
    if ((model == NULL) == (specs == NULL))
        return fail(error, EXIT_USER, "%s; accepted: one of --model CONFIG, --kernels SPECS",
                    model ? "both --model and --kernels were given" : "neither a model nor specs");
    if (options->rest_count > 0)
        return fail(error, EXIT_USER, "\"%.200s\" is one argument too many", options->rest[0]);
    if (option_value(options, "ort") != NULL && (model == NULL || !is_onnx_name(model)))
        return fail(error, EXIT_USER, "--ort requires --model with an ONNX model");
    if (model == NULL)
        return read_specs(options, specs, inputs, error);
    model = inputs->model_file = model_file(model, error);
    if (model == NULL)
        return false;
    bool config = !is_onnx_name(model) && !is_mlir_name(model);
    return (config ? read_model : read_specs)(options, model, inputs, error);
}

/* Makes a C identifier from the last part of a path. */
static void name_from(const char *path, char name[65]) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    snprintf(name, 65, "%s%.*s", isdigit((unsigned char)path[begin]) ? "_" : "", (int)(end - begin),
             path + begin);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
}

static bool ends_in_dots(const char *path) {
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    size_t dots = 0;
    while (dots < length && path[length - 1 - dots] == '.')
        dots++;
    return (dots == 1 || dots == 2) && (dots == length || path[length - 1 - dots] == '/');
}

/* Names the pack after a directory; "." and ".." are resolved first. */
static void name_from_directory(const char *directory, char name[65]) {
    char *real = ends_in_dots(directory) ? realpath(directory, NULL) : NULL;
    name_from(real ? real : directory, name);
    free(real);
}

static bool set_name(const struct options *options, const char *directory, struct inputs *inputs,
                     struct error *error) {
    const char *name = option_value(options, "name");
    if (name == NULL)
        name_from_directory(directory ? directory : "pack", inputs->name);
    else
        snprintf(inputs->name, sizeof inputs->name, "%s", name);
    return pack_name_check(name ? name : inputs->name, error);
}

static void note_portable(const struct spec *spec) {
    char words[256];
    spec_without_kernels(spec, words, sizeof words);
    print_shown(stderr, "%s: note: no kernel is generated (%s); portable code runs instead\n",
                spec->where, words);
}

/* Sets *any if the spec has kernels for an instruction set, and *own_math if some of them have the
   spec's own approximate math. */
static bool look_for_kernels(const struct spec *spec, const struct isa *isa, bool *any,
                             bool *own_math, struct error *error) {
    struct kernel_list own = {0};
    bool done = spec_kernels(spec, isa, &own, error);
    *any = own.count > 0;
    *own_math = false;
    for (size_t i = 0; i < own.count; i++)
        *own_math |= attend_is_approximate(&own.items[i]);
    kernel_list_free(&own);
    return done;
}

static bool note_spec(const struct spec *spec, const struct isa_list *isas, struct error *error) {
    struct text exact = {0};
    bool any, own_math, done = look_for_kernels(spec, isas->items[0], &any, &own_math, error);
    if (done && !any)
        note_portable(spec);
    for (int i = 0; done && spec_math(spec) != KVMILL_MATH_F32 && i < isas->count; i++) {
        done = look_for_kernels(spec, isas->items[i], &any, &own_math, error);
        if (done && !own_math &&
            !text_print(&exact, "%s%s", exact.length ? ", " : "", isas->items[i]->name))
            done = out_of_memory(error);
    }
    if (done && exact.length > 0)
        print_shown(stderr, "%s: note: math %s has no kernels on %s; those of f32 are used\n",
                    spec->where, kvmill_math_names[spec_math(spec)], exact.data);
    text_free(&exact);
    return done;
}

/* Prints a note for each spec that is not generated completely. */
bool note_without_kernels(const struct spec_list *specs, const struct isa_list *isas,
                          struct error *error) {
    put_shown(specs->notes.length ? specs->notes.data : "", stderr);
    for (size_t i = 0; i < specs->count; i++)
        if (!note_spec(&specs->items[i], isas, error))
            return false;
    return true;
}

/* Sets `specialise` in all specs that support it.  Returns false if none does. */
static bool set_specialise(struct spec_list *specs, const char *word) {
    bool any = false;
    unsigned what = 1;
    while (strcmp(specialise_words[what - 1], word) != 0)
        what++;
    for (size_t i = 0; i < specs->count; i++)
        if (specs->items[i].family->specialises) {
            specs->items[i].specialise |= what;
            any = true;
        }
    return any;
}

static bool read_specialise(const struct options *options, struct spec_list *specs,
                            struct error *error) {
    const char *given = option_value(options, "specialise");
    return values_have(&specialise_values, "specialise", given, error) &&
           (given == NULL || set_specialise(specs, given) ||
            fail(error, EXIT_USER,
                 "--specialise: no spec has kernels with heads or a layout; accepted: "
                 "TensorScatter, "
                 "caches and attention"));
}

bool inputs_read_specs(const struct options *options, const char *directory, struct inputs *inputs,
                       struct error *error) {
    *inputs = (struct inputs){0};
    if (!isa_list_parse(option_value(options, "isa"), best_isa(), &inputs->isas, error) ||
        !set_name(options, directory, inputs, error) || !read_source(options, inputs, error) ||
        !read_specialise(options, &inputs->specs, error))
        return false;
    if (option_value(options, "v") != NULL && inputs->specs.left_alone.length > 0)
        put_shown(inputs->specs.left_alone.data, stderr);
    inputs->pack.name = inputs->name;
    inputs->pack.specs = &inputs->specs;
    return true;
}

bool inputs_read(const struct options *options, const char *directory, struct inputs *inputs,
                 struct error *error) {
    return inputs_read_specs(options, directory, inputs, error) &&
           specs_kernels(&inputs->specs, &inputs->isas, &inputs->pack.kernels, error) &&
           note_without_kernels(&inputs->specs, &inputs->isas, error);
}

void inputs_free(struct inputs *inputs) {
    free(inputs->model_file);
    model_free(&inputs->model);
    spec_list_free(&inputs->specs);
    kernel_list_free(&inputs->pack.kernels);
    measured_list_free(&inputs->pack.measured);
}
