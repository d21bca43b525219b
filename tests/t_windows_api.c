/* What plans of gather and scatter refuse, with which status and words; and that nothing was
   written then.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static DLTensor tensor(DLDataType dtype, int rank, int64_t *shape, void *data) {
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = dtype, .shape = shape};
}

static const int64_t axis_0[] = {0}, size_1[] = {1};

static void expect(kvmill_status status, kvmill_status wanted, const kvmill_error *error,
                   const char *words) {
    ok_status(status, wanted, error, words, "%s: %s", kvmill_status_name(wanted), words);
}

/* ---- Gather: two elements of three ---- */

static int64_t three[] = {3}, two_one[] = {2, 1}, two[] = {2}, open_shape[] = {KVMILL_DYNAMIC};
static float operand_data[3] = {1, 2, 3}, result_data[2] = {8, 9};
static int32_t index_data[2] = {2, 0};
static DLTensor operand, start_indices, result;

static kvmill_gather gather_op;

static kvmill_gather *good_gather(void) {
    operand = tensor(f32, 1, three, operand_data);
    start_indices = tensor(i32, 2, two_one, index_data);
    result = tensor(f32, 1, two, result_data);
    gather_op = (kvmill_gather){
        .struct_size = sizeof(kvmill_gather),
        .collapsed_slice_dims = {axis_0, 1},
        .start_index_map = {axis_0, 1},
        .slice_sizes = {size_1, 1},
        .index_vector_dim = 1,
        .operand = &operand,
        .start_indices = &start_indices,
        .result = &result,
    };
    return &gather_op;
}

static void refuse_gather(kvmill_status wanted, const char *words) {
    kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_status status = kvmill_plan_gather(&gather_op, NULL, &plan, &error);
    expect(status, wanted, &error, words);
    kvmill_plan_destroy(plan);
}

static void refuse_gather_plans(void) {
    static const int64_t zero[] = {0};
    good_gather()->struct_size = 4;
    refuse_gather(KVMILL_E_ATTRIBUTE, "op.struct_size is 4");
    good_gather()->operand = NULL;
    refuse_gather(KVMILL_E_NULL, "operand is NULL");
    good_gather()->mode = "wrap";
    refuse_gather(KVMILL_E_ATTRIBUTE, "mode is \"wrap\"; accepted: \"clip\", \"fill\"");
    good_gather()->slice_sizes = (kvmill_dims){zero, 1};
    refuse_gather(KVMILL_E_ATTRIBUTE, "slice_sizes[0] is 0 and the axis is not in the result");
    good_gather()->slice_sizes = (kvmill_dims){NULL, 1};
    refuse_gather(KVMILL_E_NULL, "slice_sizes.items is NULL");
    good_gather()->index_vector_dim = 3;
    refuse_gather(KVMILL_E_ATTRIBUTE, "C2: index_vector_dim is 3; accepted: 0 to the rank");
    good_gather();
    operand.shape = open_shape;
    refuse_gather(KVMILL_E_SHAPE, "accepted: known extents");
    good_gather();
    start_indices.dtype = f32;
    refuse_gather(KVMILL_E_DTYPE, "start_indices has element type f32; accepted: integers");
    good_gather();
    start_indices.dtype = (DLDataType){KVMILL_DL_BOOL, 8, 1};
    refuse_gather(KVMILL_E_DTYPE, "start_indices has element type i1; accepted: integers");
    good_gather();
    operand.ndim = 33;
    refuse_gather(KVMILL_E_SHAPE, "operand has rank 33; accepted: 0 to 32");
    good_gather();
    operand.dtype = (DLDataType){kDLOpaqueHandle, 64, 1};
    refuse_gather(KVMILL_E_DTYPE, "operand has type code 3");
}

static void refuse_run(const kvmill_plan *plan, const DLTensor *const *tensors,
                       kvmill_status wanted, const char *words) {
    kvmill_error error;
    kvmill_status status = kvmill_run(plan, tensors, NULL, &error);
    expect(status, wanted, &error, words);
    ok(result_data[0] == 8 && result_data[1] == 9, "  and nothing was written");
}

