/* Random problems of gather and scatter: geometry, tensors with strides and fences, indices; runs
   of them, compared with the oracles.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WINDOWS_CASE_H
#define KVMILL_TESTS_WINDOWS_CASE_H

#include <stdio.h>

#include <kvmill.h>

#include "../defs/op.h"
#include "fence.h"
#include "oracle/oracle_windows.h"

/* Return an op with the dimension numbers of `g`; the caller sets tensors and the rest. */
kvmill_gather gather_of_geometry(const struct geometry *g);
kvmill_scatter scatter_of_geometry(const struct geometry *g);

void make_geometry(struct dice *dice, bool large, bool gathers, struct geometry *g);

/* Returns the geometry of points of one axis, with all of the other axes. */
struct geometry geometry_along(int rank, const int64_t *dims, int axis, int64_t points);

/* Dense data for the oracle, and the same with strides and fences. */
struct pair {
    unsigned char *dense;
    int64_t count, bytes;
    struct fenced_tensor fenced;
};

/* Make a tensor: dense, or with random strides.  Elements of less than a byte take a byte. */
void open_elements(struct dice *dice, DLDataType type, int rank, const int64_t *dims, bool is_dense,
                   struct fenced_tensor *tensor);
void open_pair(struct dice *dice, DLDataType type, int rank, const int64_t *dims, bool is_dense,
               struct pair *pair);
void close_pair(struct pair *pair);

/* Copy the dense data to the tensor; and check that the tensor has them, and nothing else was
   written. */
void put_pair(struct pair *pair);
bool is_as_dense(const struct pair *pair, DLDataType type);

/* Whether the bits are equal or both elements are NaN; for complex numbers, in each half. */
bool is_same_element(DLDataType type, const unsigned char *a, const unsigned char *b);

void random_bytes(struct dice *dice, struct pair *pair);

/* Prints "tensor<2x3xf32>". */
void print_tensor_type(FILE *stream, const DLTensor *tensor);

/* Make indices of any index type; some are out of bounds, some at the ends of 64 bits. */
DLDataType random_index_type(struct dice *dice);
void fill_indices(struct dice *dice, const struct geometry *g, DLDataType type,
                  struct pair *indices);

/* Runs and destroys the plan, at once or in parts of any order.  has_slots: the plan scatters to
   several inputs. */
bool run_windows(struct dice *dice, kvmill_plan *plan, const DLTensor *const *tensors,
                 bool has_slots);

/* Prints the op's lists by their names: members of JSON, or attributes of StableHLO, which has
   slice_sizes elsewhere. */
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

/* Make tensors of the geometry and types, filled, and an op that clips; the oracle's result becomes
   the dense result. */
void open_gathering(struct dice *dice, struct gathering *it);
void expect_gathering(struct gathering *it, enum oracle_form form);
void close_gathering(struct gathering *it);

/* ---- Problems of scatter, judged by the oracles ---- */

enum { MOST_SLOTS = 3, JOINTS = 2, COPIED_TYPES = 7 };

/* Types for elements that are only copied. */
extern const DLDataType copied_types[COPIED_TYPES];

/* Regions of several inputs; each result depends on the other inputs' previous values. */
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
    int64_t parts; /* the most parts of a run, from its plan */
    struct pair input[MOST_SLOTS], update[MOST_SLOTS], result[MOST_SLOTS], indices;
    const DLTensor *inputs[MOST_SLOTS], *updates[MOST_SLOTS], *tensors[3 * MOST_SLOTS + 2];
    kvmill_scatter op;
};

/* Returns the scatter of these tensors, without the attributes that are drawn. */
kvmill_scatter scatter_of(const struct scattering *it, const DLTensor *const *inputs,
                          const DLTensor *indices, const DLTensor *const *updates);

/* Make filled tensors of the geometry and types, and their op; the oracle computes the results'
   dense data from the inputs, which `originals` have. */
void open_scattering(struct dice *dice, struct scattering *it);
void expect_scattering(struct scattering *it, enum oracle_form form,
                       unsigned char *const *originals);
void close_scattering(struct scattering *it);

/* Run and judge them, and close them; scatters_so also opens them. */
bool applies_right(struct dice *dice, struct scattering *it, const kvmill_plan_options *options);
bool scatters_so(struct dice *dice, struct scattering *it, const kvmill_plan_options *options);

/* Runs and judges a random problem of the joint, or of one input. */
bool scatters_with(struct dice *dice, bool large, const struct joint *joint,
                   const kvmill_plan_options *options);

/* ---- The environment ---- */

/* Returns the number of cases of a kind: KVMILL_WINDOWS_CASES, or `usual`. */
int windows_cases(int usual);

/* Returns the pack of that name in a library. */
const kvmill_pack *loaded_pack(const char *path, const char *name);

#endif
