/* The specs of an ONNX model, and the nodes that get none.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../defs/isa.h"
#include "../../gen/generators.h"
#include "../spec_file.h"
#include "onnx_bodies.h"
#include "onnx_ops.h"

/* The second is a limit, because functions that call functions may stand for any number of nodes.
 */
enum { MOST_KINDS = 24, MOST_NODES = 1 << 20 };

/* Nodes without specs: their number by kind, and why specs of some are incomplete. */
struct survey {
    struct onnx_model model;
    struct onnx_specs specs;
    json_t *kinds; /* "MatMul": 214 */
    int open, leading, counting, misplaced;
    char reason[520]; /* of the first incomplete node */
    bool runtime;     /* specs are only for nodes that ONNX Runtime hands over */
    int nodes;
    json_t *taken; /* nodes that have specs, by the op */
    json_t *left;  /* nodes that are left to ONNX Runtime: names, by the reason */
};

/* ---- Kinds ---- */

/* Replaces characters that JSON or terminals do not take. */
static void make_text(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            *text = '?';
}

/* The name of a kind has no spaces, too. */
static void make_key(char *text) {
    make_text(text);
    for (; *text; text++)
        if (*text == ' ')
            *text = '?';
}

static bool count_kind(json_t *kinds, const struct onnx_node *node, struct error *error) {
    struct onnx_op_text words;
    char key[128];
    snprintf(key, sizeof key, "%s", onnx_op_words(node, &words));
    make_key(key);
    json_int_t before = json_integer_value(json_object_get(kinds, key));
    return json_object_set_new(kinds, key, json_integer(before + 1)) == 0 || out_of_memory(error);
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

/* Writes kinds of nodes, such as "214 MatMul, 96 Add". */
static bool write_kinds(json_t *all, struct text *text) {
    const char *name;
    json_t *value;
    size_t count = 0;
    struct kind *kinds = calloc(json_object_size(all) + 1, sizeof *kinds);
    if (kinds == NULL)
        return false;
    json_object_foreach(all, name, value) {
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

static bool leave_open(struct survey *survey, const struct onnx_call *call, const char *words,
                       struct error *error) {
    char name[192];
    if (!count_kind(survey->kinds, call->node, error))
        return false;
    if (survey->open++ > 0)
        return true;
    onnx_name_node(call->model, call->node, name, sizeof name);
    snprintf(survey->reason, sizeof survey->reason, "%s: %s", name, words);
    onnx_make_printable(survey->reason);
    return true;
}

/* ---- Nodes that are left to ONNX Runtime ---- */

static bool leave_to_runtime(struct survey *survey, const struct onnx_call *call, char *words,
                             struct error *error) {
    char name[192];
    onnx_name_node(call->model, call->node, name, sizeof name);
    make_text(name);
    make_text(words);
    json_t *names = json_object_get(survey->left, words);
    if (names == NULL && json_object_set_new(survey->left, words, names = json_array()) != 0)
        return out_of_memory(error);
    return json_array_append_new(names, json_string(name)) == 0 || out_of_memory(error);
}

/* Writes a line for what is handed over, and one for each reason, with the first of its nodes. */
static bool write_runtime(const struct survey *survey, struct text *text) {
    const char *reason;
    json_t *names;
    bool done = true;
    if (survey->runtime)
        done = text_print(text, "%s: note: ONNX Runtime hands over: ", survey->model.file) &&
               write_kinds(survey->taken, text) && text_print(text, "\n");
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

/* Copies the message of a refusal, without the name of the node. */
static void copy_reason(const struct onnx_call *call, const struct error *error, char *words,
                        size_t size) {
    char name[192];
    const char *text = error->text;
    size_t file = strlen(call->model->file);
    onnx_name_node(call->model, call->node, name, sizeof name);
    if (strncmp(text, call->model->file, file) == 0 && strncmp(text + file, ": ", 2) == 0)
        text += file + 2;
    if (strncmp(text, name, strlen(name)) == 0 && strncmp(text + strlen(name), ": ", 2) == 0)
        text += strlen(name) + 2;
    snprintf(words, size, "%.*s", (int)size - 1, text);
}

/* Whether the provider leaves nodes of an op without kernels, because portable code is slower than
   the runtime's op. */
static bool needs_kernels(const struct onnx_call *call) {
    return call->op == &onnx_group_query || strcmp(call->op->name, "Attention") == 0;
}

static bool lacks_kernels(const struct spec_list *list, char *words, size_t size) {
    const struct isa *scalar = kvmill_isa_by_name("scalar", strlen("scalar"));
    struct kernel_list kernels = {0};
    struct error ignored;
    char why[256];
    bool lacks = list->count > 0 && spec_kernels(&list->items[0], scalar, &kernels, &ignored) &&
                 kernels.count == 0;
    kernel_list_free(&kernels);
    if (lacks) {
        spec_without_kernels(&list->items[0], why, sizeof why);
        snprintf(words, size, "there are no kernels (%s)", why);
    }
    return lacks;
}

/* Whether ONNX Runtime's provider would leave a node: kvmill refuses it, or has no kernels. */
static bool is_left(const struct onnx_call *call, char *words, size_t size) {
    struct spec_list list = {0};
    struct error error = {0};
    bool good = check_call(call, &error) && call->op->add(call, &list, &error);
    bool left = good && needs_kernels(call) && lacks_kernels(&list, words, size);
    if (!good && error.exit_code == EXIT_USER)
        copy_reason(call, &error, words, size);
    spec_list_free(&list);
    return left || (!good && error.exit_code == EXIT_USER);
}

/* Looks at a node of an op that kvmill has. */
static bool consider(struct survey *survey, const struct onnx_call *call, struct error *error) {
    const struct onnx_op *op = call->op;
    char words[320] = "";
    bool pays = !survey->runtime || op->pays == NULL || op->pays(call, words, sizeof words);
    if (!pays && words[0] == '\0')
        return count_kind(survey->kinds, call->node, error);
    if (pays && !survey->runtime && !check_call(call, error))
        return false;
    if (pays && !onnx_is_complete(call, words, sizeof words))
        return leave_open(survey, call, words, error);
    if (!pays || (op->serves != NULL && !op->serves(call, words, sizeof words)) ||
        (survey->runtime && is_left(call, words, sizeof words)))
        return leave_to_runtime(survey, call, words, error);
    return count_kind(survey->taken, call->node, error) && add_specs(survey, *call, error);
}

/* ---- All nodes ---- */

static bool look_at_all(struct survey *survey, struct onnx_model *model, struct error *error);

static bool look_inside(struct survey *survey, const struct onnx_model *model,
                        const struct onnx_node *node, const struct onnx_attribute *attribute,
                        struct error *error) {
    struct onnx_body body;
    struct onnx_model opened;
    bool done = (attribute != NULL ? onnx_open_graph(model, node, attribute, &body, &opened, error)
                                   : onnx_open_function(model, node, &body, &opened, error)) &&
                look_at_all(survey, &opened, error);
    onnx_free(&opened);
    return done;
}

static bool look_at_bodies(struct survey *survey, const struct onnx_model *model,
                           const struct onnx_node *node, struct error *error) {
    bool done = true;
    for (int i = 0; done && i < node->attribute_count; i++)
        if (node->attributes[i].kind == ONNX_GRAPH)
            done = look_inside(survey, model, node, &node->attributes[i], error);
    return done;
}

static bool look_at(struct survey *survey, struct onnx_model *model, const struct onnx_node *node,
                    struct error *error) {
    const struct onnx_call call = {model, node, op_of(node)};
    if (survey->nodes++ >= MOST_NODES)
        return onnx_fail(error, model, node,
                         "is one node too many; accepted: %d, those of "
                         "functions at each call",
                         (int)MOST_NODES);
    if (onnx_function_of(model, node) != NULL)
        return look_inside(survey, model, node, NULL, error);
    if (call.op != NULL)
        return consider(survey, &call, error);
    return (onnx_is_constant(node) || count_kind(survey->kinds, node, error)) &&
           look_at_bodies(survey, model, node, error);
}

static bool look_at_all(struct survey *survey, struct onnx_model *model, struct error *error) {
    bool done = true;
    for (int i = 0; done && i < model->node_count; i++)
        done = look_at(survey, model, &model->nodes[i], error);
    return done;
}

/* ---- Notes ---- */

static bool write_left(const struct survey *survey, struct text *text) {
    const char *file = survey->model.file;
    bool done = write_runtime(survey, text);
    if (json_object_size(survey->kinds) > 0)
        done = done && text_print(text, "%s: note: left alone: ", file) &&
               write_kinds(survey->kinds, text) && text_print(text, "\n");
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
        return fail(error, EXIT_USER, "%s: the model says too little: %s", survey->model.file,
                    survey->reason);
    if (json_object_size(survey->left) > 0)
        return fail_for_runtime(survey, error);
    write_kinds(survey->kinds, &left);
    fail(error, EXIT_USER,
         survey->runtime
             ? "%s: no node that ONNX Runtime gives to kvmill, but %.500s; accepted: "
               "TensorScatter, Attention, GroupQueryAttention, large Gather, GatherND or "
               "ScatterElements, those of PMX"
             : "%s: no op of kvmill in it, but %.500s; accepted: %s, "
               "GroupQueryAttention",
         survey->model.file, left.length ? left.data : "no node", onnx_op_names(names));
    text_free(&left);
    return false;
}

/* ---- The survey ---- */

static bool make_survey(struct survey *survey, const char *name, struct error *error) {
    struct text *notes = &survey->specs.list->notes;
    return onnx_read(name, &survey->model, error) && look_at_all(survey, &survey->model, error) &&
           require_specs(survey, error) &&
           ((write_left(survey, notes) && write_remarks(survey, notes)) || out_of_memory(error));
}

static bool specs_of(const char *name, bool runtime, struct spec_list *list, struct error *error) {
    struct survey survey = {
        .runtime = runtime, .kinds = json_object(), .taken = json_object(), .left = json_object()};
    bool done = onnx_specs_begin(&survey.specs, list, error) && make_survey(&survey, name, error);
    onnx_free(&survey.model);
    onnx_specs_end(&survey.specs);
    json_decref(survey.kinds);
    json_decref(survey.taken);
    json_decref(survey.left);
    return done;
}

bool specs_of_onnx(const char *name, struct spec_list *list, struct error *error) {
    return specs_of(name, false, list, error);
}

bool specs_of_onnx_runtime(const char *name, struct spec_list *list, struct error *error) {
    return specs_of(name, true, list, error);
}
