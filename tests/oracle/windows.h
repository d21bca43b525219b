/* What stablehlo.gather, stablehlo.scatter and TensorScatter mean, element by element: the measure
   of kernels and plans.

   Shares nothing with the library but its public types.  All tensors of gather and scatter are
   row-major without gaps, the ops valid.  Each of the two comes in two ways that have to agree: as
   it is defined, and by the old form without batching dims, in which they are index components.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_WINDOWS_H
#define KVMILL_TESTS_ORACLE_WINDOWS_H

#include <stdbool.h>

#include <kvmill.h>

/* Dimension numbers and shapes of either op: `window` are the axes of the result or the updates
   that windows have, `dropped` those of the operand that they lack; pairs of batching axes; `map`,
   the operand's axes that components of index vectors are for; ivd, the axis of these vectors. */
enum { MOST_AXES = 8 };
struct geometry {
    int rank, indices_rank, windowed_rank;
    int64_t dims[MOST_AXES], slice[MOST_AXES], indices_dims[MOST_AXES], windowed_dims[MOST_AXES];
    int64_t window[MOST_AXES], dropped[MOST_AXES], batching[MOST_AXES];
    int64_t indices_batching[MOST_AXES], map[MOST_AXES];
    int windows, droppeds, pairs, components, ivd;
};

enum oracle_form { ORACLE_DEFINITION, ORACLE_OLD_FORM, ORACLE_FORMS };

/* Data of op's prototypes: operand, start_indices, result.  Types and the mode are the op's. */
void oracle_gather(enum oracle_form form, const struct geometry *g, const kvmill_gather *op,
                   const void *operand, const void *start_indices, void *result);

/* One update: all accumulators take all updates; data of results and updates of one element each.
 */
typedef void (*oracle_combine)(void *context, unsigned char *const *accumulators,
                               const unsigned char *const *updates);

/* results hold the inputs, in the result types of `result_bytes` each. */
void oracle_scatter(enum oracle_form form, const struct geometry *g, const kvmill_scatter *op,
                    const void *scatter_indices, const unsigned char *const *updates,
                    unsigned char *const *results, const int64_t *result_bytes,
                    oracle_combine combine, void *context);

/* ---- TensorScatter ---- */

/* present = past with update written along axis (not negative), from write_indices[b] on; the
   problem must be valid.  write_indices NULL = all zero.  In place where past and present have the
   same address.  The unused half of the last byte of a 4-bit present becomes 0, but in place it
   keeps its value. */
void oracle_tensor_scatter(int axis, bool circular, const DLTensor *past, const DLTensor *update,
                           const DLTensor *write_indices, const DLTensor *present);

/* ---- What scatters combine with ---- */

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

/* Bytes of an element. */
int64_t oracle_element_bytes(DLDataType type);

#endif
