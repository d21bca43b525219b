/* What plans of gather and scatter refuse, with which status and words; and that nothing was
   written then.

   SPDX-License-Identifier: Apache-2.0 */
#include "common.h"
#include "plans.h"

static const int64_t axis_0[] = {0}, size_1[] = {1}, zero[] = {0};
static int64_t three[] = {3}, two_one[] = {2, 1}, two[] = {2}, open_shape[] = {KVMILL_DYNAMIC};

/* What a good call has at a place becomes that value. */
struct refusal {
    void *place;
    size_t size;
    const void *value;
    kvmill_status status;
    const char *words;
};
#define BECOMES(PLACE, ...)                                                                        \
    &PLACE, sizeof(PLACE), &(__typeof__(PLACE)) {                                                  \
        __VA_ARGS__                                                                                \
    }

/* The call is made good before each. */
static void refuse_all(const struct refusal *rows, size_t count, void (*make_good)(void),
                       kvmill_status (*call)(kvmill_error *error)) {
    for (; count > 0; count--, rows++) {
        kvmill_error error;
        make_good();
        memcpy(rows->place, rows->value, rows->size);
        ok_status(call(&error), rows->status, &error, rows->words, "%s: %s",
                  kvmill_status_name(rows->status), rows->words);
    }
}

/* Of 8 bits, where the tensors have 32. */
static const kvmill_element_type codes[2] = {
    {{kDLInt, 8, 1}, {kDLFloat, 32, 1}, 0.5, 0, -128, 127},
    {{kDLInt, 8, 1}, {kDLFloat, 32, 1}, 0.5, 0, -128, 127},
};

/* ---- Gather: two elements of three ---- */

static float operand_data[3] = {1, 2, 3}, result_data[2] = {8, 9};
static int32_t index_data[2] = {2, 0};
static DLTensor operand, start_indices, result;
static const DLTensor nothing = {
    .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}, .ndim = 1, .shape = (int64_t *)zero};
static const DLTensor *gathered[3];
static kvmill_gather gather;

static void make_gather(void) {
    operand = dense_tensor(f32, 1, three, operand_data);
    start_indices = dense_tensor(i32, 2, two_one, index_data);
    result = dense_tensor(f32, 1, two, result_data);
    gathered[0] = &operand, gathered[1] = &start_indices, gathered[2] = &result;
    gather = (kvmill_gather){
        .struct_size = sizeof gather,
        .collapsed_slice_dims = {axis_0, 1},
        .start_index_map = {axis_0, 1},
        .slice_sizes = {size_1, 1},
        .index_vector_dim = 1,
        .operand = &operand,
        .start_indices = &start_indices,
        .result = &result,
    };
}

static kvmill_status plan_gather(kvmill_error *error) {
    kvmill_plan *plan = NULL;
    kvmill_status status = kvmill_plan_gather(&gather, NULL, &plan, error);
    kvmill_plan_destroy(plan);
    return status;
}

static const struct refusal gather_plans[] = {
    {BECOMES(gather.struct_size, 4), KVMILL_E_ATTRIBUTE, "op.struct_size is 4"},
    {BECOMES(gather.operand, NULL), KVMILL_E_NULL, "operand is NULL"},
    {BECOMES(gather.operand_element, codes), KVMILL_E_DTYPE,
     "the element type of operand is !quant.uniform<i8<-128:127>:f32, 0.5:0>; accepted"},
    {BECOMES(gather.result_element, codes), KVMILL_E_DTYPE,
     "the element type of the result is !quant.uniform<i8<-128:127>:f32, 0.5:0>; accepted"},
    {BECOMES(gather.mode, "wrap"), KVMILL_E_ATTRIBUTE,
     "mode is \"wrap\"; accepted: \"clip\", \"fill\""},
    {BECOMES(gather, .struct_size = sizeof gather, .collapsed_slice_dims = {axis_0, 1},
             .start_index_map = {axis_0, 1}, .slice_sizes = {zero, 1}, .index_vector_dim = 1,
             .operand = &nothing, .start_indices = &start_indices),
     KVMILL_E_SHAPE, "axis 0 of operand has extent 0 and the result has elements"},
    {BECOMES(gather.slice_sizes, NULL, 1), KVMILL_E_NULL, "slice_sizes.items is NULL"},
    {BECOMES(gather.index_vector_dim, 3), KVMILL_E_ATTRIBUTE,
     "C2: index_vector_dim is 3; accepted: 0 to the rank"},
    {BECOMES(operand.shape, open_shape), KVMILL_E_SHAPE, "accepted: known extents"},
    {BECOMES(start_indices.dtype, kDLFloat, 32, 1), KVMILL_E_DTYPE,
     "start_indices has element type f32; accepted: integers"},
    {BECOMES(start_indices.dtype, KVMILL_DL_BOOL, 8, 1), KVMILL_E_DTYPE,
     "start_indices has element type i1; accepted: integers"},
    {BECOMES(operand.ndim, 33), KVMILL_E_SHAPE, "operand has rank 33; accepted: 0 to 32"},
    {BECOMES(operand.dtype, kDLOpaqueHandle, 64, 1), KVMILL_E_DTYPE, "operand has type code 3"},
};

