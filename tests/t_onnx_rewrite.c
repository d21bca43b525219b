/* ONNX models in kvmill's domain, as `kvmill rewrite` writes them: what moves, what becomes a step,
   caches as blocks, and what is left alone.  tests/onnxruntime.test runs such models.

   SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include <unistd.h>

#include "../import/onnx/onnx.h"
#include "../import/onnx/onnx_rewrite.h"
#include "../import/spec_file.h"
#include "../spec/spec.h"
#include "case_table.h"
#include "onnx_text.h"

/* A file in memory; each open of its name reads it from the beginning. */
static int descriptor;
static char file_name[64];

void before_tests(void) {
    descriptor = memfd_create("model", 0);
    snprintf(file_name, sizeof file_name, "/proc/self/fd/%d", descriptor);
}

static void write_file(const struct text *file) {
    must(ftruncate(descriptor, 0) == 0 &&
             pwrite(descriptor, file->data, file->length, 0) == (ssize_t)file->length,
         "cannot write a file in memory");
}

/* Writes the model of a description, and rewrites it.  formats: "-" or K,V. */
static bool rewrite(const char *description, const char *formats, struct onnx_rewritten *rewritten,
                    struct error *error) {
    OWN(text_free) struct text file = {0};
    char key[16], value[16];
    const char *both[2] = {key, value};
    bool some = sscanf(formats, "%15[^,],%15s", key, value) == 2;
    onnx_write(description, &file);
    write_file(&file);
    return onnx_rewrite(file_name, some ? both : NULL, rewritten, error);
}

/* ---- A model in words ---- */

static void add_names(const struct onnx_model *model, const int *values, int count,
                      struct text *words) {
    for (int i = 0; i < count; i++)
        text_print(words, "%s%s", i > 0 ? "," : " ",
                   values[i] == ONNX_ABSENT ? "-" : model->values[values[i]].name);
}

static void add_node(const struct onnx_model *model, const struct onnx_node *node,
                     struct text *words) {
    struct onnx_op_text op;
    text_print(words, "%s", onnx_op_words(node, &op));
    add_names(model, node->inputs, node->input_count, words);
    add_names(model, node->outputs, node->output_count, words);
    for (int i = 0; i < node->attribute_count; i++) {
        const struct onnx_attribute *a = &node->attributes[i];
        if (a->kind == ONNX_STRING)
            text_print(words, " %s=%.*s", a->name, (int)a->length, a->text);
        else
            text_print(words, " %s=%lld", a->name, (long long)a->integer);
    }
    text_print(words, "; ");
}

/* Nodes; then values of bytes, and the specs that the nodes need. */
static void describe(struct text *words) {
    OWN(onnx_free) struct onnx_model model;
    OWN(spec_list_free) struct spec_list specs = {0};
    struct onnx_type_text type;
    struct error error;
    must(onnx_read(file_name, &model, &error), error.text);
    for (int i = 0; i < model.node_count; i++)
        add_node(&model, &model.nodes[i], words);
    for (int i = 0; i < model.value_count; i++)
        if (kvmill_dtype_equal(model.values[i].dtype, kvmill_uint8))
            text_print(words, "%s %s; ", model.values[i].name,
                       onnx_type_words(&model.values[i], &type));
    if (specs_of_onnx(file_name, &specs, &error))
        for (size_t i = 0; i < specs.count; i++)
            text_print(words, "%s%s", specs.items[i].op->name, i + 1 < specs.count ? ", " : "");
}

ROWS(rewritten, 5) {
    OWN(text_free) struct text words = {0};
    struct onnx_rewritten rewritten;
    struct error error = {0};
    bool done = rewrite(cells[1], cells[2], &rewritten, &error);
    const char *notes = rewritten.notes.data != NULL ? rewritten.notes.data : "";
    if (done) {
        write_file(&rewritten.model);
        describe(&words);
    }
    if (rewritten.has_files)
        text_print(&words, "elements in other files");
    if (!ok(done && strcmp(words.data, cells[3]) == 0 &&
                (cells[4][0] ? strstr(notes, cells[4]) != NULL : notes[0] == '\0'),
            "rewritten: %s", cells[0]))
        diag("%s\n%s\n%s", done ? words.data : error.text, notes, cells[3]);
    text_free(&rewritten.model);
    text_free(&rewritten.notes);
}

ROWS(refused, 3) {
    struct onnx_rewritten rewritten;
    struct error error = {0};
    bool done = rewrite(cells[0], cells[1], &rewritten, &error);
    if (!ok(!done && error.exit_code == EXIT_USER && strstr(error.text, cells[2]) != NULL,
            "refused: %s", cells[2]))
        diag("%s", done ? "it is rewritten" : error.text);
    text_free(&rewritten.model);
    text_free(&rewritten.notes);
}

TABLE(onnx_rewrites);
