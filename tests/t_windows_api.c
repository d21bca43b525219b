/* Refusals by plans of gather and scatter, with their status and words; nothing may be written
   then.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/op_tables.h"
#include "common.h"

static const int64_t axis_0[] = {0}, size_1[] = {1};
static int64_t three[] = {3}, two_one[] = {2, 1}, two[] = {2};
static const kvmill_dims axes = {axis_0, 1}, sizes = {size_1, 1};

/* ---- Valid calls: two elements of three; additions to two inputs; a region ---- */

static float operand_data[3] = {1, 2, 3}, result_data[2] = {8, 9};
static int32_t index_data[2] = {2, 0};
static float input_data[2][3], output_data[2][3], update_data[2][2] = {{10, 20}, {30, 40}};

enum {
    OPERAND,
    START,
    RESULT,
    INPUTS,
    INDICES = INPUTS + 2,
    UPDATES,
    RESULTS = UPDATES + 2,
    TENSORS = RESULTS + 2
};
static const char *const names[TENSORS] = {
    "operand",         "start_indices", "result",     "inputs[0]",  "inputs[1]",
    "scatter_indices", "updates[0]",    "updates[1]", "results[0]", "results[1]"};
static struct bent bent[TENSORS];
static const DLTensor *tensors[TENSORS];
static kvmill_gather gather;
static kvmill_plan *plan;
static kvmill_error error;
static kvmill_scatter scatter;

static void give(int tensor, DLDataType type, int rank, int64_t *shape, void *data) {
    const DLTensor dense = dense_tensor(type, rank, shape, data);
    bent_from(&bent[tensor], &dense);
    tensors[tensor] = &bent[tensor].dl;
}

static void make_good(void) {
    give(OPERAND, f32, 1, three, operand_data);
    give(START, i32, 2, two_one, index_data);
    give(RESULT, f32, 1, two, result_data);
    give(INDICES, i32, 2, two_one, index_data);
    for (int i = 0; i < 2; i++) {
        give(INPUTS + i, f32, 1, three, input_data[i]);
        give(UPDATES + i, f32, 1, two, update_data[i]);
        give(RESULTS + i, f32, 1, three, output_data[i]);
    }
    gather = (kvmill_gather){
        .struct_size = sizeof gather,
        .collapsed_slice_dims = axes,
        .start_index_map = axes,
        .slice_sizes = sizes,
        .index_vector_dim = 1,
        .operand = tensors[OPERAND],
        .start_indices = tensors[START],
        .result = tensors[RESULT],
    };
    scatter = (kvmill_scatter){
        .struct_size = sizeof scatter,
        .inserted_window_dims = axes,
        .scatter_dims_to_operand_dims = axes,
        .index_vector_dim = 1,
        .update_computation = "add",
        .count = 2,
        .inputs = tensors + INPUTS,
        .updates = tensors + UPDATES,
        .scatter_indices = tensors[INDICES],
    };
}

/* ---- Changes in words ---- */

/* Codes have 8 bits, the tensors 32. */
static const kvmill_element_type codes[2] = {
    {{kDLInt, 8, 1}, {kDLFloat, 32, 1}, 0.5, 0, -128, 127},
    {{kDLInt, 8, 1}, {kDLFloat, 32, 1}, 0.5, 0, -128, 127},
};

/* Sets members that settings do not know: the only integer of a list, a size, a pointer to codes or
   to a word. */
static void set_member(const struct op_member *member, void *op, const char *value) {
    static int64_t item;
    static char word[32];
    const void *pointer = word;
    snprintf(word, sizeof word, "%.31s", value);
    if (strcmp(value, "null") == 0)
        pointer = NULL;
    else if (strcmp(value, "codes") == 0)
        pointer = codes;
    else if (member->kind == OP_SIZE)
        pointer = (const void *)(uintptr_t)setting_integer(value);
    else if (member->kind == OP_DIMS) {
        item = setting_integer(value);
        pointer = &item;
    }
    memcpy(kvmill_member_at(member, op), &pointer, sizeof pointer);
}

static void change_tensor(const char *name, const char *what, const char *value) {
    int tensor = place_of(name, names, TENSORS);
    if (strcmp(what, "null") == 0)
        tensors[tensor] = NULL;
    else if (strcmp(what, "at") == 0)
        bent[tensor].dl.data = tensors[place_of(value, names, TENSORS)]->data;
    else
        must(bent_by(&bent[tensor], what, value), what);
}

