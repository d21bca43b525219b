/* The part of a search space that a stored sweep covered: the parameters and values of its
   candidates; the legal points are those that have a result.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_SPACE_H
#define KVMILL_TUNE_SWEEP_SPACE_H

#include "ranking.h"
#include "space.h"

struct sweep_space; /* holds the ranking it was made from, not a copy */

/* EXIT_USER where candidates are not "name=value ..." of the same names.  NULL after an error. */
struct sweep_space *sweep_space_open(const struct ranking *ranking, struct error *error);
void sweep_space_close(struct sweep_space *space); /* NULL is allowed */

const struct space *sweep_space_of(const struct sweep_space *space);

/* The standing of a point, or NULL where there is none. */
const struct standing *sweep_space_at(const struct sweep_space *space, const struct point *point);

/* The point of item i of the ranking. */
const struct point *sweep_space_point(const struct sweep_space *space, size_t i);

#endif
