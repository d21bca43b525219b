/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_rewrite_cache.h"

#include <inttypes.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../defs/format.h"

enum { UINT8 = 2 /* ONNX's number */ };

/* ---- Which values can be caches in blocks ---- */

static bool is_one_of(int value, const int *values, int count) {
    for (int i = 0; i < count; i++)
        if (values[i] == value)
            return true;
    return false;
}

/* Checks that past is an input that only this node reads, and present is an output. */
static bool check_values(const struct onnx_cache *cache, struct error *error) {
    const struct onnx_model *model = cache->model;
    const struct onnx_value *past = &model->values[cache->past];
    if (!is_one_of(cache->past, model->inputs, model->input_count) ||
        past->constant.place != ONNX_NOWHERE || cache->readers != 1)
        return onnx_fail(error, model, cache->node,
                         "the cache \"%.80s\" is not an input of the model that only this node "
                         "reads; accepted: one",
                         past->name);
    return is_one_of(cache->present, model->outputs, model->output_count) ||
           onnx_fail(error, model, cache->node,
                     "the cache \"%.80s\" is not an output of the model; accepted: one",
                     model->values[cache->present].name);
}

/* Returns how many heads a row of the last dim has; 0: not known. */
static int64_t heads_in_row(const struct onnx_cache *cache) {
    int rank = cache->model->values[cache->past].rank;
    return rank == 4 ? 1 : rank == 3 ? cache->kv_num_heads : 0;
}

/* Returns the elements of a head; 0: not known, or too many. */
static int32_t dim_of(const struct onnx_cache *cache) {
    const struct onnx_value *past = &cache->model->values[cache->past];
    int64_t heads = past->has_shape ? heads_in_row(cache) : 0;
    int64_t last = heads > 0 ? past->dims[past->rank - 1] : 0;
    return last > 0 && last % heads == 0 && last / heads <= INT32_MAX ? (int32_t)(last / heads) : 0;
}

static bool check_rows(const struct onnx_cache *cache, struct kvmill_format *format,
                       struct error *error) {
    const struct onnx_value *past = &cache->model->values[cache->past];
    bool floats = past->dtype.bits != 0 && kvmill_is_activation(kvmill_element_of(past->dtype));
    struct onnx_type_text type;
    format->element = kvmill_format_of_word(cache->format, KVMILL_SCALES_INSIDE);
    format->dim = dim_of(cache);
    return (floats && format->dim > 0 && kvmill_format_is_legal(format)) ||
           onnx_fail(error, cache->model, cache->node,
                     "the cache \"%.80s\" is %s; accepted for %s: float32, float16 or bfloat16, "
                     "heads of a known multiple of %d",
                     past->name, onnx_type_words(past, &type), cache->format,
                     kvmill_format_dim_multiple(kvmill_format_parts(format->element)));
}

/* ---- The message ---- */

static void set_type(Onnx__ValueInfo *const *infos, size_t count, const char *name, int64_t last) {
    for (size_t i = 0; i < count; i++) {
        Onnx__TensorType *tensor = infos[i]->type != NULL ? infos[i]->type->tensor : NULL;
        if (tensor == NULL || infos[i]->name == NULL || strcmp(infos[i]->name, name) != 0)
            continue;
        tensor->has_elem_type = 1;
        tensor->elem_type = UINT8;
        if (tensor->shape == NULL || tensor->shape->n_dim == 0)
            continue;
        Onnx__Dim *dim = tensor->shape->dim[tensor->shape->n_dim - 1];
        dim->has_value = 1;
        dim->value = last;
        dim->param = NULL;
    }
}

bool onnx_set_cache(const struct onnx_cache *cache, Onnx__Graph *graph, struct error *error) {
    const int values[] = {cache->past, cache->present};
    struct kvmill_format format = {0};
    if (!check_values(cache, error) || !check_rows(cache, &format, error))
        return false;
    int64_t last = kvmill_format_last_dim(&format) * heads_in_row(cache);
    for (int i = 0; i < 2; i++) {
        const char *name = cache->model->values[values[i]].name;
        set_type(graph->input, graph->n_input, name, last);
        set_type(graph->output, graph->n_output, name, last);
        set_type(graph->value_info, graph->n_value_info, name, last);
    }
    return true;
}
