/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_specs.h"

#include <stdlib.h>
#include <string.h>

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
    struct kernel_list kernels = {0};
    struct isa_list isas;
    struct error error = {0};
    fuzz_require(isa_list_parse(NULL, &isas, &error), "%s", error.text);
    if (specs_kernels(specs, &isas, &kernels, &error))
        for (size_t i = 0; i < kernels.count; i++)
            check_symbol(&kernels.items[i]);
    else
        fuzz_require_refusal(&error);
    kernel_list_free(&kernels);
}

static char *write_specs(const struct spec_list *specs) {
    json_t *document = specs_write(specs);
    char *text = document != NULL ? json_dumps(document, JSON_INDENT(1)) : NULL;
    json_decref(document);
    fuzz_require(text != NULL, "specs that cannot be written");
    return text;
}

static void check_text(const struct spec_list *specs) {
    struct spec_list again = {0};
    struct error error = {0};
    char *text = write_specs(specs);
    bool done = specs_read(fuzz_file(1, text, strlen(text)), &again, &error);
    fuzz_require(done, "specs as they were written are refused: %s\n%s", error.text, text);
    char *other = write_specs(&again);
    fuzz_require(strcmp(text, other) == 0, "%s\nis read as\n%s", text, other);
    free(text);
    free(other);
    spec_list_free(&again);
}

void fuzz_check_specs(const struct spec_list *specs) {
    check_kernels(specs);
    if (specs->count > 0)
        check_text(specs);
}
