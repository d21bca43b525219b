/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_rewrite.h"

#include <stdlib.h>
#include <string.h>

#include "onnx_ops.h"
#include "onnx_reader.h"
#include "onnx_rewrite_cache.h"

static char domain[] = "kvmill", step_name[] = "TensorScatterAttention", opset_name[] = "opset";
static char cache_step_name[] = "CacheStep";
static char *const format_names[] = {"key_cache_format", "value_cache_format"};

/* Names of Attention by its number of outputs: with both present tensors, or without them. */
static char *const attention_names[] = {NULL, "Attention", NULL, "AttentionPresent",
                                        "AttentionScores"};

enum fate { STAYS, MOVES, GOES /* becomes part of a step */ };

/* Inputs and outputs of a step, as names; "": absent. */
enum { STEP_INPUTS = 8, STEP_OUTPUTS = 3 };

struct rewriting {
    struct onnx_model model;
    Onnx__Model *message;
    struct spec_list specs;
    enum fate *fates;           /* of nodes */
    int *makers;                /* of values: the number of a node, or -1 */
    int *readers;               /* of values: the number of inputs that read it */
    const char *const *formats; /* of caches of K and V; NULL: caches stay as they are */
    struct onnx_rewritten *out;
    struct error *error;
};

/* ---- Nodes that kvmill takes ---- */

/* `why` includes the node's name. */
static bool note(struct rewriting *rewriting, const struct error *why, const char *fate) {
    return text_print(&rewriting->out->notes, "%s; %s\n", why->text, fate) ||
           out_of_memory(rewriting->error);
}

static int count_outputs(const struct onnx_node *node) {
    int count = node->output_count;
    while (count > 0 && node->outputs[count - 1] == ONNX_ABSENT)
        count--;
    return count;
}

static int input_of(const struct onnx_node *node, int i) {
    return i < node->input_count ? node->inputs[i] : ONNX_ABSENT;
}

static bool has_name(const struct onnx_node *node) {
    return strcmp(node->op, "Attention") != 0 || attention_names[count_outputs(node)] != NULL;
}

/* Checks what the model says.  The runtime infers what it leaves open, and kvmill checks that in
   the run. */
static bool judge_node(struct rewriting *rewriting, const struct onnx_call *call, enum fate *fate) {
    struct error why = {0};
    char words[320];
    *fate = MOVES;
    if (has_name(call->node) && !onnx_is_complete(call, words, sizeof words)) {
        onnx_fail(&why, &rewriting->model, call->node, "%s", words);
        return note(rewriting, &why, "moved unchecked");
    }
    if (has_name(call->node) ? call->op->add(call, &rewriting->specs, &why)
                             : onnx_fail(&why, &rewriting->model, call->node,
                                         "has present_key only; accepted: both present tensors"))
        return true;
    if (why.exit_code == EXIT_ENVIRONMENT) {
        *rewriting->error = why;
        return false;
    }
    *fate = STAYS;
    return note(rewriting, &why, "left alone");
}

static bool is_quantised(const struct rewriting *rewriting, const struct onnx_node *node,
                         const char *name) {
    char type[8];
    struct error ignored;
    return !onnx_word_of(&rewriting->model, node, name, "NONE", type, sizeof type, &ignored) ||
           strcmp(type, "NONE") != 0;
}

/* Whether kvmill would refuse the node in its own domain, too; sets `words` to the reason.  A model
   that says too little is not refused here. */
static bool is_refused(struct rewriting *rewriting, const struct onnx_node *node, char *words,
                       size_t size) {
    const struct onnx_call call = {&rewriting->model, node, &onnx_group_query};
    return call.op->is_complete(&call, words, size) && !call.op->serves(&call, words, size);
}

