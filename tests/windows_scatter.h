/* Problems of scatter: one input with a combiner, or several with a region; run, and judged by the
   oracles.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WINDOWS_SCATTER_H
#define KVMILL_TESTS_WINDOWS_SCATTER_H

#include "oracle/combiners.h"
#include "oracle/windows.h"
#include "windows_case.h"

enum { MOST_SLOTS = 3, JOINTS = 2, COPIED_TYPES = 7 };

/* Types of what is only copied. */
extern const DLDataType copied_types[COPIED_TYPES];

/* Regions of several inputs, each made of what the others were before. */
extern const struct joint {
    int slots;
    const kvmill_region *region;
    oracle_combine combine;
} joints[JOINTS];

struct scattering {
    struct geometry g;
    const struct joint *joint; /* or NULL: one input, and the combiner */
    struct combiner combiner;
    DLDataType index_type;
    bool in_place, unique;
    int slots;
    int64_t parts; /* that its plan says a run has, at most */
    struct pair input[MOST_SLOTS], update[MOST_SLOTS], result[MOST_SLOTS], indices;
    const DLTensor *inputs[MOST_SLOTS], *updates[MOST_SLOTS], *tensors[3 * MOST_SLOTS + 2];
    kvmill_scatter op;
};

/* The scatter of these tensors, without the attributes that are drawn. */
kvmill_scatter scatter_of(const struct scattering *it, const DLTensor *const *inputs,
                          const DLTensor *indices, const DLTensor *const *updates);

/* Tensors of its geometry and types, filled; run and judge them, which closes them; both. */
void open_scattering(struct dice *dice, struct scattering *it);
bool applies_right(struct dice *dice, struct scattering *it, const kvmill_plan_options *options);
bool scatters_so(struct dice *dice, struct scattering *it, const kvmill_plan_options *options);

/* Any problem, of the joint or of one input. */
bool scatters_with(struct dice *dice, bool large, const struct joint *joint,
                   const kvmill_plan_options *options);

#endif
