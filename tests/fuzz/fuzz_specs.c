/* Files that become specs: spec files, StableHLO, ONNX; a model's config or GGUF header, with the
   kernels of its pack, or with a flow's file.

   SPDX-License-Identifier: Apache-2.0 */

#include "../../defs/arithmetic.h"
#include "../../gen/generators.h"
#include "../../import/gguf/gguf.h"
#include "../../import/hf/specs_of_model.h"
#include "../../import/spec_file.h"
#include "../../spec/spec.h"
#include "../common.h"
#include "fuzz.h"

static void check_symbol(const struct kernel *kernel) {
    char symbol[SYMBOL_SIZE], again[SYMBOL_SIZE];
    struct kernel parsed;
    struct error error = {0};
    kernel_symbol(kernel, symbol);
    bool done = kernel_parse(symbol, &parsed, &error);
    fuzz_require(done, "%s is no symbol: %s", symbol, error.text);
    kernel_symbol(&parsed, again);
    fuzz_require(strcmp(symbol, again) == 0, "%s is %s", symbol, again);
}

static void check_kernels(const struct spec_list *specs) {
    OWN(kernel_list_free) struct kernel_list kernels = {0};
    struct isa_list isas;
    struct error error = {0};
    fuzz_require(isa_list_parse(NULL, "scalar", &isas, &error), "%s", error.text);
    if (fuzz_accepts(specs_kernels(specs, &isas, &kernels, &error), &error))
        for (size_t i = 0; i < kernels.count; i++)
            check_symbol(&kernels.items[i]);
}

static char *write_specs(const struct spec_list *specs) {
    json_auto_t *document = specs_write(specs);
    char *text = document != NULL ? json_dumps(document, JSON_INDENT(1)) : NULL;
    fuzz_require(text != NULL, "specs that cannot be written");
    return text;
}

static void check_text(const struct spec_list *specs) {
    OWN(spec_list_free) struct spec_list again = {0};
    struct error error = {0};
    FREED char *text = write_specs(specs);
    bool done = specs_read(fuzz_file(1, text, strlen(text)), &again, &error);
    fuzz_require(done, "specs as they were written are refused: %s\n%s", error.text, text);
    FREED char *other = write_specs(&again);
    fuzz_require(strcmp(text, other) == 0, "%s\nis read as\n%s", text, other);
}

static void check_specs(const struct spec_list *specs) {
    check_kernels(specs);
    if (specs->count > 0)
        check_text(specs);
}

/* ---- Targets ---- */

static void read_specs(bool (*read)(const char *path, struct spec_list *specs, struct error *error),
                       const unsigned char *data, size_t size) {
    OWN(spec_list_free) struct spec_list specs = {0};
    struct error error = {0};
    if (fuzz_accepts(read(fuzz_file(0, data, size), &specs, &error), &error))
        check_specs(&specs);
}

void fuzz_spec(const unsigned char *data, size_t size) {
    read_specs(specs_read, data, size);
}

/* A Python with jax reads bytecode, not this reader. */
void fuzz_mlir(const unsigned char *data, size_t size) {
    if (size < 4 || memcmp(data, "ML\xefR", 4) != 0)
        read_specs(specs_of_mlir, data, size);
}

void fuzz_onnx(const unsigned char *data, size_t size) {
    read_specs(specs_of_onnx, data, size);
    read_specs(specs_of_onnx_runtime, data, size);
}

/* Makes specs of the model that a reader returns. */
static void make_specs(bool (*read)(const char *path, struct model *model, struct text *notes,
                                    struct error *error),
                       const unsigned char *data, size_t size, const struct cache_choice *choice) {
    struct model model;
    OWN(text_free) struct text notes = {0};
    OWN(spec_list_free) struct spec_list specs = {0};
    struct error error = {0};
    if (fuzz_accepts(read(fuzz_file(0, data, size), &model, &notes, &error), &error)) {
        if (fuzz_accepts(specs_of_model(&model, choice, &specs, &error), &error))
            check_specs(&specs);
        model_free(&model);
    }
}

void fuzz_config(const unsigned char *data, size_t size) {
    unsigned number = fuzz_number(data, size);
    const struct cache_choice choice = {
        .type = number % 3 == 0 ? NULL : kvmill_format_parts((int)(number % KVMILL_MOST_FORMATS)),
        .layout = (int)(number >> 8) % 5 - 1,
        .quant_group = (number >> 12) % 2 * 32,
        .math = kvmill_math_names[(number >> 16) % 3],
    };
    make_specs(model_read, data, size, &choice);
}

static const struct kvmill_format_parts *ggml_type(unsigned number) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    unsigned count = 0;
    kvmill_format_words(KVMILL_SCALES_INSIDE, words);
    while (words[count] != NULL)
        count++;
    number %= count + 1;
    return number == count
               ? kvmill_format_parts(kvmill_format_of_word("float16", KVMILL_WITHOUT_SCALES))
               : kvmill_format_parts(kvmill_format_of_word(words[number], KVMILL_SCALES_INSIDE));
}

void fuzz_gguf(const unsigned char *data, size_t size) {
    unsigned number = fuzz_number(data, size);
    const struct cache_choice choice = {.ggml = {ggml_type(number), ggml_type(number >> 8)}};
    make_specs(gguf_read, data, size, &choice);
}

/* ---- A flow's file, for the layers of a model ---- */

static const struct model *model_of_tree(void) {
    static struct model model;
    struct error error = {0};
    if (model.layers != NULL)
        return &model;
    struct text notes = {0};
    const char *name = source_path("configs/models/llama-3.2-1b.json");
    fuzz_require(model_read(name, &model, &notes, &error), "%s", error.text);
    return &model;
}

void fuzz_flow(const unsigned char *data, size_t size) {
    OWN(spec_list_free) struct spec_list specs = {0};
    struct error error = {0};
    const struct cache_choice choice = {.layout = 2};
    bool done = specs_of_model(model_of_tree(), &choice, &specs, &error);
    fuzz_require(done, "%s", error.text);
    done = specs_add_flow(fuzz_file(0, data, size), model_of_tree(), &choice, &specs, &error);
    if (fuzz_accepts(done, &error))
        check_specs(&specs);
}
