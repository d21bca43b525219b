/* SPDX-License-Identifier: Apache-2.0 */
#include "run_onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "named_files.h"
#include "onnx_arrays.h"
#include "run_spec.h"

/* The state of a running model.  Values keep their arrays until the end. */
struct execution {
    struct onnx_model model;
    const struct options *given;
    struct npy *values; /* by number */
    int *results;       /* values that --out can name: outputs, and inputs that nodes update */
    int result_count;
    bool *is_result;      /* by number */
    const char **outputs; /* by result: the file of --out, or NULL */
    struct spec_list list;
    struct onnx_specs specs; /* part of `list` */
    int *spec_of;            /* by node: the index of its spec; -1: a constant */
    struct spec_runner runner;
};

static struct onnx_call call_of(struct execution *run, int node) {
    const struct onnx_node *the = &run->model.nodes[node];
    return (struct onnx_call){&run->model, the, onnx_op_of(the)};
}

/* ---- Options ---- */

static void add_result(struct execution *run, int number) {
    if (!run->is_result[number])
        run->results[run->result_count++] = number;
    run->is_result[number] = true;
}

static void list_results(struct execution *run) {
    for (int i = 0; i < run->model.output_count; i++)
        add_result(run, run->model.outputs[i]);
    for (int n = 0; n < run->model.node_count; n++) {
        const struct onnx_call call = call_of(run, n);
        for (int i = 0; call.op != NULL && i < call.node->input_count; i++)
            if (call.node->inputs[i] != ONNX_ABSENT && onnx_is_updated(&call, i))
                add_result(run, call.node->inputs[i]);
    }
}

static const char *input_at(const void *run, int i) {
    const struct onnx_model *model = &((const struct execution *)run)->model;
    return model->values[model->inputs[i]].name;
}

static const char *result_at(const void *holder, int i) {
    const struct execution *run = holder;
    return run->model.values[run->results[i]].name;
}

static bool read_input(struct execution *run, const char *value, struct error *error) {
    struct npy npy;
    const struct file_names names = {input_at, run, run->model.input_count};
    int place = named_file_place(&names, "in", value, error);
    if (place < 0 || !npy_read(named_file_of(&names, place, value), &npy, error))
        return false;
    int number = run->model.inputs[place];
    npy_free(&run->values[number]);
    bool done = array_copy(&npy, &run->values[number], error);
    npy_free(&npy);
    return done;
}

static bool note_output(struct execution *run, const char *value, struct error *error) {
    const struct file_names names = {result_at, run, run->result_count};
    int place = named_file_place(&names, "out", value, error);
    if (place >= 0)
        run->outputs[place] = named_file_of(&names, place, value);
    return place >= 0;
}

static bool check_outputs(const struct execution *run, struct error *error) {
    const struct file_names names = {result_at, run, run->result_count};
    return named_files_check(&names, run->outputs, error);
}

static bool read_options(struct execution *run, struct error *error) {
    list_results(run);
    for (int i = 0; i < run->given->count; i++) {
        const char *name = run->given->given[i].name, *value = run->given->given[i].value;
        if (strcmp(name, "in") == 0 && !read_input(run, value, error))
            return false;
        if (strcmp(name, "out") == 0 && !note_output(run, value, error))
            return false;
    }
    return check_outputs(run, error);
}

static bool learn_inputs(struct execution *run, struct error *error) {
    for (int i = 0; i < run->model.input_count; i++) {
        struct onnx_value *value = &run->model.values[run->model.inputs[i]];
        const struct npy *npy = &run->values[run->model.inputs[i]];
        if (!is_given(npy) && value->constant.place != ONNX_NOWHERE)
            continue;
        if (!array_require(value->name, npy, error) ||
            !onnx_array_learn(&run->model, value, npy, error))
            return false;
    }
    return true;
}

/* ---- Specs of all nodes ---- */

static bool refuse_node(const struct onnx_call *call, struct error *error) {
    char names[ONNX_NAMES_SIZE];
    return onnx_fail(error, call->model, call->node,
                     "is not an op that kvmill runs; accepted: %s, Constant", onnx_op_names(names));
}

/* Checks all ops, before any option of the user is checked. */
static bool check_ops(struct execution *run, struct error *error) {
    for (int i = 0; i < run->model.node_count; i++) {
        const struct onnx_call call = call_of(run, i);
        if (call.op == NULL && !onnx_is_constant(call.node))
            return refuse_node(&call, error);
    }
    return true;
}

static int find_tensor(const struct spec *spec, const char *name, bool is_output) {
    for (int i = 0; i < run_op_of(spec)->tensors; i++) {
        const char *own = is_output ? run_output(spec, i) : run_input(spec, i);
        if (own != NULL && strcmp(own, name) == 0)
            return i;
    }
    return -1;
}

