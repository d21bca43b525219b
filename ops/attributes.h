/* What is legal of an op's attributes by their description alone.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_ATTRIBUTES_H
#define KVMILL_OPS_ATTRIBUTES_H

#include "../defs/op.h"

/* Ranges, words and versions of the members of one of the op's structs. */
kvmill_status kvmill_check_attributes(const struct op *op, const struct op_struct *part,
                                      const void *base, kvmill_error *error);

/* The same of the first struct of op `number` of a family. */
kvmill_status kvmill_check_members(enum op_family family, int number, const void *base,
                                   kvmill_error *error);

/* The lists of axes in it: of no more items than any tensor has axes, and not NULL, except the one
   called `open`, whose items may be unknown; or NULL. */
kvmill_status kvmill_check_axis_lists(enum op_family family, const void *base, const char *open,
                                 kvmill_error *error);

#endif
