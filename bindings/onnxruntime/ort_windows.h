/* ONNX's Gather, GatherND and ScatterElements, as StableHLO's gathers and scatters.  ScatterND and
   GatherElements are as fast in the runtime.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_ONNXRUNTIME_ORT_WINDOWS_H
#define KVMILL_BINDINGS_ONNXRUNTIME_ORT_WINDOWS_H

#include "../../ops/served/windows_served.h"
#include "node.h"

/* Tensors in the order of kvmill's ops. */
enum { WINDOWS_DATA, WINDOWS_INDICES, WINDOWS_GATHERED, WINDOWS_UPDATES = 2, WINDOWS_SCATTERED };

_Static_assert((int)KVMILL_WINDOWS_MOST_RANK == (int)MOST_RANK, "ranks are limited alike");

extern const struct node_op gather_op, gather_nd_op, scatter_elements_op;

struct windows_axes {
    int64_t items[MOST_RANK];
    size_t count;
};

/* A node in StableHLO's terms. */
struct windows {
    struct windows_axes offsets, dropped, batching, mapped;
    int64_t vector;          /* the axis of index vectors */
    int64_t data[MOST_RANK]; /* dims of the part of the data that indices can reach */
};

/* Sets the windows of a node with these tensors; fails if it has none. */
kvmill_status windows_find(const struct node *node, const DLTensor *const *inputs,
                           struct windows *windows, kvmill_error *error);

/* ---- Running (windows_run.c) ---- */

OrtStatus *windows_run_gather(struct node_run *run, const kvmill_plan *plan);
OrtStatus *windows_run_scatter(struct node_run *run, const kvmill_plan *plan);

#endif