/* Checks that the spec's run has tensors with the names of the node's. */
static bool check_names(const struct onnx_call *call, const struct spec *spec,
                        struct error *error) {
    const char *name;
    bool known = true;
    for (int i = 0; (name = onnx_input_name(call, i)) != NULL; i++)
        known = known && (onnx_input(call, i) == NULL || find_tensor(spec, name, false) >= 0);
    for (int i = 0; (name = onnx_output_name(call, i)) != NULL; i++)
        known = known && (onnx_output(call, i) == NULL || find_tensor(spec, name, true) >= 0);
    return known || fail(error, EXIT_BUG, "%s: a tensor has no place in a run", spec->where);
}

static bool add_spec(struct execution *run, int node, struct error *error) {
    const struct onnx_call call = call_of(run, node);
    char words[320];
    run->spec_of[node] = -1;
    if (onnx_is_constant(call.node))
        return true;
    if (!onnx_check_call(&call, error))
        return false;
    if (!onnx_is_complete(&call, words, sizeof words))
        return onnx_fail(error, call.model, call.node, "%s", words);
    return onnx_specs_add(&run->specs, &call, &run->spec_of[node], error) &&
           check_names(&call, &run->list.items[run->spec_of[node]], error);
}

static bool add_specs(struct execution *run, struct error *error) {
    for (int i = 0; i < run->model.node_count; i++)
        if (!add_spec(run, i, error))
            return false;
    return true;
}

/* ---- Arrays ---- */

/* Returns a value's array, or NULL after an error.  Makes a constant's array at its first use. */
static struct npy *array_of(struct execution *run, const struct onnx_value *value,
                            struct error *error) {
    struct npy *npy = &run->values[value - run->model.values];
    if (is_given(npy) || onnx_array_of_constant(&run->model, value, npy, error))
        return npy;
    return NULL;
}

/* The state of a running node: the tensors of its op.  Inputs are views of values. */
struct step {
    struct onnx_call call;
    struct spec *spec;
    struct arrays arrays;
    struct npy indices; /* a copy without negative indices */
    struct npy whole;   /* a scatter on the leading part of its data: a copy, updated in place */
};

static bool set_inputs(struct execution *run, struct step *step, struct error *error) {
    const char *name;
    for (int i = 0; (name = onnx_input_name(&step->call, i)) != NULL; i++) {
        const struct onnx_value *value = onnx_input(&step->call, i);
        if (value == NULL)
            continue;
        const struct npy *npy = array_of(run, value, error);
        int tensor = find_tensor(step->spec, name, false);
        if (npy == NULL || !array_borrow(npy, &step->arrays.tensor[tensor], error))
            return false;
    }
    return true;
}

/* Marks the outputs that the node names as wanted. */
static void name_outputs(struct step *step) {
    const char *name;
    for (int i = 0; (name = onnx_output_name(&step->call, i)) != NULL; i++)
        if (onnx_output(&step->call, i) != NULL)
            step->arrays.output[find_tensor(step->spec, name, true)] = name;
}

static bool replace(struct npy *view, const struct npy *with, struct error *error) {
    array_release_view(view);
    return array_borrow(with, view, error);
}

static bool set_data(struct step *step, struct error *error) {
    const struct tensor_shape *shape = window_data(step->spec);
    struct npy *data =
        &step->arrays.tensor[find_tensor(step->spec, onnx_input_name(&step->call, 0), false)];
    if (!array_leads(shape, data))
        return true;
    if (!spec_is(step->spec, OP_GATHER) &&
        (!array_copy(data, &step->whole, error) || !replace(data, &step->whole, error)))
        return false;
    return array_lead(shape, data, error);
}

static bool set_indices(struct step *step, struct error *error) {
    int tensor = find_tensor(step->spec, onnx_input_name(&step->call, 1), false);
    struct npy *indices = &step->arrays.tensor[tensor];
    return array_copy(indices, &step->indices, error) &&
           onnx_wrap_indices(&step->call, step->spec, &step->indices.tensor, error) &&
           replace(indices, &step->indices, error);
}

/* If the scatter works in place, replaces the result that prepare has made with a view of
   `whole`. */
static bool set_result(struct step *step, struct error *error) {
    int tensor = find_tensor(step->spec, onnx_output_name(&step->call, 0), true);
    struct npy *result = &step->arrays.tensor[tensor];
    DLDataType dtype = result->tensor.dtype;
    if (!is_given(&step->whole))
        return true;
    npy_free(result);
    if (!array_borrow(&step->whole, result, error))
        return false;
    result->tensor.dtype = dtype;
    return array_lead(window_data(step->spec), result, error);
}

static bool prepare(struct execution *run, struct step *step, struct error *error) {
    bool windows = step->call.op->from_index;
    name_outputs(step);
    return set_inputs(run, step, error) &&
           (!windows || (set_data(step, error) && set_indices(step, error))) &&
           run_op_of(step->spec)->prepare(step->spec, &step->arrays, error) &&
           set_result(step, error);
}