static void change(const struct op *op, void *base, const char *words) {
    for (struct setting setting; setting_next(&words, &setting);) {
        char *colon = strchr(setting.name, ':');
        if (colon != NULL) {
            *colon = '\0';
            change_tensor(setting.name, colon + 1, setting.value);
        } else if (!setting_apply(&setting, op->parts[0], base)) {
            const struct op_member *member = kvmill_op_member(op->parts[0], setting.name);
            must(member != NULL, setting.name);
            set_member(member, base, setting.value);
        }
    }
}

/* ---- Refusals ---- */

static void expect(kvmill_status status, char *const *wanted) {
    ok_status(status, status_named(wanted[0]), &error, wanted[1], "%s: %s", wanted[0], wanted[1]);
}

/* CHANGES STATUS WORDS, here and below. */
ROWS(gather, 3) {
    make_good();
    change(&kvmill_gather_op, &gather, cells[0]);
    expect(kvmill_plan_gather(&gather, NULL, &plan, &error), cells + 1);
    kvmill_plan_destroy(plan);
}

ROWS(run, 3) {
    make_good();
    must(kvmill_plan_gather(&gather, NULL, &plan, &error) == KVMILL_OK, error.message);
    change(&kvmill_gather_op, &gather, cells[0]);
    expect(kvmill_run(plan, tensors, KVMILL_GATHER_TENSORS, NULL, &error), cells + 1);
    ok(result_data[0] == 8 && result_data[1] == 9, "  nothing is written");
    kvmill_plan_destroy(plan);
}

static void refuse_scatter(char *const *wanted) {
    expect(kvmill_plan_scatter(&scatter, NULL, &plan, &error), wanted);
    kvmill_plan_destroy(plan);
}

ROWS(scatter, 3) {
    make_good();
    change(&kvmill_scatter_op, &scatter, cells[0]);
    refuse_scatter(cells + 1);
}

ROWS(run_scatter, 3) {
    static const float zeros[2][3];
    make_good();
    must(kvmill_plan_scatter(&scatter, NULL, &plan, &error) == KVMILL_OK, error.message);
    change(&kvmill_scatter_op, &scatter, cells[0]);
    expect(kvmill_run(plan, tensors + INPUTS, TENSORS - INPUTS, NULL, &error), cells + 1);
    ok(memcmp(input_data, zeros, sizeof zeros) == 0 &&
           memcmp(output_data, zeros, sizeof zeros) == 0,
       "  nothing is written");
    kvmill_plan_destroy(plan);
}

/* OP TYPE OPERANDS DIRECTION OPS STATUS WORDS: a region of float32 with this op, which returns
   value 2; a capture's operand is its number.  Without a name or operands these are NULL, name or
   ops. */
ROWS(region, 7) {
    static const kvmill_element_type arguments[] = {{.dtype = {kDLFloat, 32, 1}},
                                                    {.dtype = {kDLFloat, 32, 1}}};
    static const int32_t last[] = {2};
    int64_t operands[2] = {0};
    if (*cells[2])
        setting_integers(cells[2], operands, 2);
    const kvmill_region_op step = {.name = *cells[0] ? cells[0] : NULL,
                                   .element = {.dtype = setting_type(cells[1])},
                                   .operands = {(int32_t)operands[0], (int32_t)operands[1]},
                                   .value = {(uint64_t)operands[0]},
                                   .comparison_direction = *cells[3] ? cells[3] : NULL};
    const kvmill_region region = {.arguments = arguments,
                                  .ops = *cells[2] ? &step : NULL,
                                  .op_count = (size_t)atoi(cells[4]),
                                  .results = last};
    make_good();
    scatter.count = 1;
    scatter.update_computation = NULL;
    scatter.region = &region;
    refuse_scatter(cells + 5);
}

TABLE(windows_refusals);

/* ---- Runs ---- */

TEST(run_gather) {
    int64_t nowhere[] = {1, INT64_MAX};
    make_good();
    ok(kvmill_plan_gather(&gather, NULL, &plan, &error) == KVMILL_OK, "a plan");
    bent[START].dl.strides = nowhere;
    ok(kvmill_run(plan, tensors, KVMILL_GATHER_TENSORS, NULL, &error) == KVMILL_OK &&
           result_data[0] == 3 && result_data[1] == 1,
       "and it runs, with a stride that nobody takes");
    ok(plan_says(plan, "stablehlo.gather, f32, operand [3]") &&
           kvmill_plan_workspace_size(plan) == 0,
       "%s", plan_text(plan));
    kvmill_plan_destroy(plan);
}