/* Takes a node with past and present caches that are not quantised. */
static bool judge_group_query(struct rewriting *rewriting, const struct onnx_node *node,
                              enum fate *fate) {
    struct error why;
    char words[320] = "";
    bool whole = input_of(node, ONNX_GROUP_QUERY_PAST) != ONNX_ABSENT &&
                 input_of(node, ONNX_GROUP_QUERY_PAST + 1) != ONNX_ABSENT &&
                 count_outputs(node) == ONNX_GROUP_QUERY_PRESENT + 2;
    bool quantised = is_quantised(rewriting, node, "k_quant_type") ||
                     is_quantised(rewriting, node, "v_quant_type");
    bool refused = whole && !quantised && is_refused(rewriting, node, words, sizeof words);
    *fate = whole && !quantised && !refused ? MOVES : STAYS;
    if (*fate == MOVES)
        return true;
    onnx_fail(&why, &rewriting->model, node, "%s",
              refused ? words
              : whole ? "k_quant_type or v_quant_type; accepted with --cache: NONE"
                      : "accepted with --cache: past_key, past_value, present_key, present_value");
    return note(rewriting, &why, "left alone");
}

static bool judge(struct rewriting *rewriting, int i) {
    const struct onnx_node *node = &rewriting->model.nodes[i];
    const struct onnx_call call = {&rewriting->model, node, onnx_op_of(node)};
    if (rewriting->formats != NULL && onnx_is_group_query(node))
        return judge_group_query(rewriting, node, &rewriting->fates[i]);
    bool known = call.op != NULL && (strcmp(call.op->name, "TensorScatter") == 0 ||
                                     strcmp(call.op->name, "Attention") == 0);
    return !known || (onnx_check_call(&call, rewriting->error) &&
                      judge_node(rewriting, &call, &rewriting->fates[i]));
}

static bool has_branches(const struct rewriting *rewriting) {
    bool found = false;
    for (int i = 0; i < rewriting->model.node_count; i++)
        found = found || onnx_has_graph(&rewriting->model.nodes[i]);
    return found;
}

static void set_readers(struct rewriting *rewriting) {
    const struct onnx_model *model = &rewriting->model;
    for (int i = 0; i < model->value_count; i++)
        rewriting->makers[i] = -1;
    for (int i = 0; i < model->node_count; i++) {
        const struct onnx_node *node = &model->nodes[i];
        for (int j = 0; j < node->input_count; j++)
            if (node->inputs[j] != ONNX_ABSENT)
                rewriting->readers[node->inputs[j]]++;
        for (int j = 0; j < node->output_count; j++)
            if (node->outputs[j] != ONNX_ABSENT)
                rewriting->makers[node->outputs[j]] = i;
    }
}

/* ---- Steps ---- */

/* Returns the number of the TensorScatter node that makes `value`, if nothing else reads it; or
   -1. */
static int scatter_of(const struct rewriting *rewriting, int value) {
    const struct onnx_model *model = &rewriting->model;
    int maker = value != ONNX_ABSENT ? rewriting->makers[value] : -1;
    char mode[16];
    int64_t axis;
    if (maker < 0 || rewriting->fates[maker] != MOVES || rewriting->readers[value] != 1)
        return -1;
    const struct onnx_node *node = &model->nodes[maker];
    const struct onnx_value *past = &model->values[node->inputs[0]];
    struct error ignored;
    bool fits = strcmp(node->op, "TensorScatter") == 0 &&
                onnx_integer_of(model, node, "axis", -2, &axis, &ignored) &&
                onnx_word_of(model, node, "mode", "linear", mode, sizeof mode, &ignored) &&
                strcmp(mode, "linear") == 0 &&
                (axis == -2 || (past->has_shape && axis == past->rank - 2));
    return fits ? maker : -1;
}

