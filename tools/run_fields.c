/* Builds adjacent fields of a flow from separate arrays.

   SPDX-License-Identifier: Apache-2.0 */
#include "run_fields.h"

#include <stdlib.h>
#include <string.h>

static struct npy *field_at(struct arrays *arrays, int i) {
    return &arrays->tensor[KVMILL_FLOW_FIELDS + i];
}

/* Whether the arrays have the shapes of fields.  If not, the library refuses them. */
static bool are_fields(const struct kvmill_flow_problem *problem, struct arrays *arrays) {
    const DLTensor *first = &field_at(arrays, 0)->tensor;
    for (int i = 0; i < problem->field_count; i++) {
        const struct kvmill_flow_field_data *field = &problem->fields[i];
        const DLTensor *tensor = &field_at(arrays, i)->tensor;
        const int64_t dims[] = {first->shape[0], field->heads, field->rows, field->columns};
        if (tensor->ndim != 4 || memcmp(tensor->shape, dims, sizeof dims) != 0)
            return false;
    }
    return true;
}

/* Copies field i to its place in `piece`.  The array becomes a view, and the first field owns the
   memory. */
static bool lay(const struct kvmill_flow_problem *problem, int i, unsigned char *piece,
                struct npy *npy) {
    const struct kvmill_field_place place =
        kvmill_flow_field_place(problem, i, npy->tensor.shape[0]);
    int64_t element = npy->tensor.dtype.bits / 8;
    const int64_t strides[] = {place.block / element, place.head / element, npy->tensor.shape[3],
                               1};
    struct npy view = *npy;
    view.is_view = i > 0;
    view.tensor.data = piece + place.first;
    view.tensor.strides = malloc(sizeof strides);
    if (view.tensor.strides == NULL)
        return false;
    memcpy(view.tensor.strides, strides, sizeof strides);
    npy_copy(npy, &view);
    free(npy->tensor.data);
    free(npy->tensor.strides);
    *npy = view;
    return true;
}

bool fields_lay(const struct kvmill_flow_problem *problem, struct arrays *arrays,
                struct error *error) {
    if (problem->field_layout == KVMILL_FIELDS_APART || problem->field_count == 0 ||
        field_at(arrays, 0)->tensor.ndim < 1 || !are_fields(problem, arrays))
        return true;
    int64_t matrices = field_at(arrays, 0)->tensor.shape[0] * problem->fields[0].heads;
    unsigned char *piece = malloc((size_t)(matrices * problem->record_bytes) + 1);
    bool done = piece != NULL && lay(problem, 0, piece, field_at(arrays, 0));
    if (!done)
        free(piece);
    for (int i = 1; done && i < problem->field_count; i++)
        done = lay(problem, i, piece, field_at(arrays, i));
    return done || out_of_memory(error);
}
