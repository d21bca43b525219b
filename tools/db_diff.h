/* The output of `kvmill db diff`: winners of two databases, side by side.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_DB_DIFF_H
#define KVMILL_TOOLS_DB_DIFF_H

#include "../tune/sweep.h"

/* Prints to standard output a line for each work that either database has. */
bool db_print_differences(const struct sweeps *a, const struct sweeps *b, struct error *error);

#endif