static void refuse_gather_runs(void) {
    good_gather();
    kvmill_plan *plan;
    kvmill_error error;
    int64_t backwards[] = {0}, far[] = {INT64_MAX}, nowhere[] = {1, INT64_MAX};
    ok(kvmill_plan_gather(&gather_op, NULL, &plan, &error) == KVMILL_OK, "a plan");
    DLTensor a = operand, i = start_indices, r = result;
    const DLTensor *tensors[] = {&a, &i, &r};
    tensors[2] = NULL;
    refuse_run(plan, tensors, KVMILL_E_NULL, "result is NULL");
    tensors[2] = &r;
    a.shape = two;
    refuse_run(plan, tensors, KVMILL_E_SHAPE, "operand has shape [2]; accepted: [3]");
    a = operand;
    i.dtype = f32;
    refuse_run(plan, tensors, KVMILL_E_DTYPE, "start_indices has type f32; accepted: i32");
    i = start_indices;
    r.data = operand_data;
    refuse_run(plan, tensors, KVMILL_E_ALIAS,
               "operand overlaps result; accepted: memory of its own");
    r = result;
    r.strides = backwards;
    refuse_run(plan, tensors, KVMILL_E_STRIDE, "the strides of result let elements overlap");
    r = result;
    a.device.device_type = kDLCUDA;
    refuse_run(plan, tensors, KVMILL_E_DEVICE, "operand is on device type 2");
    a = operand;
    a.data = NULL;
    refuse_run(plan, tensors, KVMILL_E_NULL, "the data of operand is NULL");
    a = operand;
    r.strides = far;
    refuse_run(plan, tensors, KVMILL_E_OVERFLOW, "the strides of result reach further");
    far[0] = INT64_MIN;
    refuse_run(plan, tensors, KVMILL_E_OVERFLOW, "the strides of result reach further");
    r = result;
    r.data = result_data + 2; /* and back, around the end of all addresses */
    r.byte_offset = 0 - (uint64_t)sizeof result_data;
    refuse_run(plan, tensors, KVMILL_E_OVERFLOW,
               "the byte_offset of result is 18446744073709551608; accepted: 0 to");
    r = result;
    i.strides = nowhere;
    ok(kvmill_run(plan, tensors, NULL, &error) == KVMILL_OK && result_data[0] == 3 &&
           result_data[1] == 1,
       "and it runs, with a stride that nobody takes");
    char text[512];
    kvmill_plan_describe(plan, text, sizeof text);
    ok(strstr(text, "stablehlo.gather, f32, operand [3]") != NULL &&
           kvmill_plan_workspace_size(plan) == 0,
       "%s", text);
    kvmill_plan_destroy(plan);
}

/* ---- Scatter: two additions, to two inputs ---- */

static float input_data[2][3] = {{1, 2, 3}, {4, 5, 6}}, update_data[2][2] = {{10, 20}, {30, 40}};
static float output_data[2][3];
static DLTensor inputs[2], updates[2];
static const DLTensor *input_list[] = {&inputs[0], &inputs[1]};
static const DLTensor *update_list[] = {&updates[0], &updates[1]};

static kvmill_scatter scatter_op;

static kvmill_scatter *good_scatter(void) {
    start_indices = tensor(i32, 2, two_one, index_data);
    for (int i = 0; i < 2; i++) {
        inputs[i] = tensor(f32, 1, three, input_data[i]);
        updates[i] = tensor(f32, 1, two, update_data[i]);
    }
    scatter_op = (kvmill_scatter){
        .struct_size = sizeof(kvmill_scatter),
        .inserted_window_dims = {axis_0, 1},
        .scatter_dims_to_operand_dims = {axis_0, 1},
        .index_vector_dim = 1,
        .update_computation = "add",
        .count = 2,
        .inputs = input_list,
        .updates = update_list,
        .scatter_indices = &start_indices,
    };
    return &scatter_op;
}

static void refuse_scatter(kvmill_status wanted, const char *words) {
    kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_status status = kvmill_plan_scatter(&scatter_op, NULL, &plan, &error);
    expect(status, wanted, &error, words);
    kvmill_plan_destroy(plan);
}

