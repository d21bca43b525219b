/* A model's sparse flows: the flow of a file, with the attention of each kind of layer that attends
   to its whole cache.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "../../spec/flow_spec.h"
#include "flow_class.h"
#include "specs_of_model.h"

/* A flow from a file, which is bound to the layers of a model. */
struct binding {
    const char *file;
    json_t *source;
    json_t *document; /* of a class: it owns the source, which is made anew for each geometry */
    const struct model *model;
    bool layout_chosen; /* by the user; else the file's layout */
    int count;          /* flows that were added */
};

static bool attends_to_all(const struct spec *spec) {
    return spec_is(spec, OP_CACHE_ATTENTION) && spec->attention.op.left_window_size < 0 &&
           attention_op_of(spec) == KVMILL_MULTI_HEAD_CACHE_ATTENTION;
}

/* ---- Layers ---- */

/* The reader of flows refuses items that are not numbers. */
static bool is_skipped(const struct binding *binding, int layer) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(binding->source, "layers_skip"), i, item) {
        if (json_is_integer(item) && json_integer_value(item) == layer)
            return true;
    }
    return false;
}

/* Returns the first layer with the spec's geometry that the flow does not skip, or -1. */
static int first_layer(const struct binding *binding, const struct spec *spec) {
    const struct model *model = binding->model;
    const struct layer *own = &model->layers[spec->attention.first_layer];
    for (int i = spec->attention.first_layer; i < model->layer_count; i++)
        if (layers_attend_alike(&model->layers[i], own) && !is_skipped(binding, i))
            return i;
    return -1;
}

static bool check_layers(const struct binding *binding, const struct spec *spec,
                         struct error *error) {
    const kvmill_flow *flow = flow_of_spec(spec);
    for (size_t i = 0; i < flow->layers_skip_count; i++)
        if (flow->layers_skip[i] >= binding->model->layer_count)
            return fail(error, EXIT_USER,
                        "%s: /layers_skip/%zu: is %" PRId64 "; accepted: 0 to %d, the model's "
                        "layers",
                        binding->file, i, flow->layers_skip[i], binding->model->layer_count - 1);
    return true;
}

/* ---- Attention ---- */

static void copy_member(const json_t *from, const char *key, json_t *to) {
    json_t *value = json_object_get(from, key);
    if (value != NULL)
        json_object_set(to, key, value);
}

/* Whether the file stores the keys of a page transposed. */
static bool is_transposed(const json_t *own) {
    return kvmill_names_transposed(json_string_value(json_object_get(own, "cache_format")));
}

/* Writes attention with the model's heads, types and scores, and with the file's pages. */
static json_t *bind_attention(const struct binding *binding, const struct spec *spec, int layer) {
    const json_t *own = json_object_get(binding->source, "attention");
    json_t *attention = json_object();
    spec_write_op(spec, attention);
    json_object_del(attention, "name");
    json_object_set_new(attention, "num_layer", json_integer(binding->model->layer_count));
    json_object_set_new(attention, "layer_idx", json_integer(layer));
    json_object_set_new(attention, "cache_mode", json_integer(1));
    copy_member(own, "page_size", attention);
    if (is_transposed(own))
        copy_member(own, "cache_format", attention);
    if (!binding->layout_chosen)
        copy_member(own, "cache_layout", attention);
    return attention;
}

/* ---- Flows ---- */

/* Sets the file's name, or "flow"; for a second geometry "flow_2". */
static void set_name(const struct binding *binding, json_t *bound) {
    json_t *given = json_object_get(bound, "name");
    if (given == NULL)
        json_object_set_new(bound, "name", json_string("flow"));
    else if (!json_is_string(given))
        return;
    if (binding->count > 0)
        json_object_set_new(bound, "name",
                            json_sprintf("%s_%d", json_string_value(json_object_get(bound, "name")),
                                         binding->count + 1));
}

/* Replaces the values of dims that the model also defines. */
static void bind_dims(const struct binding *binding, json_t *bound) {
    const struct indexer *indexer = &binding->model->indexer;
    const struct {
        const char *word;
        int64_t value;
    } known[] = {{"index_n_heads", indexer->heads},
                 {"index_head_dim", indexer->head_dim},
                 {"index_topk", indexer->topk}};
    json_t *dims = json_copy(json_object_get(bound, "dims"));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (json_object_get(dims, known[i].word) != NULL && known[i].value > 0)
            json_object_set_new(dims, known[i].word, json_integer(known[i].value));
    if (dims != NULL)
        json_object_set_new(bound, "dims", dims);
}

static json_t *bind(const struct binding *binding, const struct spec *spec, int layer) {
    json_t *bound = json_copy(binding->source);
    if (bound == NULL)
        return NULL;
    set_name(binding, bound);
    bind_dims(binding, bound);
    json_object_set_new(bound, "attention", bind_attention(binding, spec, layer));
    return bound;
}

static bool add(struct binding *binding, size_t at, struct spec_list *list, struct error *error) {
    int layer = first_layer(binding, &list->items[at]);
    if (layer < 0)
        return true;
    json_t *bound = bind(binding, &list->items[at], layer);
    struct json_place place = json_root(binding->file, bound);
    bool done = bound != NULL ? spec_read(&place, list, error) : out_of_memory(error);
    json_decref(bound);
    binding->count++;
    return done && check_layers(binding, &list->items[list->count - 1], error);
}

/* Makes the flow of a class for a geometry. */
static bool read_class(struct binding *binding, const struct spec *spec, struct error *error) {
    json_t *attention = json_object();
    spec_write_op(spec, attention);
    json_decref(binding->document);
    binding->document = flow_class_read(binding->file, attention, error);
    binding->source = json_object_get(binding->document, "flow");
    json_decref(attention);
    return binding->document != NULL;
}

static bool add_class(struct binding *binding, size_t at, struct spec_list *list,
                      struct error *error) {
    if (!read_class(binding, &list->items[at], error))
        return false;
    bool done = add(binding, at, list, error);
    if (!done)
        flow_class_find_place(binding->file, binding->document, error);
    return done;
}

static bool add_to_all(struct binding *binding, struct spec_list *list, struct error *error) {
    bool (*add_one)(struct binding *, size_t, struct spec_list *, struct error *) =
        is_flow_class(binding->file) ? add_class : add;
    size_t count = list->count;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any |= attends_to_all(&list->items[i]);
        if (attends_to_all(&list->items[i]) && !add_one(binding, i, list, error))
            return false;
    }
    if (!any)
        return fail(error, EXIT_USER, "%s: no layer of the model attends to all that it stores",
                    binding->file);
    return binding->count > 0 ||
           fail(error, EXIT_USER,
                "%s: /layers_skip: names every layer that attends to its whole cache; accepted: "
                "only some of them",
                binding->file);
}

static bool read_file(struct binding *binding, struct error *error) {
    binding->source = json_read(binding->file, error);
    const char *op = json_string_value(json_object_get(binding->source, "op"));
    return binding->source != NULL &&
           ((op != NULL && strcmp(op, "flow") == 0) ||
            fail(error, EXIT_USER, "%s: /op: is not a flow; accepted: \"flow\"", binding->file));
}

bool specs_add_flow(const char *file, const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error) {
    bool is_class = is_flow_class(file);
    struct binding binding = {.file = file, .model = model, .layout_chosen = choice->layout >= 0};
    bool done = (is_class || read_file(&binding, error)) && add_to_all(&binding, list, error);
    json_decref(is_class ? binding.document : binding.source);
    return done;
}