static bool is_step(const struct rewriting *rewriting, int i, int scatters[2]) {
    const struct onnx_node *nodes = rewriting->model.nodes, *node = &nodes[i];
    if (rewriting->fates[i] != MOVES || strcmp(node->op, "Attention") != 0 ||
        count_outputs(node) != 1 || input_of(node, 4) != ONNX_ABSENT ||
        input_of(node, 6) == ONNX_ABSENT)
        return false;
    for (int side = 0; side < 2; side++)
        scatters[side] = scatter_of(rewriting, input_of(node, 1 + side));
    return scatters[0] >= 0 && scatters[1] >= 0 && scatters[0] != scatters[1] &&
           input_of(&nodes[scatters[0]], 2) == input_of(&nodes[scatters[1]], 2);
}

/* ---- The message ---- */

static char *name_of(const Onnx__Node *message, size_t i) {
    static char none[] = "";
    return i < message->n_input ? message->input[i] : none;
}

/* Rewrites a cache of a side, which is an input and an output of a node.  heads: see struct
   onnx_cache. */
static bool set_cache(struct rewriting *rewriting, int side, const struct onnx_node *node,
                      int input, int output, int64_t heads) {
    int past = node->inputs[input];
    const struct onnx_cache cache = {
        .model = &rewriting->model,
        .node = node,
        .past = past,
        .present = node->outputs[output],
        .readers = rewriting->readers[past],
        .kv_num_heads = heads,
        .format = rewriting->formats[side],
    };
    return onnx_set_cache(&cache, rewriting->message->graph, rewriting->error);
}

static bool set_caches(struct rewriting *rewriting, int attention, const int scatters[2]) {
    const struct onnx_node *nodes = rewriting->model.nodes;
    int64_t heads;
    bool done = onnx_integer_of(&rewriting->model, &nodes[attention], "kv_num_heads", 0, &heads,
                                rewriting->error);
    for (int side = 0; done && rewriting->formats != NULL && side < 2; side++)
        done = set_cache(rewriting, side, &nodes[scatters[side]], 0, 0, heads);
    return done;
}

/* Rewrites both caches of GroupQueryAttention; they have an axis for heads, so 0 is passed. */
static bool set_group_query(struct rewriting *rewriting, const struct onnx_node *node) {
    bool done = true;
    for (int side = 0; done && side < 2; side++) {
        int present = ONNX_GROUP_QUERY_PRESENT + side;
        done = rewriting->readers[node->outputs[present]] == 0 ||
               onnx_fail(rewriting->error, &rewriting->model, node,
                         "the cache \"%.80s\" is read by another node; accepted: none",
                         rewriting->model.values[node->outputs[present]].name);
        done = done && set_cache(rewriting, side, node, ONNX_GROUP_QUERY_PAST + side, present, 0);
    }
    return done;
}

static bool set_group_queries(struct rewriting *rewriting) {
    bool done = true;
    for (int i = 0; done && i < rewriting->model.node_count; i++) {
        const struct onnx_node *node = &rewriting->model.nodes[i];
        if (rewriting->fates[i] == MOVES && onnx_is_group_query(node))
            done = set_group_query(rewriting, node);
    }
    return done;
}

static bool set_step(struct rewriting *rewriting, int i, const int scatters[2]) {
    Onnx__Node **nodes = rewriting->message->graph->node, *node = nodes[i];
    const Onnx__Node *key = nodes[scatters[0]], *value = nodes[scatters[1]];
    char **inputs = onnx_allocate(&rewriting->model, STEP_INPUTS + STEP_OUTPUTS, sizeof *inputs,
                                  rewriting->error);
    if (inputs == NULL || !set_caches(rewriting, i, scatters))
        return false;
    char *const names[] = {name_of(node, 0), name_of(key, 1),   name_of(value, 1), name_of(node, 3),
                           name_of(key, 0),  name_of(value, 0), name_of(node, 6),  name_of(key, 2),
                           node->output[0],  key->output[0],    value->output[0]};
    memcpy(inputs, names, sizeof names);
    node->op_type = rewriting->formats != NULL ? cache_step_name : step_name;
    node->input = inputs;
    node->n_input = STEP_INPUTS;
    node->output = inputs + STEP_INPUTS;
    node->n_output = STEP_OUTPUTS;
    rewriting->fates[scatters[0]] = rewriting->fates[scatters[1]] = GOES;
    return true;
}

