/* The specs of an ONNX model, and the nodes that get none.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_ops.h"

enum { MOST_KINDS = 24 };

/* Nodes without specs: their number by kind, and why specs of some are incomplete. */
struct survey {
    struct onnx_model model;
    struct onnx_specs specs;
    json_t *kinds; /* "MatMul": 214 */
    int open, leading, counting, misplaced;
    char reason[520]; /* of the first incomplete node */
    json_t *left;     /* nodes that are left to ONNX Runtime: names, by the reason */
};

/* ---- Kinds ---- */

/* Replaces characters that JSON keys or terminals do not take. */
static void make_key(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text > '~')
            *text = '?';
}

static void count_kind(struct survey *survey, const struct onnx_node *node) {
    struct onnx_op_text words;
    char key[128];
    snprintf(key, sizeof key, "%s", onnx_op_words(node, &words));
    make_key(key);
    strcat(key, onnx_has_graph(node) ? " with its branches" : "");
    json_int_t before = json_integer_value(json_object_get(survey->kinds, key));
    json_object_set_new(survey->kinds, key, json_integer(before + 1));
}

struct kind {
    const char *name;
    json_int_t count;
};

static int by_count(const void *a, const void *b) {
    const struct kind *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : strcmp(x->name, y->name);
}

static bool write_sorted(const struct kind *kinds, size_t count, struct text *text) {
    bool done = true;
    for (size_t i = 0; done && i < count && i < MOST_KINDS; i++)
        done =
            text_print(text, "%s%lld %s", i ? ", " : "", (long long)kinds[i].count, kinds[i].name);
    return done &&
           (count <= MOST_KINDS || text_print(text, ", and %zu more kinds", count - MOST_KINDS));
}

/* Writes the kinds of nodes, such as "214 MatMul, 96 Add". */
static bool write_kinds(const struct survey *survey, struct text *text) {
    const char *name;
    json_t *value;
    size_t count = 0;
    struct kind *kinds = calloc(json_object_size(survey->kinds) + 1, sizeof *kinds);
    if (kinds == NULL)
        return false;
    json_object_foreach(survey->kinds, name, value) {
        kinds[count++] = (struct kind){name, json_integer_value(value)};
    }
    qsort(kinds, count, sizeof *kinds, by_count);
    bool done = write_sorted(kinds, count, text);
    free(kinds);
    return done;
}

/* ---- Specs ---- */

static void count_remarks(struct survey *survey, const struct onnx_call *call) {
    const struct onnx_value *data = onnx_input(call, 0), *indices = onnx_input(call, 1);
    bool by_element = strstr(call->op->name, "Elements") != NULL;
    survey->counting += call->op->from_index;
    survey->misplaced += onnx_pmx_is_misplaced(call->node);
    for (int d = 0; by_element && d < data->rank; d++)
        if (indices->dims[d] < data->dims[d]) {
            survey->leading++;
            break;
        }
}

static bool add_spec(struct survey *survey, const struct onnx_call *call, struct error *error) {
    int place;
    if (!onnx_specs_add(&survey->specs, call, &place, error))
        return false;
    count_remarks(survey, call);
    return true;
}

static void leave_open(struct survey *survey, const struct onnx_call *call, const char *words) {
    char name[192];
    count_kind(survey, call->node);
    if (survey->open++ > 0)
        return;
    onnx_name_node(call->model, call->node, name, sizeof name);
    snprintf(survey->reason, sizeof survey->reason, "%s: %s", name, words);
    onnx_make_printable(survey->reason);
}

/* ---- Nodes that are left to ONNX Runtime ---- */

static bool leave_to_runtime(struct survey *survey, const struct onnx_call *call, char *words,
                             struct error *error) {
    char name[192];
    onnx_name_node(call->model, call->node, name, sizeof name);
    onnx_make_printable(words);
    json_t *names = json_object_get(survey->left, words);
    if (names == NULL && json_object_set_new(survey->left, words, names = json_array()) != 0)
        return out_of_memory(error);
    return json_array_append_new(names, json_string(name)) == 0 || out_of_memory(error);
}

/* Writes a line for each reason, with the first of its nodes. */
static bool write_runtime(const struct survey *survey, struct text *text) {
    const char *reason;
    json_t *names;
    bool done = true;
    json_object_foreach(survey->left, reason, names) {
        size_t count = json_array_size(names);
        done = done && text_print(text, "%s: note: left to ONNX Runtime: %s", survey->model.file,
                                  json_string_value(json_array_get(names, 0)));
        if (done && count > 1)
            done = text_print(text, " and %zu more", count - 1);
        done = done && text_print(text, ": %s\n", reason);
    }
    return done;
}

static const struct onnx_op *op_of(const struct onnx_node *node) {
    if (onnx_is_cache_step(node))
        return &onnx_cache_step;
    if (onnx_is_cache_group_query(node))
        return &onnx_cache_group_query;
    return onnx_is_group_query(node) ? &onnx_group_query : onnx_op_of(node);
}

