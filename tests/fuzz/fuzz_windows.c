/* Plans and runs stablehlo.gather and stablehlo.scatter as a hostile caller.

   SPDX-License-Identifier: Apache-2.0 */
#include "../plans.h"
#include "call.h"
#include "fuzz.h"

enum { MOST_INPUTS = 2, MOST_WINDOW_TENSORS = 3 * MOST_INPUTS + 1, LISTS = 6, MOST_AXES = 6 };

/* A call while it is made; `memory` is in the order of a run. */
struct windows {
    struct dice *dice;
    bool scatters;
    int64_t lists[LISTS][MOST_AXES];
    kvmill_dims dims[LISTS];
    kvmill_gather gather;
    kvmill_scatter scatter;
    int inputs, count; /* `count`: tensors in a run */
    struct fenced_tensor memory[MOST_WINDOW_TENSORS];
    const DLTensor *tensors[MOST_WINDOW_TENSORS];
};

static int64_t draw(struct windows *windows, int64_t least, int64_t most) {
    return dice_range(windows->dice, least, most);
}

/* ---- Attributes ---- */

static void draw_list(struct windows *windows, int which, int count) {
    for (int i = 0; i < count; i++)
        windows->lists[which][i] = draw(windows, 0, 9) == 0 ? bend_number(windows->dice) : i;
    windows->dims[which] = (kvmill_dims){windows->lists[which], (size_t)count};
}

/* Draws lists: mostly those of rows of a table by numbers; a third of the lists are random. */
static void draw_lists(struct windows *windows, int rank) {
    static const int usual[LISTS] = {-1, 1, 0, 0, 1, 0};
    for (int i = 0; i < LISTS; i++) {
        int count = usual[i] < 0 ? rank - 1 : usual[i];
        draw_list(windows, i, draw(windows, 0, 2) ? count : (int)draw(windows, 0, MOST_AXES));
    }
    for (int i = 0; i < (int)windows->dims[0].count; i++)
        windows->lists[0][i] += windows->lists[0][i] < MOST_AXES && draw(windows, 0, 4) != 0;
}

/* ---- Tensors ---- */

static void open_tensor(struct windows *windows, int at, DLDataType type, int rank,
                        const int64_t *dims) {
    tensor_open(&windows->memory[at], type, rank, dims, NULL, windows->dice);
    memset(windows->memory[at].fence.data, 0, windows->memory[at].fence.size);
    windows->tensors[at] = &windows->memory[at].dl;
}

static DLDataType draw_type(struct windows *windows) {
    static const DLDataType types[] = {{kDLFloat, 32, 1}, {kDLInt, 8, 1},     {kDLFloat, 16, 1},
                                       {kDLUInt, 16, 1},  {kDLInt, 64, 1},    {kDLBfloat, 16, 1},
                                       {kDLInt, 32, 1},   {kDLComplex, 64, 1}};
    return types[draw(windows, 0, 7)];
}

static DLDataType draw_index(struct windows *windows) {
    static const uint8_t bits[] = {32, 64, 8, 16};
    return (DLDataType){draw(windows, 0, 2) ? kDLInt : kDLUInt, bits[draw(windows, 0, 3)], 1};
}

/* Opens operand [rows, ...], indices [n, 1] and windows [n, ...]. */
static void open_tensors(struct windows *windows, int rank) {
    int64_t operand[MOST_AXES], window[MOST_AXES], indices[] = {draw(windows, 0, 4), 1};
    int n = windows->inputs;
    for (int d = 0; d < rank; d++)
        operand[d] = window[d] = draw(windows, draw(windows, 0, 9) > 0, 6);
    window[0] = indices[0];
    for (int d = 0; d < rank; d++)
        windows->lists[5][d] = d == 0 ? 1 : operand[d]; /* slice_sizes */
    windows->dims[5].count = (size_t)rank;
    for (int i = 0; i < n; i++) {
        DLDataType type = draw_type(windows);
        open_tensor(windows, i, type, rank, operand);
        open_tensor(windows, n + 1 + i, type, rank, window);
        if (windows->scatters)
            open_tensor(windows, 2 * n + 1 + i, type, rank, operand);
    }
    open_tensor(windows, n, draw_index(windows), draw(windows, 0, 5) ? 2 : 1, indices);
    windows->count = windows->scatters ? 3 * n + 1 : 3;
}

/* ---- Plans ---- */