static void refuse_regions(void) {
    const kvmill_element_type number = {.dtype = f32}, truth = {.dtype = {KVMILL_DL_BOOL, 8, 1}};
    const kvmill_element_type arguments[] = {number, number};
    const int32_t last[] = {2};
    kvmill_region_op add = {.name = "add", .element = number, .operands = {0, 1}};
    kvmill_region region = {.arguments = arguments, .ops = &add, .op_count = 1, .results = last};
    kvmill_scatter *op = good_scatter();
    op->count = 1;
    op->update_computation = NULL;
    refuse_scatter(KVMILL_E_NULL, "the region is not there");
    op->region = &region;
    add.operands[1] = 2;
    refuse_scatter(KVMILL_E_ATTRIBUTE, "region: add takes value 2; accepted: 0 to 1");
    add.operands[1] = 1;
    add.name = "sort";
    refuse_scatter(KVMILL_E_ATTRIBUTE, "region: \"sort\" is not an op for scalars");
    add.name = "and";
    refuse_scatter(KVMILL_E_DTYPE, "region: and of f32 gives f32");
    add.name = "compare";
    add.element = truth;
    refuse_scatter(KVMILL_E_ATTRIBUTE, "region: comparison_direction is \"\"");
    add.comparison_direction = "LT";
    refuse_scatter(KVMILL_E_DTYPE, "C23: the region's argument 0 f32");
    add = (kvmill_region_op){.name = "capture", .element = number, .value = {1}};
    refuse_scatter(KVMILL_E_ATTRIBUTE, "region: capture 1; accepted: less than capture_count, 0");
    region.op_count = 65;
    refuse_scatter(KVMILL_E_ATTRIBUTE, "65 ops");
}

static void refuse_scatter_plans(void) {
    good_scatter()->count = 0;
    refuse_scatter(KVMILL_E_ATTRIBUTE, "C5: 0 inputs; accepted: 1 to 16");
    good_scatter()->count = 17;
    refuse_scatter(KVMILL_E_ATTRIBUTE, "C5: 17 inputs");
    good_scatter()->update_computation = "sum";
    refuse_scatter(KVMILL_E_ATTRIBUTE, "update_computation is \"sum\"; accepted: replace");
    good_scatter()->window_out_of_bounds = "clip";
    refuse_scatter(KVMILL_E_ATTRIBUTE, "window_out_of_bounds is \"clip\"");
    good_scatter();
    inputs[1].shape = two;
    refuse_scatter(KVMILL_E_SHAPE, "C1: inputs[1] has shape [2]; accepted: [3]");
    good_scatter();
    updates[1].shape = three;
    refuse_scatter(KVMILL_E_SHAPE, "C3: updates[1] has shape [3]; accepted: [2]");
    good_scatter();
    updates[0].dtype = i32;
    refuse_scatter(KVMILL_E_DTYPE, "C6: the element type of update 0 i32");
    good_scatter()->inputs = NULL;
    refuse_scatter(KVMILL_E_NULL, "inputs[0] is NULL");
}

static void run_scatter(void) {
    good_scatter();
    kvmill_plan *plan;
    kvmill_error error;
    ok(kvmill_plan_scatter(&scatter_op, NULL, &plan, &error) == KVMILL_OK, "a plan");
    DLTensor outputs[] = {tensor(f32, 1, three, output_data[0]),
                          tensor(f32, 1, three, output_data[1])};
    const DLTensor *tensors[] = {&inputs[0],  &inputs[1],  &start_indices, &updates[0],
                                 &updates[1], &outputs[0], &outputs[1]};
    tensors[5] = &inputs[0];
    kvmill_status status = kvmill_run(plan, tensors, NULL, &error);
    expect(status, KVMILL_E_ALIAS, &error, "accepted: all in place, or none");
    tensors[5] = &inputs[1];
    tensors[6] = &inputs[0];
    status = kvmill_run(plan, tensors, NULL, &error);
    expect(status, KVMILL_E_ALIAS, &error, "overlaps results[0]; accepted: memory of its own");
    ok(input_data[0][0] == 1 && input_data[1][2] == 6, "  and nothing was written");
    tensors[5] = &outputs[0];
    tensors[6] = &outputs[1];
    status = kvmill_run(plan, tensors, NULL, &error);
    ok(status == KVMILL_OK && output_data[0][0] == 21 && output_data[0][2] == 13 &&
           output_data[1][0] == 44 && output_data[1][1] == 5,
       "apart: results are new");
    ok(input_data[0][0] == 1 && input_data[1][2] == 6, "  and inputs are as they were");
    tensors[5] = &inputs[0];
    tensors[6] = &inputs[1];
    status = kvmill_run(plan, tensors, NULL, &error);
    ok(status == KVMILL_OK && memcmp(input_data, output_data, sizeof input_data) == 0,
       "in place: the same numbers");
    kvmill_plan_destroy(plan);
}

int main(void) {
    refuse_gather_plans();
    refuse_gather_runs();
    refuse_scatter_plans();
    refuse_regions();
    run_scatter();
    return done_testing();
}