static kvmill_plan *plan;

static kvmill_status run_gather(kvmill_error *error) {
    kvmill_status status = kvmill_run(plan, gathered, KVMILL_GATHER_TENSORS, NULL, error);
    ok(result_data[0] == 8 && result_data[1] == 9, "nothing is written");
    return status;
}

static int64_t far[] = {INT64_MAX}, farther[] = {INT64_MIN};

/* The last of them goes back, around the end of all addresses. */
static const struct refusal gather_runs[] = {
    {BECOMES(gathered[2], NULL), KVMILL_E_NULL, "result is NULL"},
    {BECOMES(operand.shape, two), KVMILL_E_SHAPE, "operand has shape [2]; accepted: [3]"},
    {BECOMES(start_indices.dtype, kDLFloat, 32, 1), KVMILL_E_DTYPE,
     "start_indices has type f32; accepted: i32"},
    {BECOMES(result.data, operand_data), KVMILL_E_ALIAS,
     "operand overlaps result; accepted: separate memory"},
    {BECOMES(result.strides, (int64_t *)zero), KVMILL_E_STRIDE,
     "the strides of result let elements overlap"},
    {BECOMES(operand.device, kDLCUDA, 0), KVMILL_E_DEVICE, "operand is on device type 2"},
    {BECOMES(operand.data, NULL), KVMILL_E_NULL, "the data of operand is NULL"},
    {BECOMES(result.strides, far), KVMILL_E_OVERFLOW, "the strides of result reach further"},
    {BECOMES(result.strides, farther), KVMILL_E_OVERFLOW, "the strides of result reach further"},
    {BECOMES(result.byte_offset, 0 - (uint64_t)8), KVMILL_E_OVERFLOW,
     "the byte_offset of result is 18446744073709551608; accepted: 0 to"},
};

TEST(gather) {
    int64_t nowhere[] = {1, INT64_MAX};
    kvmill_error error;
    refuse_all(gather_plans, COUNT(gather_plans), make_gather, plan_gather);
    make_gather();
    ok(kvmill_plan_gather(&gather, NULL, &plan, &error) == KVMILL_OK, "a plan");
    refuse_all(gather_runs, COUNT(gather_runs), make_gather, run_gather);
    make_gather();
    start_indices.strides = nowhere;
    ok(kvmill_run(plan, gathered, KVMILL_GATHER_TENSORS, NULL, &error) == KVMILL_OK &&
           result_data[0] == 3 && result_data[1] == 1,
       "and it runs, with a stride that nobody takes");
    ok(plan_says(plan, "stablehlo.gather, f32, operand [3]") &&
           kvmill_plan_workspace_size(plan) == 0,
       "%s", plan_text(plan));
    kvmill_plan_destroy(plan);
}

/* ---- Scatter: two additions, to two inputs ---- */

static float input_data[2][3] = {{1, 2, 3}, {4, 5, 6}}, update_data[2][2] = {{10, 20}, {30, 40}};
static float output_data[2][3];
static DLTensor inputs[2], updates[2];
static const DLTensor *input_list[] = {&inputs[0], &inputs[1]};
static const DLTensor *update_list[] = {&updates[0], &updates[1]};
static kvmill_scatter scatter;

static void make_scatter(void) {
    start_indices = dense_tensor(i32, 2, two_one, index_data);
    for (int i = 0; i < 2; i++) {
        inputs[i] = dense_tensor(f32, 1, three, input_data[i]);
        updates[i] = dense_tensor(f32, 1, two, update_data[i]);
    }
    scatter = (kvmill_scatter){
        .struct_size = sizeof scatter,
        .inserted_window_dims = {axis_0, 1},
        .scatter_dims_to_operand_dims = {axis_0, 1},
        .index_vector_dim = 1,
        .update_computation = "add",
        .count = 2,
        .inputs = input_list,
        .updates = update_list,
        .scatter_indices = &start_indices,
    };
}

static kvmill_status plan_scatter(kvmill_error *error) {
    kvmill_plan *made = NULL;
    kvmill_status status = kvmill_plan_scatter(&scatter, NULL, &made, error);
    kvmill_plan_destroy(made);
    return status;
}

