/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <string.h>

#include "../base/text.h"
#include "../defs/arithmetic.h"
#include "../defs/format.h"
#include "../defs/isa.h"
#include "../defs/op.h"
#include "../spec/spec.h"
#include "../tune/strategy.h"
#include "ggml_types.h"
#include "model_file.h"

/* ---- Words of other tables ---- */

static void print_words(const char *const *words, FILE *stream) {
    for (int i = 0; words[i] != NULL; i++)
        print_shown(stream, "%s ", words[i]);
}

static bool print_models(FILE *stream, struct error *error) {
    struct model_names names;
    bool done = model_names_read(&names, error);
    if (done)
        print_words((const char *const *)names.items, stream);
    model_names_free(&names);
    return done;
}

static bool print_isas(FILE *stream, struct error *error) {
    (void)error;
    for (const struct isa *isa = kvmill_isas; isa->name != NULL; isa++)
        print_shown(stream, "%s ", isa->name);
    return true;
}

static bool print_caches(FILE *stream, struct error *error) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    (void)error;
    kvmill_format_words(KVMILL_ANY_SCALES, words);
    print_words(words, stream);
    return true;
}

static bool print_activations(FILE *stream, struct error *error) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    (void)error;
    kvmill_activation_words(words);
    print_words(words, stream);
    return true;
}

static bool print_ggml(FILE *stream, struct error *error) {
    const char *words[MOST_GGML_WORDS];
    (void)error;
    ggml_type_words(words);
    print_words(words, stream);
    return true;
}

static bool print_steps(FILE *stream, struct error *error) {
    (void)error;
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        print_shown(stream, "%s ", kvmill_flow_steps[i].name);
    return true;
}

/* ---- All values ---- */

static const char *const layouts[] = {"0", "1", "2", "3", NULL};
static const char *const progress[] = {"text", "json", NULL};
static const char *const bounds[] = {"skip_element", "skip_window", NULL};
static const char *const shells[] = {"bash", "zsh", NULL};

const struct values file_values = {.name = "files", .places = FILES};
const struct values directory_values = {.name = "directories", .places = DIRECTORIES};
const struct values model_values = {.name = "models", .places = FILES, .print = print_models};
const struct values isa_values = {.name = "isas", .print = print_isas};
const struct values cache_values = {.name = "caches", .print = print_caches};
const struct values activation_values = {.name = "activations", .print = print_activations};
const struct values ggml_values = {.name = "ggml_types", .print = print_ggml};
const struct values math_values = {.name = "kinds_of_math", .words = kvmill_math_names};
const struct values specialise_values = {.name = "constants", .words = specialise_words};
const struct values layout_values = {.name = "layouts", .words = layouts};
const struct values strategy_values = {.name = "strategies", .words = strategy_names};
const struct values progress_values = {.name = "kinds_of_progress", .words = progress};
const struct values step_values = {.name = "steps", .print = print_steps};
const struct values bounds_values = {.name = "bounds", .words = bounds};
const struct values shell_values = {.name = "shells", .words = shells};

bool values_print(const struct values *values, FILE *stream, struct error *error) {
    if (values->words != NULL)
        print_words(values->words, stream);
    return values->print == NULL || values->print(stream, error);
}

bool values_have(const struct values *values, const char *option, const char *word,
                 struct error *error) {
    char accepted[KVMILL_WORDS_SIZE];
    for (int i = 0; word != NULL && values->words[i] != NULL; i++)
        if (strcmp(word, values->words[i]) == 0)
            return true;
    return word == NULL || fail(error, EXIT_USER, "--%s: \"%.40s\"; accepted: %s", option, word,
                                kvmill_list_words(values->words, "", accepted));
}