/* Moves a result to its value, in the form of a file. */
static void take_result(struct step *step, int tensor, struct npy *value) {
    struct npy *result = &step->arrays.tensor[tensor], *file = &step->arrays.file[tensor];
    struct npy *taken = is_given(&step->whole) ? &step->whole : is_given(file) ? file : result;
    if (taken == &step->whole)
        array_release_view(result);
    if (taken == file)
        memcpy(file->tensor.data, result->tensor.data, npy_bytes(file));
    *value = *taken;
    *taken = (struct npy){0};
}

static void take_results(struct execution *run, struct step *step) {
    const char *name;
    for (int i = 0; (name = onnx_output_name(&step->call, i)) != NULL; i++) {
        const struct onnx_value *value = onnx_output(&step->call, i);
        if (value != NULL)
            take_result(step, find_tensor(step->spec, name, true),
                        &run->values[value - run->model.values]);
    }
}

static void end_step(struct step *step) {
    for (int i = 0; i < run_op_of(step->spec)->tensors; i++) {
        if (run_input(step->spec, i) != NULL || is_given(&step->whole))
            array_release_view(&step->arrays.tensor[i]);
        npy_free(&step->arrays.tensor[i]);
        npy_free(&step->arrays.file[i]);
    }
    npy_free(&step->indices);
    npy_free(&step->whole);
}

/* Adds the node's place to an error of the library. */
static bool name_place(const struct step *step, struct error *error) {
    const struct error reason = *error;
    onnx_fail(error, step->call.model, step->call.node, "%.480s", reason.text);
    error->exit_code = reason.exit_code;
    return false;
}

static bool run_node(struct execution *run, int node, struct error *error) {
    struct step *step = calloc(1, sizeof *step);
    if (step == NULL)
        return out_of_memory(error);
    step->call = call_of(run, node);
    step->spec = &run->list.items[run->spec_of[node]];
    bool done = prepare(run, step, error) &&
                (spec_runner_run(&run->runner, step->spec, &step->arrays, error) ||
                 name_place(step, error));
    if (done)
        take_results(run, step);
    end_step(step);
    free(step);
    return done;
}

/* ---- The run ---- */

static bool allocate(struct execution *run, struct error *error) {
    size_t values = (size_t)run->model.value_count + 1, nodes = (size_t)run->model.node_count + 1;
    run->values = calloc(values, sizeof *run->values);
    run->outputs = calloc(values, sizeof *run->outputs);
    run->results = calloc(values, sizeof *run->results);
    run->is_result = calloc(values, sizeof *run->is_result);
    run->spec_of = calloc(nodes, sizeof *run->spec_of);
    return (run->values && run->outputs && run->results && run->is_result && run->spec_of) ||
           out_of_memory(error);
}

static bool run_nodes(struct execution *run, struct error *error) {
    for (int i = 0; i < run->model.node_count; i++)
        if (run->spec_of[i] >= 0 && !run_node(run, i, error))
            return false;
    return true;
}

static bool write_outputs(struct execution *run, struct error *error) {
    for (int i = 0; i < run->result_count; i++) {
        if (run->outputs[i] == NULL)
            continue;
        const struct npy *npy = array_of(run, &run->model.values[run->results[i]], error);
        if (npy == NULL || !npy_write(run->outputs[i], npy, error))
            return false;
    }
    return true;
}

static void end(struct execution *run) {
    for (int i = 0; run->values != NULL && i < run->model.value_count; i++)
        npy_free(&run->values[i]);
    free(run->values);
    free(run->outputs);
    free(run->results);
    free(run->is_result);
    free(run->spec_of);
    onnx_specs_end(&run->specs);
    spec_list_free(&run->list);
    spec_runner_end(&run->runner);
    onnx_free(&run->model);
}

static bool check_options(const struct options *given, struct error *error) {
    static const char *const for_programs[] = {"pack", "window-out-of-bounds", NULL};
    for (int i = 0; for_programs[i] != NULL; i++)
        if (option_value(given, for_programs[i]))
            return fail(error, EXIT_USER, "--%s is for .mlir files", for_programs[i]);
    return true;
}

bool run_onnx(const struct options *given, const char *name, struct error *error) {
    struct execution run = {.given = given};
    bool done = check_options(given, error) && spec_runner_begin(&run.runner, given, error) &&
                onnx_specs_begin(&run.specs, &run.list, error) &&
                onnx_read(name, &run.model, error) && check_ops(&run, error) &&
                allocate(&run, error) && read_options(&run, error) && learn_inputs(&run, error) &&
                add_specs(&run, error) && spec_runner_build(&run.runner, &run.list, error) &&
                run_nodes(&run, error) && write_outputs(&run, error);
    end(&run);
    return done;
}