static const struct refusal scatter_plans[] = {
    {BECOMES(scatter.count, 0), KVMILL_E_ATTRIBUTE, "C5: 0 inputs; accepted: 1 to 16"},
    {BECOMES(scatter.count, 17), KVMILL_E_ATTRIBUTE, "C5: 17 inputs"},
    {BECOMES(scatter.update_computation, "sum"), KVMILL_E_ATTRIBUTE,
     "update_computation is \"sum\"; accepted: replace"},
    {BECOMES(scatter.window_out_of_bounds, "clip"), KVMILL_E_ATTRIBUTE,
     "window_out_of_bounds is \"clip\""},
    {BECOMES(inputs[1].shape, two), KVMILL_E_SHAPE, "C1: inputs[1] has shape [2]; accepted: [3]"},
    {BECOMES(updates[1].shape, three), KVMILL_E_SHAPE,
     "C3: updates[1] has shape [3]; accepted: [2]"},
    {BECOMES(updates[0].dtype, kDLInt, 32, 1), KVMILL_E_DTYPE,
     "C6: the element type of update 0 i32"},
    {BECOMES(scatter.inputs, NULL), KVMILL_E_NULL, "inputs[0] is NULL"},
    {BECOMES(scatter.elements, codes), KVMILL_E_DTYPE,
     "the element type of inputs[0] is !quant.uniform<i8<-128:127>:f32, 0.5:0>; accepted: one that "
     "is stored "
     "as the tensor's elements are, as f32"},
    {BECOMES(scatter.update_elements, codes), KVMILL_E_DTYPE,
     "the element type of updates[0] is !quant.uniform<i8<-128:127>:f32, 0.5:0>; accepted"},
};

#define NUMBER .element = {.dtype = {kDLFloat, 32, 1}}
static const kvmill_element_type arguments[] = {{.dtype = {kDLFloat, 32, 1}},
                                                {.dtype = {kDLFloat, 32, 1}}};
static const int32_t last[] = {2};
static kvmill_region_op step;
static kvmill_region region;

static void make_region(void) {
    make_scatter();
    step = (kvmill_region_op){.name = "add", NUMBER, .operands = {0, 1}};
    region = (kvmill_region){.arguments = arguments, .ops = &step, .op_count = 1, .results = last};
    scatter.count = 1;
    scatter.update_computation = NULL;
    scatter.region = &region;
}

static const struct refusal regions[] = {
    {BECOMES(scatter.region, NULL), KVMILL_E_NULL, "the region is not there"},
    {BECOMES(step.operands[1], 2), KVMILL_E_ATTRIBUTE,
     "region: add takes value 2; accepted: 0 to 1"},
    {BECOMES(step.name, "sort"), KVMILL_E_ATTRIBUTE, "region: \"sort\" is not an op for scalars"},
    {BECOMES(step.name, "and"), KVMILL_E_DTYPE, "region: and of f32 gives f32"},
    {BECOMES(step, .name = "compare", .element = {.dtype = {KVMILL_DL_BOOL, 8, 1}},
             .operands = {0, 1}),
     KVMILL_E_ATTRIBUTE, "region: comparison_direction is \"\""},
    {BECOMES(step, .name = "compare", .element = {.dtype = {KVMILL_DL_BOOL, 8, 1}},
             .operands = {0, 1}, .comparison_direction = "LT"),
     KVMILL_E_DTYPE, "C23: the region's argument 0 f32"},
    {BECOMES(step, .name = "capture", NUMBER, .value = {1}), KVMILL_E_ATTRIBUTE,
     "region: capture 1; accepted: less than capture_count, 0"},
    {BECOMES(region.op_count, 65), KVMILL_E_ATTRIBUTE, "65 ops"},
};

TEST(scatter_and_regions) {
    refuse_all(scatter_plans, COUNT(scatter_plans), make_scatter, plan_scatter);
    refuse_all(regions, COUNT(regions), make_region, plan_scatter);
}

TEST(run_scatter) {
    kvmill_error error;
    make_scatter();
    ok(kvmill_plan_scatter(&scatter, NULL, &plan, &error) == KVMILL_OK, "a plan");
    DLTensor outputs[] = {dense_tensor(f32, 1, three, output_data[0]),
                          dense_tensor(f32, 1, three, output_data[1])};
    const DLTensor *tensors[] = {&inputs[0],  &inputs[1],  &start_indices, &updates[0],
                                 &updates[1], &outputs[0], &outputs[1]};
    tensors[5] = &inputs[0];
    kvmill_status status = kvmill_run(plan, tensors, COUNT(tensors), NULL, &error);
    ok_status(status, KVMILL_E_ALIAS, &error, "accepted: all in place, or none",
              "one input in place");
    tensors[5] = &inputs[1];
    tensors[6] = &inputs[0];
    status = kvmill_run(plan, tensors, COUNT(tensors), NULL, &error);
    ok_status(status, KVMILL_E_ALIAS, &error, "overlaps results[0]; accepted: separate memory",
              "each in the other's place");
    ok(input_data[0][0] == 1 && input_data[1][2] == 6, "  and nothing was written");
    tensors[5] = &outputs[0];
    tensors[6] = &outputs[1];
    status = kvmill_run(plan, tensors, COUNT(tensors), NULL, &error);
    ok(status == KVMILL_OK && output_data[0][0] == 21 && output_data[0][2] == 13 &&
           output_data[1][0] == 44 && output_data[1][1] == 5,
       "apart: results are new");
    ok(input_data[0][0] == 1 && input_data[1][2] == 6, "  and inputs are as they were");
    tensors[5] = &inputs[0];
    tensors[6] = &inputs[1];
    status = kvmill_run(plan, tensors, COUNT(tensors), NULL, &error);
    ok(status == KVMILL_OK && memcmp(input_data, output_data, sizeof input_data) == 0,
       "in place: the same numbers");
    kvmill_plan_destroy(plan);
}
