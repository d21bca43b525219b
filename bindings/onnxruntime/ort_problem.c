/* SPDX-License-Identifier: Apache-2.0 */
#include "ort_problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_step.h"
#include "group_query.h"
#include "infer.h"
#include "ort_windows.h"
#include "pmx.h"

bool problem_decline(struct reason *reason, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof reason->text, format, arguments);
    va_end(arguments);
    return false;
}

/* Declines with the runtime's message, and releases the status. */
static bool decline_for(struct reason *reason, OrtStatus *status) {
    problem_decline(reason, "%s", ort->GetErrorMessage(status));
    ort->ReleaseStatus(status);
    return false;
}

/* ---- Reading graphs ---- */

typedef OrtStatus *(*get_text)(const OrtNode *node, const char **out);

static const char *text_of(get_text get, const OrtNode *node) {
    const char *text = NULL;
    return runtime_succeeded(get(node, &text)) && text != NULL ? text : "";
}

const char *problem_node_name(const OrtNode *node) {
    return text_of(ort->Node_GetName, node);
}

const char *problem_node_op(const OrtNode *node) {
    return text_of(ort->Node_GetOperatorType, node);
}

const char *problem_node_domain(const OrtNode *node) {
    return text_of(ort->Node_GetDomain, node);
}

const char *problem_value_name(const OrtValueInfo *value) {
    const char *name = NULL;
    bool known = value != NULL && runtime_succeeded(ort->GetValueInfoName(value, &name));
    return known && name != NULL ? name : "";
}

static bool is_same(const OrtValueInfo *one, const OrtValueInfo *other) {
    const char *name = problem_value_name(one);
    return *name != '\0' && strcmp(name, problem_value_name(other)) == 0;
}

typedef OrtStatus *(*get_count)(const OrtNode *node, size_t *out);
typedef OrtStatus *(*get_values)(const OrtNode *node, const OrtValueInfo **out, size_t count);

static struct values values_of(get_count count, get_values get, const OrtNode *node) {
    struct values values = {NULL, 0};
    if (!runtime_succeeded(count(node, &values.count)))
        return values;
    values.items = calloc(values.count + 1, sizeof *values.items);
    if (values.items == NULL || !runtime_succeeded(get(node, values.items, values.count)))
        values.count = 0;
    return values;
}

struct values problem_inputs_of(const OrtNode *node) {
    return values_of(ort->Node_GetNumInputs, ort->Node_GetInputs, node);
}

struct values problem_outputs_of(const OrtNode *node) {
    return values_of(ort->Node_GetNumOutputs, ort->Node_GetOutputs, node);
}

bool problem_known(const OrtValueInfo *value, struct known_tensor *known) {
    const OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *info = NULL;
    return runtime_succeeded(ort->GetValueInfoTypeInfo(value, &type)) &&
           runtime_succeeded(ort->CastTypeInfoToTensorInfo(type, &info)) && info != NULL &&
           runtime_succeeded(infer_known(info, known));
}

/* ---- One node ---- */

static int version_of(const OrtNode *node) {
    int version = 0;
    return runtime_succeeded(ort->Node_GetSinceVersion(node, &version)) ? version : 0;
}

const struct node_op *problem_op_of(const OrtNode *node) {
    static const struct {
        const char *domain;
        const struct node_op *op;
    } known[] = {{"", &tensor_scatter_op},
                 {"", &attention_op},
                 {"com.microsoft", &group_query_op},
                 {"", &gather_op},
                 {"", &gather_nd_op},
                 {"", &scatter_elements_op},
                 {"kvmill", &cache_step_op},
                 {"kvmill", &cache_group_query_op}};
    const char *domain = problem_node_domain(node), *name = problem_node_op(node);
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].domain, domain) == 0 && strcmp(known[i].op->name, name) == 0)
            return known[i].op;
    size_t inputs = 0;
    return runtime_succeeded(ort->Node_GetNumInputs(node, &inputs))
               ? pmx_op_of_node(domain, name, inputs)
               : NULL;
}

/* Sets the values that have a name.  Returns false if one is beyond the list. */
static bool set_side(struct problem *problem, struct values values,
                     const struct tensor_list *list) {
    bool fits = true;
    for (int i = 0; i < (int)values.count; i++) {
        bool named = *problem_value_name(values.items[i]) != '\0';
        if (named && i < list->count)
            problem->value[list->tensor[i]] = values.items[i];
        fits = fits && (!named || i < list->count);
    }
    free(values.items);
    return fits;
}

