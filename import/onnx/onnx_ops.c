/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_ops.h"

#include <stdio.h>
#include <string.h>

static const char *const axis_alone[] = {"axis", NULL};
static const char *const batch_dims[] = {"batch_dims", NULL};
static const char *const axis_and_reduction[] = {"axis", "reduction", NULL};
static const char *const reduction_alone[] = {"reduction", NULL};

#define GATHERED  .spec = "stablehlo.gather", .known = "known extents", .from_index = true
#define SCATTERED .spec = "stablehlo.scatter", .known = "known extents", .from_index = true

static const struct onnx_op ops[] = {
    {.name = "TensorScatter",
     .spec = "TensorScatter",
     .first_opset = 24,
     .open = true,
     .known = "rank",
     .add = onnx_add_tensor_scatter},
    {.name = "Attention",
     .spec = "Attention",
     .first_opset = 23,
     .open = true,
     .knows = onnx_knows_heads,
     .known = "rank, numbers and sizes of heads",
     .add = onnx_add_attention},
    {.name = "Gather",
     .first_opset = 1,
     .attributes = axis_alone,
     .pays = onnx_window_pays,
     .add = onnx_add_gather,
     GATHERED},
    {.name = "GatherElements",
     .first_opset = 11,
     .attributes = axis_alone,
     .pays = onnx_window_never_pays,
     .add = onnx_add_gather_elements,
     GATHERED},
    {.name = "GatherND",
     .first_opset = 11,
     .attributes = batch_dims,
     .pays = onnx_window_pays,
     .add = onnx_add_gather_nd,
     GATHERED},
    {.name = "ScatterElements",
     .first_opset = 11,
     .attributes = axis_and_reduction,
     .pays = onnx_window_pays,
     .add = onnx_add_scatter_elements,
     SCATTERED},
    {.name = "ScatterND",
     .first_opset = 11,
     .attributes = reduction_alone,
     .pays = onnx_window_never_pays,
     .add = onnx_add_scatter_nd,
     SCATTERED},
};
enum { OPS = sizeof ops / sizeof *ops };

const struct onnx_op *onnx_op_of(const struct onnx_node *node) {
    for (int i = 0; node->domain[0] == '\0' && i < OPS; i++)
        if (strcmp(ops[i].name, node->op) == 0 && kvmill_op_by_name(ops[i].spec) != NULL)
            return &ops[i];
    return onnx_pmx_op(node) != NULL ? &onnx_pmx : NULL;
}

const char *onnx_op_names(char text[ONNX_NAMES_SIZE]) {
    char names[ONNX_NAMES_SIZE / 2];
    size_t at = 0;
    for (int i = 0; i < OPS; i++)
        if (kvmill_op_by_name(ops[i].spec) != NULL)
            at += (size_t)snprintf(text + at, ONNX_NAMES_SIZE / 2 - at, "%s%s", at ? ", " : "",
                                   ops[i].name);
    snprintf(text + at, ONNX_NAMES_SIZE - at, "%s%s", at ? ", " : "", onnx_pmx_names(names));
    return text;
}
