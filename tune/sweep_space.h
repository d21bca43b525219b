/* The part of a search space that a stored sweep covered: its candidates' parameters and values.
   Legal points are those with a result.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_SPACE_H
#define KVMILL_TUNE_SWEEP_SPACE_H

#include "ranking.h"
#include "space.h"

struct sweep_space; /* keeps a pointer to the ranking */

/* Opens the space of a ranking.  Returns NULL after an error; EXIT_USER if candidates are not
   "name=value ..." with the same names. */
struct sweep_space *sweep_space_open(const struct ranking *ranking, struct error *error);
void sweep_space_close(struct sweep_space *space); /* NULL is allowed */

const struct space *sweep_space_of(const struct sweep_space *space);

/* Returns the standing of a point, or NULL. */
const struct standing *sweep_space_at(const struct sweep_space *space, const struct point *point);

/* Returns the point of the ranking's item i. */
const struct point *sweep_space_point(const struct sweep_space *space, size_t i);

#endif
