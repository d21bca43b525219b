/* Structs of callers that may have been compiled against another version of the library.  All
   handling of struct_size is here.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_STRUCTS_H
#define KVMILL_OPS_STRUCTS_H

#include "../defs/op.h"

/* Copy a caller's struct to `own`, a struct of this library.  Members that a smaller struct lacks
   get their defaults.  In a larger struct, everything after what this library knows must be 0;
   otherwise it is refused.  `name` is for messages: NAME is NULL, NAME.struct_size is ... */
kvmill_status kvmill_take_struct(const struct op_struct *part, const char *name, const void *given,
                                 void *own, kvmill_error *error);

/* Copy a struct of this library to a caller's, whose struct_size is set: as much as fits, and zeros
   after it.  The caller's struct_size does not change. */
kvmill_status kvmill_give_struct(const struct op_struct *part, const char *name, const void *own,
                                 void *given, kvmill_error *error);

/* The work of kvmill_NAME_init: set a caller's struct of this size to the defaults.  Does nothing
   if no struct has the size, or if `given` is NULL. */
void kvmill_init_struct(const struct op_struct *part, void *given, size_t size);

#endif