static void set_gather(struct windows *windows) {
    static const char *const modes[] = {NULL, "clip", "fill", "wrap"};
    kvmill_gather *op = &windows->gather;
    memset(op, 0, sizeof *op);
    op->struct_size = sizeof *op;
    op->offset_dims = windows->dims[0];
    op->collapsed_slice_dims = windows->dims[1];
    op->operand_batching_dims = windows->dims[2];
    op->start_indices_batching_dims = windows->dims[3];
    op->start_index_map = windows->dims[4];
    op->slice_sizes = windows->dims[5];
    op->index_vector_dim = draw(windows, 0, 9) ? 1 : bend_number(windows->dice);
    op->mode = modes[draw(windows, 0, 3)];
    op->operand = windows->tensors[KVMILL_GATHER_OPERAND];
    op->start_indices = windows->tensors[KVMILL_GATHER_START_INDICES];
    op->result = draw(windows, 0, 3) ? windows->tensors[KVMILL_GATHER_RESULT] : NULL;
}

static void set_scatter(struct windows *windows) {
    static const char *const words[] = {"add",      "replace", "minimum", "maximum",
                                        "multiply", "and",     "xor",     "subtract"};
    kvmill_scatter *op = &windows->scatter;
    memset(op, 0, sizeof *op);
    op->struct_size = sizeof *op;
    op->update_window_dims = windows->dims[0];
    op->inserted_window_dims = windows->dims[1];
    op->input_batching_dims = windows->dims[2];
    op->scatter_indices_batching_dims = windows->dims[3];
    op->scatter_dims_to_operand_dims = windows->dims[4];
    op->index_vector_dim = draw(windows, 0, 9) ? 1 : bend_number(windows->dice);
    op->unique_indices = draw(windows, 0, 5) == 0;
    op->window_out_of_bounds = draw(windows, 0, 2) ? NULL : "skip_window";
    op->update_computation = words[draw(windows, 0, 7)];
    op->count = (size_t)windows->inputs;
    op->inputs = windows->tensors;
    op->scatter_indices = windows->tensors[windows->inputs];
    op->updates = windows->tensors + windows->inputs + 1;
    op->results = draw(windows, 0, 3) ? windows->tensors + 2 * windows->inputs + 1 : NULL;
}

static kvmill_status plan(void *context, const kvmill_plan_options *options, kvmill_plan **made,
                          kvmill_error *error) {
    const struct windows *windows = context;
    return windows->scatters ? kvmill_plan_scatter(&windows->scatter, options, made, error)
                             : kvmill_plan_gather(&windows->gather, options, made, error);
}

/* ---- Runs ---- */

static void bend_one(struct windows *windows, struct fenced_tensor *bent) {
    int at = (int)draw(windows, 0, windows->count - 1);
    int64_t which = draw(windows, 0, 7);
    if (which == 0)
        windows->tensors[at] = windows->tensors[draw(windows, 0, windows->count - 1)];
    else if (which == 1)
        windows->tensors[at] = NULL;
    else if (which <= 3) {
        bend_tensor(&bent[at], &windows->memory[at], windows->dice);
        windows->tensors[at] = &bent[at].dl;
    } else
        bend_indices(&windows->memory[windows->inputs], windows->dice);
}

static void bend_some(struct windows *windows, struct fenced_tensor *bent) {
    for (int64_t n = draw(windows, 0, 3); n > 0; n--)
        bend_one(windows, bent);
}

static void call(struct windows *windows) {
    struct fenced_tensor planned[MOST_WINDOW_TENSORS], bent[MOST_WINDOW_TENSORS];
    const struct call call = {
        .memory = windows->memory,
        .count = windows->count,
        .tensors = windows->tensors,
        .plan = plan,
        .context = windows,
        .dice = windows->dice,
    };
    if (draw(windows, 0, 3) == 0)
        bend_some(windows, planned);
    (windows->scatters ? set_scatter : set_gather)(windows);
    OWN_PLAN kvmill_plan *made = call_plan(&call);
    bend_some(windows, bent);
    if (made != NULL)
        call_run(&call, made);
}

void fuzz_windows(const unsigned char *data, size_t size) {
    struct dice dice = dice_of_bytes(data, size);
    struct windows windows = {.dice = &dice};
    int rank = (int)draw(&windows, 1, 4);
    windows.scatters = draw(&windows, 0, 1);
    windows.inputs = windows.scatters ? (int)draw(&windows, 1, MOST_INPUTS) : 1;
    draw_lists(&windows, rank);
    open_tensors(&windows, rank);
    call(&windows);
    tensors_close(windows.memory, windows.count);
}