static bool set_values(struct problem *problem, const OrtNode *node) {
    bool inputs = set_side(problem, problem_inputs_of(node), &problem->op->inputs);
    return set_side(problem, problem_outputs_of(node), &problem->op->outputs) && inputs;
}

static bool is_constant(const OrtValueInfo *value) {
    bool constant = false;
    return runtime_succeeded(ort->ValueInfo_IsConstantInitializer(value, &constant)) && constant;
}

static bool is_made(const OrtValueInfo *value) {
    const OrtNode *maker = NULL;
    size_t index = 0;
    return runtime_succeeded(ort->ValueInfo_GetValueProducer(value, &maker, &index)) &&
           maker != NULL;
}

static bool check_input(const struct problem *problem, int i, struct reason *reason) {
    int tensor = problem->op->inputs.tensor[i];
    const OrtValueInfo *value = problem->value[tensor];
    if (problem->op->required >> tensor & 1 && value == NULL)
        return problem_decline(reason, "input %d is not there; accepted: one", i);
    if (problem->op->updated >> tensor & 1 && value != NULL && is_constant(value))
        return problem_decline(reason, "input %d is a constant; accepted: what a run may write to",
                               i);
    kvmill_error error;
    if (!(problem->op->copied >> tensor & 1) || !is_made(value))
        return true;
    kvmill_windows_refuse_made(i, &error);
    return problem_decline(reason, "%s", error.message);
}

/* Checks what the runtime checks for its own ops. */
static bool check_values(const struct problem *problem, struct reason *reason) {
    const struct node_op *op = problem->op;
    bool right = true;
    for (int i = 0; right && i < op->inputs.count; i++)
        right = check_input(problem, i, reason);
    for (int i = 0; right && i < (op->only_here ? op->outputs.count : 1); i++)
        if (problem->value[op->outputs.tensor[i]] == NULL)
            right = problem_decline(reason, "its output %d has no name", i);
    return right;
}

bool problem_of_node(const OrtNode *node, struct problem *problem, struct reason *reason) {
    const struct attribute_source source = attributes_of_node(node);
    *problem = (struct problem){.op = problem_op_of(node), .parts = {node}, .part_count = 1};
    unsigned pmx = pmx_bit(problem->op);
    OrtStatus *status = attributes_check(node, pmx);
    if (status == NULL)
        status = attributes_read(&problem->attributes, &source, version_of(node), pmx);
    if (status != NULL)
        return decline_for(reason, status);
    if (!set_values(problem, node))
        return problem_decline(reason, "it has inputs or outputs that kvmill does not know");
    return check_values(problem, reason);
}

/* ---- Three nodes ---- */

static const OrtNode *maker_of(const OrtValueInfo *value, const OrtNode *const *nodes,
                               size_t count) {
    const OrtNode *maker = NULL;
    for (size_t i = 0; maker == NULL && i < count; i++) {
        if (problem_op_of(nodes[i]) != &tensor_scatter_op)
            continue;
        struct values outputs = problem_outputs_of(nodes[i]);
        if (outputs.count == 1 && is_same(outputs.items[0], value))
            maker = nodes[i];
        free(outputs.items);
    }
    return maker;
}

/* Whether the axis is the last but one, which is also the default. */
static bool has_cache_axis(const struct problem *scatter) {
    struct known_tensor known;
    return scatter->attributes.axis == -2 ||
           (problem_known(scatter->value[0], &known) && scatter->attributes.axis == known.rank - 2);
}

/* Whether a value is an output of the graph that only one node reads. */
static bool is_cache(const OrtValueInfo *value) {
    size_t readers = 0;
    bool given = false;
    return runtime_succeeded(ort->ValueInfo_GetValueNumConsumers(value, &readers)) &&
           runtime_succeeded(ort->ValueInfo_IsGraphOutput(value, &given)) && given && readers == 1;
}

/* Makes the TensorScatter of one side part of the step. */
static bool add_scatter(struct problem *step, int side, const OrtNode *node) {
    struct problem scatter;
    struct reason reason;
    const OrtValueInfo **value = step->value;
    if (node == NULL || !problem_of_node(node, &scatter, &reason) ||
        scatter.attributes.is_circular || !has_cache_axis(&scatter))
        return false;
    const OrtValueInfo *starts = scatter.value[KVMILL_TENSOR_SCATTER_WRITE_INDICES];
    const OrtValueInfo **shared = &value[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES];
    if (side == 1 && starts != *shared && !is_same(starts, *shared))
        return false;
    *shared = starts;
    value[KVMILL_ATTENTION_PRESENT_KEY + side] = value[KVMILL_ATTENTION_K + side];
    value[KVMILL_ATTENTION_K + side] = scatter.value[KVMILL_TENSOR_SCATTER_UPDATE];
    value[KVMILL_ATTENTION_PAST_KEY + side] = scatter.value[KVMILL_TENSOR_SCATTER_PAST_CACHE];
    step->parts[step->part_count++] = node;
    return true;
}

