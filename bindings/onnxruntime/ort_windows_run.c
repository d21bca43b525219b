/* Runs gathers and scatters: checks the indices, and makes negative ones positive.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "ort_windows.h"

/* ---- Indices ---- */

/* Index vectors; extent: for each component, what is added to negative ones. */
struct indices {
    const DLTensor *tensor;
    int64_t extent[MOST_RANK];
    int64_t components, vectors;
    bool negative; /* at least one is negative */
};

static int64_t index_at(const DLTensor *tensor, int64_t i) {
    return tensor->dtype.bits == 64 ? ((const int64_t *)tensor->data)[i]
                                    : ((const int32_t *)tensor->data)[i];
}

static OrtStatus *refuse_index(const struct indices *indices, int64_t at, int64_t extent) {
    return runtime_fail(ORT_IS_INVALID_ARGUMENT,
                        "indices[%" PRId64 "] is %" PRId64 "; accepted: %" PRId64 " to %" PRId64
                        " (elements are counted in their order)",
                        at, index_at(indices->tensor, at), -extent, extent - 1);
}

/* One loop per type, so that it does not test the type. */
#define LOOK(TYPE)                                                                                 \
    static int look_##TYPE(const TYPE *index, int64_t count, int64_t step, int64_t extent) {       \
        int wrong = 0, negative = 0;                                                               \
        for (int64_t i = 0; i < count; i++) {                                                      \
            int64_t value = index[i * step];                                                       \
            negative |= value < 0;                                                                 \
            wrong |= (value < -extent) | (value >= extent);                                        \
        }                                                                                          \
        return wrong << 1 | negative;                                                              \
    }
LOOK(int64_t)
LOOK(int32_t)
#undef LOOK

static OrtStatus *check_component(struct indices *indices, int64_t c) {
    const DLTensor *tensor = indices->tensor;
    int64_t step = indices->components, extent = indices->extent[c];
    int found =
        tensor->dtype.bits == 64
            ? look_int64_t((const int64_t *)tensor->data + c, indices->vectors, step, extent)
            : look_int32_t((const int32_t *)tensor->data + c, indices->vectors, step, extent);
    indices->negative = indices->negative || found & 1;
    for (int64_t at = c; found > 1; at += step)
        if (index_at(tensor, at) < -extent || index_at(tensor, at) >= extent)
            return refuse_index(indices, at, extent);
    return NULL;
}

static OrtStatus *check_indices(const struct windows *windows, const DLTensor *tensor,
                                struct indices *indices) {
    OrtStatus *status = NULL;
    *indices = (struct indices){.tensor = tensor, .components = (int64_t)windows->mapped.count};
    indices->vectors = value_count(tensor) / indices->components;
    for (int64_t c = 0; c < indices->components; c++)
        indices->extent[c] = windows->data[windows->mapped.items[c]];
    for (int64_t c = 0; status == NULL && c < indices->components && indices->vectors > 0; c++)
        status = check_component(indices, c);
    return status;
}

static void count_from_first(const struct indices *indices, void *to) {
    int64_t count = indices->components * indices->vectors;
    for (int64_t i = 0; i < count; i++) {
        int64_t index = index_at(indices->tensor, i);
        index += index < 0 ? indices->extent[i % indices->components] : 0;
        if (indices->tensor->dtype.bits == 64)
            ((int64_t *)to)[i] = index;
        else
            ((int32_t *)to)[i] = (int32_t)index;
    }
}

/* ---- Runs ---- */

/* Runs the plan; if indices are negative, on a copy without negative ones. */
static OrtStatus *run_on(const struct node_run *run, const kvmill_plan *plan,
                         const struct indices *indices, const DLTensor **given) {
    struct workspaces *all = &run->node->workspaces;
    DLTensor positive = *indices->tensor;
    if (!indices->negative)
        return node_run_plan(run, run->node->op, plan, given);
    struct workspace *workspace = workspace_acquire(all, (size_t)value_bytes(indices->tensor));
    if (workspace == NULL)
        return runtime_fail(ORT_IS_FAILED, "out of memory for indices");
    count_from_first(indices, workspace->memory);
    positive.data = workspace->memory;
    given[WINDOWS_INDICES] = &positive;
    OrtStatus *status = node_run_plan(run, run->node->op, plan, given);
    workspace_release(all, workspace);
    return status;
}

static OrtStatus *prepare(const struct node_run *run, struct windows *windows,
                          struct indices *indices) {
    kvmill_error error;
    OrtStatus *status =
        runtime_refuse(windows_find(run->node, run->given, windows, &error), &error);
    return status != NULL ? status : check_indices(windows, run->given[WINDOWS_INDICES], indices);
}

OrtStatus *windows_run_gather(struct node_run *run, const kvmill_plan *plan) {
    struct windows windows;
    struct indices indices;
    const DLTensor *given[] = {run->given[WINDOWS_DATA], run->given[WINDOWS_INDICES],
                               run->given[WINDOWS_GATHERED]};
    OrtStatus *status = prepare(run, &windows, &indices);
    return status != NULL ? status : run_on(run, plan, &indices, given);
}

/* ---- Scatters ---- */

struct copy {
    const unsigned char *from;
    unsigned char *to;
    int64_t bytes;
};

enum { COPY_BYTES = 256 << 10 };

static void copy_part(void *data, int64_t part) {
    const struct copy *copy = data;
    int64_t start = part * COPY_BYTES, rest = copy->bytes - start;
    memcpy(copy->to + start, copy->from + start, (size_t)(rest < COPY_BYTES ? rest : COPY_BYTES));
}

/* Copies the data to the result, unless they share memory. */
static OrtStatus *keep(const struct node_run *run) {
    const DLTensor *data = run->given[WINDOWS_DATA];
    struct copy copy = {data->data, run->given[WINDOWS_SCATTERED]->data, value_bytes(data)};
    if (copy.from == copy.to)
        return NULL;
    return node_share(run, 2 * copy.bytes, (copy.bytes + COPY_BYTES - 1) / COPY_BYTES, copy_part,
                      &copy);
}

static void set_strides(const DLTensor *dense, int64_t strides[MOST_RANK]) {
    int64_t step = 1;
    for (int d = dense->ndim - 1; d >= 0; d--) {
        strides[d] = step;
        step *= dense->shape[d];
    }
}

OrtStatus *windows_run_scatter(struct node_run *run, const kvmill_plan *plan) {
    struct windows windows;
    struct indices indices;
    int64_t strides[MOST_RANK];
    DLTensor reached = *run->given[WINDOWS_SCATTERED];
    const DLTensor *given[] = {&reached, run->given[WINDOWS_INDICES], run->given[WINDOWS_UPDATES],
                               &reached};
    OrtStatus *status = prepare(run, &windows, &indices);
    if (status == NULL)
        status = keep(run);
    set_strides(&reached, strides);
    reached.shape = windows.data;
    reached.strides = strides;
    return status != NULL ? status : run_on(run, plan, &indices, given);
}
