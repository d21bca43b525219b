/* Random problems of gather and scatter: geometry, tensors with strides and fences, indices.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_WINDOWS_CASE_H
#define KVMILL_TESTS_WINDOWS_CASE_H

#include <kvmill.h>

#include "fence.h"

/* What became of the cases, to be sure that every way was gone. */
extern struct ways {
    int64_t gathers, scatters, pairs, many_pairs, unsorted_pairs, inner_vector, implicit, empty;
    int64_t no_components, strided, many_parts, in_place, skipped, filled, extreme, transposed;
    int64_t region_parts, slot_kernels, empty_dropped, empty_batching;
} seen;

struct geometry {
    int rank, space_rank, indices_rank, windowed_rank;
    int64_t dims[MOST_DIMS], slice[MOST_DIMS], space[MOST_DIMS];
    int64_t indices_dims[MOST_DIMS], windowed_dims[MOST_DIMS];
    int64_t window[MOST_DIMS], dropped[MOST_DIMS], batching[MOST_DIMS];
    int64_t indices_batching[MOST_DIMS], map[MOST_DIMS];
    int windows, droppeds, pairs, components, ivd;
};

/* An op's dimension numbers; its tensors and the rest are the caller's to set. */
kvmill_gather gather_of_geometry(const struct geometry *g);
kvmill_scatter scatter_of_geometry(const struct geometry *g);

void make_geometry(struct dice *dice, bool large, bool gathers, struct geometry *g);

/* Rows that the same points are applied to: [rows, dim] takes [rows, points] at columns. */
void make_repeated(struct dice *dice, struct geometry *g);

/* Dense data for the oracle, and the same with strides and fences. */
struct pair {
    bool is_dense; /* the tensor, too */
    unsigned char *dense;
    int64_t count, bytes;
    struct fenced_tensor fenced;
};

/* Elements of less than a byte take one. */
void open_elements(struct fenced_tensor *tensor, DLDataType type, int rank, const int64_t *dims,
                   const int64_t *strides, struct dice *dice);
void open_pair(struct dice *dice, DLDataType type, int rank, const int64_t *dims,
               struct pair *pair);
void close_pair(struct pair *pair);

/* The dense data into the tensor; whether the tensor has them, and nothing else was written. */
void put_pair(struct pair *pair);
bool is_as_dense(const struct pair *pair, DLDataType type);

/* Bits are equal, or both are NaN, also in the halves of complex numbers. */
bool is_same_element(DLDataType type, const unsigned char *a, const unsigned char *b);

void random_bytes(struct dice *dice, struct pair *pair);

/* Indices: any of their types; some outside, some at the ends of 64 bits. */
DLDataType random_index_type(struct dice *dice);
void fill_indices(struct dice *dice, const struct geometry *g, DLDataType type,
                  struct pair *indices);

/* Run and destroy the plan: at once, or in parts of any order; *most becomes the largest number of
   parts, where it is not NULL. */
bool run_windows(struct dice *dice, kvmill_plan *plan, const DLTensor *const *tensors,
                 int64_t *most);

#endif