bool problem_of_step(const OrtNode *attention, const OrtNode *const *nodes, size_t count,
                     struct problem *problem) {
    struct reason reason;
    if (!problem_of_node(attention, problem, &reason))
        return false;
    const OrtValueInfo **value = problem->value;
    const OrtNode *makers[] = {maker_of(value[KVMILL_ATTENTION_K], nodes, count),
                               maker_of(value[KVMILL_ATTENTION_V], nodes, count)};
    bool alone = value[KVMILL_ATTENTION_PAST_KEY] == NULL &&
                 value[KVMILL_ATTENTION_NONPAD_KV_SEQLEN] != NULL;
    for (int i = KVMILL_ATTENTION_PRESENT_KEY; i <= KVMILL_ATTENTION_QK_MATMUL_OUTPUT; i++)
        alone = alone && value[i] == NULL;
    problem->op = &step_op;
    return alone && makers[0] != makers[1] && add_scatter(problem, 0, makers[0]) &&
           add_scatter(problem, 1, makers[1]) && is_cache(value[KVMILL_ATTENTION_PRESENT_KEY]) &&
           is_cache(value[KVMILL_ATTENTION_PRESENT_VALUE]);
}

/* ---- Plans ---- */

/* open: the rank may be unknown before a run. */
static bool read_known(const OrtValueInfo *value, bool open, struct known_tensor *known,
                       struct reason *reason) {
    if (!problem_known(value, known))
        return problem_decline(reason, "\"%.80s\" is not a tensor", problem_value_name(value));
    if (open && known->rank < 0)
        known->rank = 0;
    return (known->type.bits != 0 && known->rank >= 0) ||
           problem_decline(reason,
                           "\"%.80s\" has no known type and rank; accepted: types that kvmill has, "
                           "ranks up to %d",
                           problem_value_name(value), MOST_RANK);
}

/* Returns the place of a value in a list, or -1.  Without a list: 0 if there is a value. */
static int place_of(const OrtValueInfo *value, const struct values *values) {
    for (size_t i = 0; value != NULL && values != NULL && i < values->count; i++)
        if (is_same(value, values->items[i]))
            return (int)i;
    return value != NULL && values == NULL ? 0 : -1;
}

static const char no_kernels[] =
    "no pack has fast kernels of its shape: kvmill generate makes them";

/* reason: set if there is no plan, or to a remark on the plan. */
static bool has_plan(const struct problem *problem, struct node *node, struct reason *reason) {
    struct known_tensor known[MOST_TENSORS];
    kvmill_error error;
    for (int i = 0; i < MOST_TENSORS; i++) {
        known[i] = (struct known_tensor){.rank = -1};
        if (problem->value[i] != NULL && !node_op_has_output(problem->op, i) &&
            !read_known(problem->value[i], problem->op->only_here, &known[i], reason))
            return false;
    }
    const struct node_op *op = problem->op;
    bool fast = op->needs_kernels || op->only_here;
    kvmill_status status = node_try(node, known, false, &error);
    if (status != KVMILL_OK)
        return problem_decline(reason, "%s", error.message);
    reason->slow = fast && node_try(node, known, true, &error) == KVMILL_E_KERNEL;
    if (reason->slow && op->only_here)
        problem_decline(reason, ", in portable code: %s", no_kernels);
    return !reason->slow || op->only_here || node->settings.portable ||
           problem_decline(reason, "%s", no_kernels);
}

struct node *problem_open(const struct problem *problem, const struct settings *settings,
                          const struct values *inputs, const struct values *outputs,
                          struct reason *reason) {
    struct node *node = node_open(problem->op, &problem->attributes, settings);
    *reason = (struct reason){.slow = false};
    if (node == NULL) {
        problem_decline(reason, "out of memory for a node");
        return NULL;
    }
    for (int i = 0; i < MOST_TENSORS; i++)
        node->place[i] =
            place_of(problem->value[i], node_op_has_output(problem->op, i) ? outputs : inputs);
    if (has_plan(problem, node, reason))
        return node;
    node_close(node);
    return NULL;
}
