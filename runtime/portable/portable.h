/* Kernels for every shape of WRITE_ROWS, READ_ROWS, ATTEND, GATHER, SCORE_PAGES, SELECT_PAGES and
   FLOW_PROGRAM: they run if no pack has a kernel that fits.  They have no shape of their own, and
   use that of their problem.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_PORTABLE_PORTABLE_H
#define KVMILL_RUNTIME_PORTABLE_PORTABLE_H

#include <kvmill_kernel.h>

extern const struct kvmill_kernel kvmill_portable_write_rows;
extern const struct kvmill_kernel kvmill_portable_read_rows;
extern const struct kvmill_kernel kvmill_portable_attend;
extern const struct kvmill_kernel kvmill_portable_gather;
extern const struct kvmill_kernel kvmill_portable_score_pages;
extern const struct kvmill_kernel kvmill_portable_select_pages;
extern const struct kvmill_kernel kvmill_portable_flow_program;

/* The most query rows that a call of kvmill_portable_attend takes. */
enum { KVMILL_PORTABLE_ATTEND_ROWS = 64 };

/* The bytes of workspace that it needs, a multiple of 64; the shape's rows and workspace are
 * ignored. */
int64_t kvmill_portable_attend_workspace(const struct kvmill_attend_shape *shape);

#endif
