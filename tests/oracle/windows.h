/* What stablehlo.gather and stablehlo.scatter mean, element by element: the measure of kernels and
   plans.

   Shares nothing with the library but its public types.  All tensors are row-major without gaps,
   the ops valid.  Each op comes in two ways that have to agree: as it is defined, and by the old
   form without batching dims, in which they are index components.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ORACLE_WINDOWS_H
#define KVMILL_TESTS_ORACLE_WINDOWS_H

#include <stdbool.h>

#include <kvmill.h>

enum oracle_form { ORACLE_DEFINITION, ORACLE_OLD_FORM, ORACLE_FORMS };

/* Data of op's prototypes: operand, start_indices, result. */
void oracle_gather(enum oracle_form form, const kvmill_gather *op, const void *operand,
                   const void *start_indices, void *result);

/* One update: all accumulators take all updates; data of results and updates of one element each.
 */
typedef void (*oracle_combine)(void *context, unsigned char *const *accumulators,
                               const unsigned char *const *updates);

/* results hold the inputs, in the result types of `result_bytes` each. */
void oracle_scatter(enum oracle_form form, const kvmill_scatter *op, const void *scatter_indices,
                    const unsigned char *const *updates, unsigned char *const *results,
                    const int64_t *result_bytes, oracle_combine combine, void *context);

#endif
