/* The search space of a kernel: its variants and their tunables as parameters of points.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_TUNE_SPACE_H
#define KVMILL_TOOLS_TUNE_SPACE_H

#include "../gen/variants.h"
#include "../tune/space.h"

struct tune_space; /* the first parameter is "variant"; the default is the kernel itself */

/* `kernel` without a tuning.  NULL after an error; EXIT_USER where its family leaves nothing open.
 */
struct tune_space *tune_space_open(const struct kernel *kernel, const struct isa_list *isas,
                                   struct error *error);
void tune_space_close(struct tune_space *space); /* NULL is allowed */

const struct space *tune_space_of(const struct tune_space *space);

/* The kernel that a legal point stands for. */
struct kernel tune_space_kernel(const struct tune_space *space, const struct point *point);

/* The kernel that a candidate's text stands for, if it is a legal one. */
bool tune_space_parse(const struct tune_space *space, const char *candidate, struct kernel *kernel,
                      struct error *error);

#endif
