/* SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"
#include "element.h"
#include "extent.h"
#include "fail.h"
#include "refuse.h"

/* ---- Lists of axes ---- */

const char *kvmill_dims_words(const kvmill_dims *dims, struct kvmill_dims_text *words) {
    const size_t size = sizeof words->text - 8;
    size_t at = (size_t)snprintf(words->text, size, "[");
    for (size_t i = 0; i < dims->count && at < size; i++) {
        const char *comma = i ? ", " : "";
        at += (size_t)(dims->items == NULL ? snprintf(words->text + at, size - at, "%s?", comma)
                                           : snprintf(words->text + at, size - at, "%s%" PRId64,
                                                      comma, dims->items[i]));
    }
    snprintf(words->text + (at < size ? at : size), 8, at < size ? "]" : " ...]");
    return words->text;
}

bool kvmill_dims_contain(const kvmill_dims *dims, int64_t axis) {
    for (size_t i = 0; i < dims->count; i++)
        if (dims->items[i] == axis)
            return true;
    return false;
}

static bool is_ascending(const kvmill_dims *dims, bool strictly) {
    for (size_t i = 1; i < dims->count; i++)
        if (dims->items[i - 1] > dims->items[i] ||
            (strictly && dims->items[i - 1] == dims->items[i]))
            return false;
    return true;
}

static bool is_unique(const kvmill_dims *dims) {
    for (size_t i = 0; i < dims->count; i++)
        if (kvmill_dims_contain(&(kvmill_dims){dims->items, i}, dims->items[i]))
            return false;
    return true;
}

static bool are_apart(const kvmill_dims *a, const kvmill_dims *b) {
    for (size_t i = 0; i < a->count; i++)
        if (kvmill_dims_contain(b, a->items[i]))
            return false;
    return true;
}

/* ---- Constraints ---- */

kvmill_status kvmill_constraints_check(const struct kvmill_constraint *constraints, int count,
                                       const struct kvmill_numbers *numbers, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < count; i++)
        status = constraints[i].check(constraints[i].number, numbers, error);
    return status;
}

static const char *word(const struct kvmill_numbers *numbers, enum kvmill_number_word which) {
    return numbers->words[which];
}

static kvmill_status check_ascending(int number, const char *name, const kvmill_dims *dims,
                                     bool strictly, kvmill_error *error) {
    struct kvmill_dims_text have;
    if (is_ascending(dims, strictly))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "C%d: %s is %s; accepted: ascending%s", number,
                       name, kvmill_dims_words(dims, &have), strictly ? ", each once" : "");
}

static kvmill_status check_range(int number, const char *name, const kvmill_dims *dims, int64_t end,
                                 const char *of, kvmill_error *error) {
    struct kvmill_dims_text have;
    for (size_t i = 0; i < dims->count; i++)
        if (dims->items[i] < 0 || dims->items[i] >= end)
            return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                               "C%d: %s is %s; accepted: axes of %s, which has rank %" PRId64,
                               number, name, kvmill_dims_words(dims, &have), of, end);
    return KVMILL_OK;
}

/* Check that no axis is in both lists, or twice in the first one. */
static kvmill_status check_unique(int number, const char *name, const kvmill_dims *dims,
                                  const char *other_name, const kvmill_dims *other,
                                  kvmill_error *error) {
    struct kvmill_dims_text have, have_other;
    if (is_unique(dims) && is_unique(other) && are_apart(dims, other))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "C%d: %s is %s and %s is %s; accepted: each axis once in both", number, name,
                       kvmill_dims_words(dims, &have), other_name,
                       kvmill_dims_words(other, &have_other));
}

kvmill_status kvmill_check_axis_count(int number, const struct kvmill_numbers *numbers,
                                      kvmill_error *error) {
    size_t window = numbers->window.count, dropped = numbers->dropped.count;
    size_t batching = numbers->batching.count;
    if (window + dropped + batching == (size_t)numbers->operand->ndim)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "C%d: %zu %s, %zu %s and %zu %s; accepted: together the rank of %s, %d",
                       number, window, word(numbers, KVMILL_WORD_WINDOW), dropped,
                       word(numbers, KVMILL_WORD_DROPPED), batching,
                       word(numbers, KVMILL_WORD_BATCHING), word(numbers, KVMILL_WORD_OPERAND),
                       numbers->operand->ndim);
}

kvmill_status kvmill_check_vector_dim(int number, const struct kvmill_numbers *numbers,
                                      kvmill_error *error) {
    if (numbers->index_vector_dim >= 0 && numbers->index_vector_dim <= numbers->indices->ndim)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "C%d: index_vector_dim is %" PRId64 "; accepted: 0 to the rank of %s, %d",
                       number, numbers->index_vector_dim, word(numbers, KVMILL_WORD_INDICES),
                       numbers->indices->ndim);
}

static int64_t component_count(const struct kvmill_numbers *numbers) {
    bool implicit = numbers->index_vector_dim == numbers->indices->ndim;
    return implicit ? 1 : numbers->indices->shape[numbers->index_vector_dim];
}

