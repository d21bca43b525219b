/* What stablehlo.gather, stablehlo.scatter and TensorScatter mean, element by element.  Kernels and
   plans are judged by it.

   Shares nothing with the library except its public types.  All tensors of gather and scatter are
   row-major without gaps, and the ops are valid.  Gather and scatter are computed in two forms that
   must agree: the definition, and the old form without batching dims, where these are index
   components.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_ORACLE_WINDOWS_H
#define KVMILL_TESTS_ORACLE_ORACLE_WINDOWS_H

#include <stdbool.h>

#include <kvmill.h>

/* Dimension numbers and shapes of either op.  `window`: the axes of windows in the result or the
   updates; `dropped`: the operand's axes that windows lack; pairs of batching axes; `map`: the
   operand's axis of each component of index vectors; `ivd`: the axis of these vectors. */
enum { MOST_AXES = 8 };
struct geometry {
    int rank, indices_rank, windowed_rank;
    int64_t dims[MOST_AXES], slice[MOST_AXES], indices_dims[MOST_AXES], windowed_dims[MOST_AXES];
    int64_t window[MOST_AXES], dropped[MOST_AXES], batching[MOST_AXES];
    int64_t indices_batching[MOST_AXES], map[MOST_AXES];
    int windows, droppeds, pairs, components, ivd;
};

enum oracle_form { ORACLE_DEFINITION, ORACLE_OLD_FORM, ORACLE_FORMS };

/* Gathers; tensors have the types and shapes of op's prototypes, and op has the mode. */
void oracle_gather(enum oracle_form form, const struct geometry *g, const kvmill_gather *op,
                   const void *operand, const void *start_indices, void *result);

/* Applies one update to all accumulators; each pointer is to one element of a result or an
   update. */
typedef void (*oracle_combine)(void *context, unsigned char *const *accumulators,
                               const unsigned char *const *updates);

/* Scatters into `results`, which begin as the inputs; their elements have `result_bytes` each. */
void oracle_scatter(enum oracle_form form, const struct geometry *g, const kvmill_scatter *op,
                    const void *scatter_indices, const unsigned char *const *updates,
                    unsigned char *const *results, const int64_t *result_bytes,
                    oracle_combine combine, void *context);

/* ---- TensorScatter ---- */

/* Sets present to past with update written along axis (not negative), from write_indices[b] on.
   The problem must be valid.  write_indices NULL: all zero.  In place if past and present have the
   same address.  The unused half of the last byte of a 4-bit present becomes 0, except in place,
   where it keeps its value. */
void oracle_tensor_scatter(int axis, bool circular, const DLTensor *past, const DLTensor *update,
                           const DLTensor *write_indices, const DLTensor *present);

/* ---- Combiners of scatters ---- */

enum operation { REPLACE, ADD, SUBTRACT, MULTIPLY, MINIMUM, MAXIMUM, AND, OR, XOR, OPERATIONS };

extern const char *const operation_names[OPERATIONS];

struct combiner {
    DLDataType type;
    enum operation operation;
};

/* An oracle_combine of one input; context is a struct combiner.  Integers wrap, floats are rounded
   once, an extreme of NaN is NaN, and -0 is below 0. */
void oracle_combine_elements(void *context, unsigned char *const *accumulators,
                             const unsigned char *const *updates);

/* Returns the bytes of an element. */
int64_t oracle_element_bytes(DLDataType type);

#endif
