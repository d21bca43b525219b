/* Random problems of gather and scatter: geometry, tensors with strides and fences, indices; runs
   of them, and what the oracles say.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WINDOWS_CASE_H
#define KVMILL_TESTS_WINDOWS_CASE_H

#include <stdio.h>

#include <kvmill.h>

#include "../defs/op.h"
#include "fence.h"
#include "oracle/windows.h"

/* What became of the cases, to be sure that every way was gone. */
extern struct ways {
    int64_t gathers, scatters, pairs, many_pairs, unsorted_pairs, inner_vector, implicit, empty;
    int64_t no_components, strided, many_parts, in_place, skipped, filled, extreme, transposed;
    int64_t region_parts, slot_kernels, empty_dropped, empty_batching;
} seen;

/* An op's dimension numbers; its tensors and the rest are the caller's to set. */
kvmill_gather gather_of_geometry(const struct geometry *g);
kvmill_scatter scatter_of_geometry(const struct geometry *g);

void make_geometry(struct dice *dice, bool large, bool gathers, struct geometry *g);

/* Points of an axis of these dims, with all of the other axes. */
struct geometry geometry_along(int rank, const int64_t *dims, int axis, int64_t points);

/* Dense data for the oracle, and the same with strides and fences. */
struct pair {
    unsigned char *dense;
    int64_t count, bytes;
    struct fenced_tensor fenced;
};

/* Elements of less than a byte take one.  With any strides, unless the tensor is to be dense, too.
 */
void open_elements(struct dice *dice, DLDataType type, int rank, const int64_t *dims, bool is_dense,
                   struct fenced_tensor *tensor);
void open_pair(struct dice *dice, DLDataType type, int rank, const int64_t *dims, bool is_dense,
               struct pair *pair);
void close_pair(struct pair *pair);

/* The dense data into the tensor; whether the tensor has them, and nothing else was written. */
void put_pair(struct pair *pair);
bool is_as_dense(const struct pair *pair, DLDataType type);

/* Bits are equal, or both are NaN, also in the halves of complex numbers. */
bool is_same_element(DLDataType type, const unsigned char *a, const unsigned char *b);

void random_bytes(struct dice *dice, struct pair *pair);

/* "tensor<2x3xf32>" */
void print_tensor_type(FILE *stream, const DLTensor *tensor);

/* Indices: any of their types; some outside, some at the ends of 64 bits. */
DLDataType random_index_type(struct dice *dice);
void fill_indices(struct dice *dice, const struct geometry *g, DLDataType type,
                  struct pair *indices);

/* Run and destroy the plan: at once, or in parts of any order; *most becomes the largest number of
   parts, where it is not NULL. */
bool run_windows(struct dice *dice, kvmill_plan *plan, const DLTensor *const *tensors,
                 int64_t *most);

/* The op's lists by their names: members of JSON, or attributes of StableHLO, which has slice_sizes
   elsewhere. */
void print_lists(FILE *stream, const struct op *of, const void *op, bool json);

/* ---- Problems of gather ---- */

struct gathering {
    struct geometry g;
    DLDataType type, index_type;
    bool is_dense;
    struct pair operand, indices, result;
    unsigned char fill[16];
    const DLTensor *tensors[3];
    kvmill_gather op;
};

/* Tensors of its geometry and types, filled, and an op that clips; the oracle's result becomes the
   dense one. */
void open_gathering(struct dice *dice, struct gathering *it);
void expect_gathering(struct gathering *it, enum oracle_form form);
void close_gathering(struct gathering *it);

/* ---- Problems of scatter, judged by the oracles ---- */

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
    bool is_dense, in_place, unique;
    int slots;
    int64_t parts; /* that its plan says a run has, at most */
    struct pair input[MOST_SLOTS], update[MOST_SLOTS], result[MOST_SLOTS], indices;
    const DLTensor *inputs[MOST_SLOTS], *updates[MOST_SLOTS], *tensors[3 * MOST_SLOTS + 2];
    kvmill_scatter op;
};

/* The scatter of these tensors, without the attributes that are drawn. */
kvmill_scatter scatter_of(const struct scattering *it, const DLTensor *const *inputs,
                          const DLTensor *indices, const DLTensor *const *updates);

/* Tensors of its geometry and types, filled, and their op; what an oracle makes of the inputs,
   which `originals` hold, becomes the results' dense data. */
void open_scattering(struct dice *dice, struct scattering *it);
void expect_scattering(struct scattering *it, enum oracle_form form,
                       unsigned char *const *originals);
void close_scattering(struct scattering *it);

/* Run and judge them, which closes them; after opening them. */
bool applies_right(struct dice *dice, struct scattering *it, const kvmill_plan_options *options);
bool scatters_so(struct dice *dice, struct scattering *it, const kvmill_plan_options *options);

/* Any problem, of the joint or of one input. */
bool scatters_with(struct dice *dice, bool large, const struct joint *joint,
                   const kvmill_plan_options *options);

/* ---- What the environment says ---- */

/* Cases of a kind, KVMILL_WINDOWS_CASES; or `usual`. */
int windows_cases(int usual);

/* The pack of that name in a library. */
const kvmill_pack *loaded_pack(const char *path, const char *name);

#endif
