/* Windows of gather and scatter: checks StableHLO's dimension numbers, and applies their meaning.

   The "windowed" tensor contains windows: the result of a gather, the updates of a scatter.  The
   index space consists of the indices without the index vector; its axes are, in order, the axes of
   the windowed tensor that do not belong to a window.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_WINDOWS_H
#define KVMILL_OPS_WINDOWS_H

#include <stdbool.h>

#include <kvmill.h>

enum { KVMILL_MOST_RANK = 32, KVMILL_NOT_THERE = -1 };

/* The geometry of a checked op.  Arrays are over operand axes unless stated otherwise. */
struct kvmill_windows {
    int rank, space_rank, windowed_rank;
    int64_t dim[KVMILL_MOST_RANK];
    int64_t window[KVMILL_MOST_RANK]; /* extent; 1 for a dropped or batching axis */
    int component[KVMILL_MOST_RANK];  /* of the index vector, for the start along the axis; or none
                                       */
    int batch[KVMILL_MOST_RANK]; /* the axis of the index space with which it is paired; or none */
    int axis[KVMILL_MOST_RANK];  /* of the windowed tensor; or none */
    /* Over axes of the index space. */
    int64_t space[KVMILL_MOST_RANK];
    int index_axis[KVMILL_MOST_RANK], space_axis[KVMILL_MOST_RANK]; /* in indices, in windowed */
    int vector_axis; /* of the indices; none: a single, implicit component */
    int components;
};

/* The dimension numbers of either op, with its own words. */
struct kvmill_numbers {
    const char *const *words; /* by enum kvmill_number_word */
    kvmill_dims window, dropped, batching, indices_batching, map;
    int64_t index_vector_dim;
    const DLTensor *operand, *indices;
    int windowed_rank;
};

enum kvmill_number_word {
    KVMILL_WORD_WINDOW,
    KVMILL_WORD_DROPPED,
    KVMILL_WORD_BATCHING,
    KVMILL_WORD_INDICES_BATCHING,
    KVMILL_WORD_MAP,
    KVMILL_WORD_OPERAND,
    KVMILL_WORD_INDICES,
    KVMILL_WORD_WINDOWED
};

/* A constraint: its number in the op's source, and the function that checks it. */
struct kvmill_constraint {
    int number;
    kvmill_status (*check)(int number, const struct kvmill_numbers *numbers, kvmill_error *error);
};

kvmill_status kvmill_constraints_check(const struct kvmill_constraint *constraints, int count,
                                       const struct kvmill_numbers *numbers, kvmill_error *error);

/* Checks for constraints of both ops.  `?` extents match anything. */
kvmill_status kvmill_check_axis_count(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_vector_dim(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_map_size(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_window_sorted(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_window_range(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_dropped_unique(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_dropped_sorted(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_dropped_range(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_batching_sorted(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_batching_range(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_indices_batching_unique(int, const struct kvmill_numbers *,
                                                   kvmill_error *);
kvmill_status kvmill_check_indices_batching_range(int, const struct kvmill_numbers *,
                                                  kvmill_error *);
kvmill_status kvmill_check_indices_batching_vector(int, const struct kvmill_numbers *,
                                                   kvmill_error *);
kvmill_status kvmill_check_pair_count(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_pair_extents(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_map_unique(int, const struct kvmill_numbers *, kvmill_error *);
kvmill_status kvmill_check_map_range(int, const struct kvmill_numbers *, kvmill_error *);

/* "[1, 2]" */
struct kvmill_dims_text {
    char text[96];
};
const char *kvmill_dims_words(const kvmill_dims *dims, struct kvmill_dims_text *words);

bool kvmill_dims_contain(const kvmill_dims *dims, int64_t axis);

/* The rank of the index space, for checked numbers. */
int kvmill_space_rank(const struct kvmill_numbers *numbers);

/* Unfold checked numbers.  `extent` has the sizes of windows, by window axis in order; NULL: the
 * operand's. */
void kvmill_windows_unfold(const struct kvmill_numbers *numbers, const int64_t *extent,
                           struct kvmill_windows *windows);

/* The first check of tensors in these ops: known types, at most 32 axes. */
kvmill_status kvmill_check_rank(const char *name, const DLTensor *tensor, kvmill_error *error);

/* Check that an element type that was given for a tensor has the tensor's storage type. */
kvmill_status kvmill_check_stored(const char *name, const kvmill_element_type *element,
                                  const DLTensor *tensor, kvmill_error *error);

/* Check that all dims are known, and none is negative. */
kvmill_status kvmill_check_known(const char *name, const DLTensor *tensor, kvmill_error *error);

#endif