kvmill_status kvmill_check_map_size(int number, const struct kvmill_numbers *numbers,
                                    kvmill_error *error) {
    struct kvmill_dims_text have;
    if (kvmill_may_be_equal(component_count(numbers), (int64_t)numbers->map.count))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "C%d: %s is %s; accepted: an axis for each of the %" PRId64
                       " components of %s along index_vector_dim %" PRId64,
                       number, word(numbers, KVMILL_WORD_MAP),
                       kvmill_dims_words(&numbers->map, &have), component_count(numbers),
                       word(numbers, KVMILL_WORD_INDICES), numbers->index_vector_dim);
}

kvmill_status kvmill_check_window_sorted(int number, const struct kvmill_numbers *numbers,
                                         kvmill_error *error) {
    return check_ascending(number, word(numbers, KVMILL_WORD_WINDOW), &numbers->window, true,
                           error);
}

kvmill_status kvmill_check_window_range(int number, const struct kvmill_numbers *numbers,
                                        kvmill_error *error) {
    return check_range(number, word(numbers, KVMILL_WORD_WINDOW), &numbers->window,
                       numbers->windowed_rank, word(numbers, KVMILL_WORD_WINDOWED), error);
}

kvmill_status kvmill_check_dropped_unique(int number, const struct kvmill_numbers *numbers,
                                          kvmill_error *error) {
    return check_unique(number, word(numbers, KVMILL_WORD_DROPPED), &numbers->dropped,
                        word(numbers, KVMILL_WORD_BATCHING), &numbers->batching, error);
}

kvmill_status kvmill_check_dropped_sorted(int number, const struct kvmill_numbers *numbers,
                                          kvmill_error *error) {
    return check_ascending(number, word(numbers, KVMILL_WORD_DROPPED), &numbers->dropped, false,
                           error);
}

kvmill_status kvmill_check_dropped_range(int number, const struct kvmill_numbers *numbers,
                                         kvmill_error *error) {
    return check_range(number, word(numbers, KVMILL_WORD_DROPPED), &numbers->dropped,
                       numbers->operand->ndim, word(numbers, KVMILL_WORD_OPERAND), error);
}

kvmill_status kvmill_check_batching_sorted(int number, const struct kvmill_numbers *numbers,
                                           kvmill_error *error) {
    return check_ascending(number, word(numbers, KVMILL_WORD_BATCHING), &numbers->batching, false,
                           error);
}

kvmill_status kvmill_check_batching_range(int number, const struct kvmill_numbers *numbers,
                                          kvmill_error *error) {
    return check_range(number, word(numbers, KVMILL_WORD_BATCHING), &numbers->batching,
                       numbers->operand->ndim, word(numbers, KVMILL_WORD_OPERAND), error);
}

kvmill_status kvmill_check_indices_batching_unique(int number, const struct kvmill_numbers *numbers,
                                                   kvmill_error *error) {
    struct kvmill_dims_text have;
    if (is_unique(&numbers->indices_batching))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "C%d: %s is %s; accepted: each axis once", number,
                       word(numbers, KVMILL_WORD_INDICES_BATCHING),
                       kvmill_dims_words(&numbers->indices_batching, &have));
}

kvmill_status kvmill_check_indices_batching_range(int number, const struct kvmill_numbers *numbers,
                                                  kvmill_error *error) {
    return check_range(number, word(numbers, KVMILL_WORD_INDICES_BATCHING),
                       &numbers->indices_batching, numbers->indices->ndim,
                       word(numbers, KVMILL_WORD_INDICES), error);
}

kvmill_status kvmill_check_indices_batching_vector(int number, const struct kvmill_numbers *numbers,
                                                   kvmill_error *error) {
    struct kvmill_dims_text have;
    if (!kvmill_dims_contain(&numbers->indices_batching, numbers->index_vector_dim))
        return KVMILL_OK;
    return kvmill_fail(
        error, KVMILL_E_ATTRIBUTE, "C%d: %s is %s; accepted: without index_vector_dim, %" PRId64,
        number, word(numbers, KVMILL_WORD_INDICES_BATCHING),
        kvmill_dims_words(&numbers->indices_batching, &have), numbers->index_vector_dim);
}

kvmill_status kvmill_check_pair_count(int number, const struct kvmill_numbers *numbers,
                                      kvmill_error *error) {
    if (numbers->batching.count == numbers->indices_batching.count)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "C%d: %zu %s and %zu %s; accepted: as many",
                       number, numbers->batching.count, word(numbers, KVMILL_WORD_BATCHING),
                       numbers->indices_batching.count,
                       word(numbers, KVMILL_WORD_INDICES_BATCHING));
}