static bool set_steps(struct rewriting *rewriting) {
    int scatters[2];
    bool done = true;
    for (int i = 0; done && i < rewriting->model.node_count; i++)
        if (is_step(rewriting, i, scatters))
            done = set_step(rewriting, i, scatters);
    return done;
}

static Onnx__Attribute *add_attribute(struct rewriting *rewriting, Onnx__Node *node, char *name,
                                      int kind) {
    struct onnx_model *model = &rewriting->model;
    Onnx__Attribute *attribute = onnx_allocate(model, 1, sizeof *attribute, rewriting->error);
    Onnx__Attribute **list =
        onnx_allocate(model, node->n_attribute + 1, sizeof(Onnx__Attribute *), rewriting->error);
    if (attribute == NULL || list == NULL)
        return NULL;
    onnx__attribute__init(attribute);
    attribute->name = name;
    attribute->has_type = 1;
    attribute->type = kind;
    memcpy(list, node->attribute, node->n_attribute * sizeof *list);
    list[node->n_attribute++] = attribute;
    node->attribute = list;
    return attribute;
}

static bool set_formats(struct rewriting *rewriting, Onnx__Node *node) {
    for (int side = 0; side < 2; side++) {
        const char *format = rewriting->formats[side];
        Onnx__Attribute *attribute =
            add_attribute(rewriting, node, format_names[side], ONNX_STRING);
        if (attribute == NULL)
            return false;
        attribute->has_s = 1;
        attribute->s = (ProtobufCBinaryData){strlen(format), (uint8_t *)(uintptr_t)format};
    }
    return true;
}

/* In kvmill's domain the opset is an attribute, because the model's import does not apply there. */
static bool set_attention(struct rewriting *rewriting, Onnx__Node *node, int outputs) {
    if (rewriting->formats != NULL)
        return set_formats(rewriting, node);
    Onnx__Attribute *opset = add_attribute(rewriting, node, opset_name, ONNX_INTEGER);
    if (opset == NULL)
        return false;
    opset->has_i = 1;
    opset->i = onnx_meaning_opset(&rewriting->model);
    if (node->op_type != step_name) {
        node->op_type = attention_names[outputs];
        node->n_output = (size_t)outputs;
    }
    return true;
}

/* Moves nodes to the domain, and removes those that became part of a step. */
static bool move_nodes(struct rewriting *rewriting) {
    Onnx__Graph *graph = rewriting->message->graph;
    bool done = true;
    size_t kept = 0;
    for (int i = 0; done && i < rewriting->model.node_count; i++) {
        Onnx__Node *node = graph->node[i];
        int outputs = count_outputs(&rewriting->model.nodes[i]);
        rewriting->out->nodes += rewriting->fates[i] != STAYS;
        if (rewriting->fates[i] == MOVES) {
            node->domain = domain;
            done = strcmp(node->op_type, "TensorScatter") == 0 ||
                   set_attention(rewriting, node, outputs);
        }
        if (rewriting->fates[i] != GOES)
            graph->node[kept++] = node;
    }
    graph->n_node = done ? kept : graph->n_node;
    return done;
}

static bool import_domain(struct rewriting *rewriting) {
    Onnx__Model *message = rewriting->message;
    struct onnx_model *model = &rewriting->model;
    Onnx__OperatorSet *set = onnx_allocate(model, 1, sizeof *set, rewriting->error);
    Onnx__OperatorSet **list = onnx_allocate(model, message->n_opset_import + 1,
                                             sizeof(Onnx__OperatorSet *), rewriting->error);
    if (set == NULL || list == NULL)
        return false;
    onnx__operator_set__init(set);
    set->domain = domain;
    set->has_version = 1;
    set->version = 1;
    memcpy(list, message->opset_import, message->n_opset_import * sizeof *list);
    list[message->n_opset_import++] = set;
    message->opset_import = list;
    return true;
}

