/* Refuses ONNX models in a build without protobuf-c.

   SPDX-License-Identifier: Apache-2.0 */
#include "onnx.h"
#include "onnx_bodies.h"
#include "onnx_rewrite.h"

static bool lacks_reader(const char *file, struct error *error) {
    return fail(error, EXIT_ENVIRONMENT,
                "%s: this kvmill was built without protobuf-c, which ONNX models are read with; "
                "configure names it (Debian: libprotobuf-c-dev, protobuf-c-compiler)",
                file);
}

bool onnx_read(const char *file, struct onnx_model *model, struct error *error) {
    *model = (struct onnx_model){0};
    return lacks_reader(file, error);
}

const void *onnx_function_of(const struct onnx_model *model, const struct onnx_node *node) {
    (void)model, (void)node;
    return NULL;
}

bool onnx_open_graph(const struct onnx_model *model, const struct onnx_node *node,
                     const struct onnx_attribute *attribute, struct onnx_body *body,
                     struct onnx_model *opened, struct error *error) {
    (void)node, (void)attribute, (void)body;
    *opened = (struct onnx_model){0};
    return lacks_reader(model->file, error);
}

bool onnx_open_function(const struct onnx_model *model, const struct onnx_node *node,
                        struct onnx_body *body, struct onnx_model *opened, struct error *error) {
    return onnx_open_graph(model, node, NULL, body, opened, error);
}

bool onnx_rewrite(const char *file, const char *const formats[2], struct onnx_rewritten *rewritten,
                  struct error *error) {
    (void)formats;
    *rewritten = (struct onnx_rewritten){0};
    return lacks_reader(file, error);
}