kvmill_status kvmill_check_pair_extents(int number, const struct kvmill_numbers *numbers,
                                        kvmill_error *error) {
    for (size_t i = 0; i < numbers->batching.count; i++) {
        int64_t a = numbers->batching.items[i], b = numbers->indices_batching.items[i];
        int64_t have = numbers->operand->shape[a], want = numbers->indices->shape[b];
        if (!kvmill_may_be_equal(have, want))
            return kvmill_fail(error, KVMILL_E_SHAPE,
                               "C%d: axis %" PRId64 " of %s, batching, is %" PRId64
                               " and axis %" PRId64 " of %s is %" PRId64
                               "; accepted: equal extents",
                               number, a, word(numbers, KVMILL_WORD_OPERAND), have, b,
                               word(numbers, KVMILL_WORD_INDICES), want);
    }
    return KVMILL_OK;
}

kvmill_status kvmill_check_map_unique(int number, const struct kvmill_numbers *numbers,
                                      kvmill_error *error) {
    return check_unique(number, word(numbers, KVMILL_WORD_MAP), &numbers->map,
                        word(numbers, KVMILL_WORD_BATCHING), &numbers->batching, error);
}

kvmill_status kvmill_check_map_range(int number, const struct kvmill_numbers *numbers,
                                     kvmill_error *error) {
    return check_range(number, word(numbers, KVMILL_WORD_MAP), &numbers->map,
                       numbers->operand->ndim, word(numbers, KVMILL_WORD_OPERAND), error);
}

/* ---- Tensors ---- */

kvmill_status kvmill_check_rank(const char *name, const DLTensor *tensor, kvmill_error *error) {
    if (tensor->ndim >= 0 && tensor->ndim <= KVMILL_MOST_RANK)
        return kvmill_check_form(name, tensor, error);
    return kvmill_fail(error, KVMILL_E_SHAPE, "%s has rank %d; accepted: 0 to %d", name,
                       tensor->ndim, (int)KVMILL_MOST_RANK);
}

kvmill_status kvmill_check_stored(const char *name, const kvmill_element_type *element,
                                  const DLTensor *tensor, kvmill_error *error) {
    struct kvmill_element_text words;
    if (kvmill_dtype_equal(element->dtype, tensor->dtype))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_DTYPE,
                       "the element type of %s is %s; accepted: one that is stored as the tensor's "
                       "elements are, as %s",
                       name, kvmill_element_words(element, &words),
                       kvmill_element_word(tensor->dtype));
}

kvmill_status kvmill_check_known(const char *name, const DLTensor *tensor, kvmill_error *error) {
    struct kvmill_shape_text words;
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0)
            return kvmill_fail(
                error, KVMILL_E_SHAPE,
                "%s has shape %s; accepted: known extents, as kernels are made for one "
                "shape (axis %d is not)",
                name, kvmill_shape_words(tensor, &words), d);
    return kvmill_check_dims(name, tensor, 0, error);
}

/* ---- Unfolding ---- */

int kvmill_space_rank(const struct kvmill_numbers *numbers) {
    bool implicit = numbers->index_vector_dim == numbers->indices->ndim;
    return numbers->indices->ndim - !implicit;
}

static void unfold_space(const struct kvmill_numbers *numbers, struct kvmill_windows *windows) {
    int vector = (int)numbers->index_vector_dim, place = 0;
    windows->space_rank = kvmill_space_rank(numbers);
    windows->vector_axis = vector == numbers->indices->ndim ? KVMILL_NOT_THERE : vector;
    windows->components = (int)numbers->map.count;
    for (int j = 0; j < windows->space_rank; j++) {
        windows->index_axis[j] = j < vector ? j : j + 1;
        windows->space[j] = numbers->indices->shape[windows->index_axis[j]];
    }
    windows->windowed_rank = windows->space_rank + (int)numbers->window.count;
    for (int r = 0; r < windows->windowed_rank; r++)
        if (!kvmill_dims_contain(&numbers->window, r))
            windows->space_axis[place++] = r;
}

void kvmill_windows_unfold(const struct kvmill_numbers *numbers, const int64_t *extent,
                           struct kvmill_windows *windows) {
    int next = 0, vector = (int)numbers->index_vector_dim;
    *windows = (struct kvmill_windows){.rank = numbers->operand->ndim};
    unfold_space(numbers, windows);
    for (int d = 0; d < windows->rank; d++) {
        bool is_window = !kvmill_dims_contain(&numbers->dropped, d) &&
                         !kvmill_dims_contain(&numbers->batching, d);
        windows->dim[d] = numbers->operand->shape[d];
        windows->component[d] = windows->batch[d] = windows->axis[d] = KVMILL_NOT_THERE;
        windows->window[d] = 1;
        if (is_window) {
            windows->window[d] = extent ? extent[next] : windows->dim[d];
            windows->axis[d] = (int)numbers->window.items[next++];
        }
    }
    for (int k = 0; k < windows->components; k++)
        windows->component[numbers->map.items[k]] = k;
    for (size_t i = 0; i < numbers->batching.count; i++) {
        int axis = (int)numbers->indices_batching.items[i];
        windows->batch[numbers->batching.items[i]] = axis < vector ? axis : axis - 1;
    }
}
