/* Checks the regions of a scatter, and prepares them to run.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_REGION_H
#define KVMILL_OPS_REGION_H

#include "scalar.h"

enum {
    KVMILL_MOST_INPUTS = 16, /* of a scatter */
    KVMILL_MOST_REGION_OPS = 64,
    KVMILL_MOST_CAPTURES = 16,
    KVMILL_MOST_REGION_VALUES = 2 * KVMILL_MOST_INPUTS + KVMILL_MOST_REGION_OPS
};

/* A region as a program over values: arguments first, then one value for each op.  Calls point into
   the struct, so it must stay in place. */
struct kvmill_program {
    int arguments, ops, results, captures;
    kvmill_element_type type[KVMILL_MOST_REGION_VALUES];
    struct kvmill_scalar_call call[KVMILL_MOST_REGION_OPS]; /* op NULL: not a step */
    int32_t operand[KVMILL_MOST_REGION_OPS][3];
    uint64_t constant[KVMILL_MOST_REGION_OPS][2]; /* for a capture: its number */
    bool is_capture[KVMILL_MOST_REGION_OPS];
    int32_t result[KVMILL_MOST_INPUTS];
};

/* count: inputs of the scatter.  false: the region is invalid, and `accepted` says why. */
kvmill_status kvmill_program_make(const kvmill_region *region, size_t count,
                                  struct kvmill_program *program, kvmill_error *error);

/* Make the region for the combiner `name` ("add", "replace", ...) on elements of these types. */
kvmill_status kvmill_program_named(const char *name, const kvmill_element_type *elements,
                                   size_t count, struct kvmill_program *program,
                                   kvmill_error *error);

/* "replace", "add", ..., in the order of enum kvmill_combiner; ends with NULL. */
extern const char *const kvmill_combiner_words[];

/* One of enum kvmill_combiner; 0 if no combiner has this word. */
int kvmill_combiner_by_word(const char *word);

/* Whether the name is one of these words other than "replace", so an op of regions. */
bool kvmill_is_combiner(const char *name);

/* Whether every result is its update. */
bool kvmill_program_replaces(const struct kvmill_program *program);

/* The type of the i-th capture. */
kvmill_element_type kvmill_program_capture(const struct kvmill_program *program, int capture);

/* Fill in values that do not depend on arguments: constants, and captures. */
void kvmill_program_begin(const struct kvmill_program *program,
                          const struct kvmill_scalar *captures, struct kvmill_scalar *values);

/* Run all steps; values[0 ... arguments) are set. */
void kvmill_program_run(const struct kvmill_program *program, struct kvmill_scalar *values);

#endif