static bool write_message(struct rewriting *rewriting) {
    size_t size = onnx__model__get_packed_size(rewriting->message);
    unsigned char *data = malloc(size + 1);
    bool done = data != NULL && onnx__model__pack(rewriting->message, data) == size &&
                text_append(&rewriting->out->model, (const char *)data, size);
    free(data);
    return done || out_of_memory(rewriting->error);
}

/* ---- The whole model ---- */

static bool look_at_nodes(struct rewriting *rewriting) {
    struct onnx_model *model = &rewriting->model;
    size_t nodes = (size_t)model->node_count, values = (size_t)model->value_count;
    rewriting->fates = onnx_allocate(model, nodes, sizeof *rewriting->fates, rewriting->error);
    rewriting->makers = onnx_allocate(model, values, sizeof(int), rewriting->error);
    rewriting->readers = onnx_allocate(model, values, sizeof(int), rewriting->error);
    bool done = rewriting->fates && rewriting->makers && rewriting->readers;
    for (int i = 0; done && i < model->node_count; i++)
        done = judge(rewriting, i);
    if (done)
        set_readers(rewriting);
    return done;
}

static bool note_past(struct rewriting *rewriting, const struct onnx_node *node) {
    struct error why = {0};
    if (strcmp(node->op, "Attention") != 0 || input_of(node, 4) == ONNX_ABSENT)
        return true;
    onnx_fail(&why, &rewriting->model, node,
              "has past_key; accepted with --cache: TensorScatter, or GroupQueryAttention");
    return note(rewriting, &why, "left alone");
}

/* With formats, only steps and GroupQueryAttention change; all other nodes stay. */
static bool leave_others(struct rewriting *rewriting, bool whole) {
    bool done = true;
    for (int i = 0; done && rewriting->formats != NULL && i < rewriting->model.node_count; i++) {
        const struct onnx_node *node = &rewriting->model.nodes[i];
        bool step = rewriting->message->graph->node[i]->op_type == cache_step_name ||
                    (whole && onnx_is_group_query(node));
        if (step || rewriting->fates[i] != MOVES)
            continue;
        rewriting->fates[i] = STAYS;
        done = note_past(rewriting, node);
    }
    return done;
}

static bool refuse(struct rewriting *rewriting) {
    const char *notes = rewriting->out->notes.data;
    return fail(rewriting->error, EXIT_USER, "%s: no node that kvmill takes; accepted: %s\n%s",
                rewriting->model.file,
                rewriting->formats != NULL
                    ? "two linear TensorScatter, and an Attention that alone reads both; or "
                      "GroupQueryAttention with past and present"
                    : "TensorScatter or Attention",
                notes != NULL ? notes : "");
}

/* Steps are not looked for if the model has branches: their bodies may read any value by name. */
static bool rewrite(struct rewriting *rewriting) {
    bool done = look_at_nodes(rewriting), whole = !has_branches(rewriting);
    if (done && whole)
        done = set_steps(rewriting) && (rewriting->formats == NULL || set_group_queries(rewriting));
    done = done && leave_others(rewriting, whole) && move_nodes(rewriting);
    if (done && rewriting->out->nodes == 0)
        return refuse(rewriting);
    for (int i = 0; i < rewriting->model.value_count; i++)
        rewriting->out->has_files |= rewriting->model.values[i].constant.place == ONNX_ELSEWHERE;
    return done && import_domain(rewriting) && write_message(rewriting);
}

bool onnx_rewrite(const char *file, const char *const formats[2], struct onnx_rewritten *rewritten,
                  struct error *error) {
    struct rewriting rewriting = {.formats = formats, .out = rewritten, .error = error};
    *rewritten = (struct onnx_rewritten){0};
    bool done =
        onnx_read_message(file, &rewriting.model, &rewriting.message, error) && rewrite(&rewriting);
    spec_list_free(&rewriting.specs);
    onnx_free(&rewriting.model);
    return done;
}