/* Nodes of ops that only serve to create kernels are checked by the runtime. */
static bool check_call(const struct onnx_call *call, struct error *error) {
    return call->op == &onnx_group_query || call->op == &onnx_cache_group_query ||
           call->op == &onnx_cache_step || onnx_check_call(call, error);
}

static bool add_specs(struct survey *survey, struct onnx_call call, struct error *error) {
    bool done = true;
    for (; done && call.op != NULL; call.op = call.op->next)
        done = add_spec(survey, &call, error);
    return done;
}

static bool look_at(struct survey *survey, const struct onnx_node *node, struct error *error) {
    const struct onnx_call call = {&survey->model, node, op_of(node)};
    char words[320];
    if (call.op == NULL && !onnx_is_constant(node))
        count_kind(survey, node);
    if (call.op == NULL)
        return true;
    if (!check_call(&call, error))
        return false;
    if (!onnx_is_complete(&call, words, sizeof words)) {
        leave_open(survey, &call, words);
        return true;
    }
    return call.op->serves == NULL || call.op->serves(&call, words, sizeof words)
               ? add_specs(survey, call, error)
               : leave_to_runtime(survey, &call, words, error);
}

/* ---- Notes ---- */

static bool write_left(const struct survey *survey, struct text *text) {
    const char *file = survey->model.file;
    int functions = survey->model.function_count;
    bool done = write_runtime(survey, text);
    if (json_object_size(survey->kinds) > 0)
        done = done && text_print(text, "%s: note: left alone: ", file) &&
               write_kinds(survey, text) && text_print(text, "\n");
    if (functions > 0)
        done = done && text_print(text, "%s: note: the model's own functions are left alone: %d\n",
                                  file, functions);
    if (survey->open > 0)
        done = done &&
               text_print(text,
                          "%s: note: %d of these are of ops that kvmill has, but the model says "
                          "too little; the first: %s\n",
                          file, survey->open, survey->reason);
    return done;
}

static bool write_remark(const struct survey *survey, int count, const char *remark,
                         struct text *text) {
    return count == 0 ||
           text_print(text, "%s: note: in %d nodes %s\n", survey->model.file, count, remark);
}

static bool write_remarks(const struct survey *survey, struct text *text) {
    bool done = survey->counting == 0 ||
                text_print(text,
                           "%s: note: indices of gathers and scatters count from 0: callers add "
                           "the extent to negative ones, as kvmill run does\n",
                           survey->model.file);
    return done &&
           write_remark(survey, survey->leading,
                        "indices are fewer than data along other axes: callers pass the data's "
                        "leading part, with the data's strides, as kvmill run does",
                        text) &&
           write_remark(survey, survey->misplaced,
                        "the domain is of dynamic batching and the inputs are of static batching, "
                        "as which they are read",
                        text);
}

/* Fails with the first reason. */
static bool fail_for_runtime(const struct survey *survey, struct error *error) {
    void *first = json_object_iter(survey->left);
    return fail(error, EXIT_USER, "%s: left to ONNX Runtime: %s: %s", survey->model.file,
                json_string_value(json_array_get(json_object_iter_value(first), 0)),
                json_object_iter_key(first));
}

static bool require_specs(const struct survey *survey, struct error *error) {
    struct text left = {0};
    char names[ONNX_NAMES_SIZE];
    if (survey->specs.list->count > 0)
        return true;
    if (survey->open > 0)
        return fail(error, EXIT_USER, "%s: %s", survey->model.file, survey->reason);
    if (json_object_size(survey->left) > 0)
        return fail_for_runtime(survey, error);
    write_kinds(survey, &left);
    fail(error, EXIT_USER,
         "%s: no op of kvmill in it, but %.500s; accepted: %s, "
         "GroupQueryAttention",
         survey->model.file, left.length ? left.data : "no node", onnx_op_names(names));
    text_free(&left);
    return false;
}

/* ---- All nodes ---- */

static bool look_at_all(struct survey *survey, struct error *error) {
    for (int i = 0; i < survey->model.node_count; i++)
        if (!look_at(survey, &survey->model.nodes[i], error))
            return false;
    if (!require_specs(survey, error))
        return false;
    return (write_left(survey, &survey->specs.list->notes) &&
            write_remarks(survey, &survey->specs.list->notes)) ||
           out_of_memory(error);
}

bool specs_of_onnx(const char *name, struct spec_list *list, struct error *error) {
    struct survey survey = {.kinds = json_object(), .left = json_object()};
    bool done = onnx_specs_begin(&survey.specs, list, error) &&
                onnx_read(name, &survey.model, error) && look_at_all(&survey, error);
    onnx_free(&survey.model);
    onnx_specs_end(&survey.specs);
    json_decref(survey.kinds);
    json_decref(survey.left);
    return done;
}
