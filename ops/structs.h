/* Structs of callers that may have been compiled against another version of the library.  All
   handling of struct_size is here.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_STRUCTS_H
#define KVMILL_OPS_STRUCTS_H

#include "../defs/op.h"

/* Copy a caller's struct to `own`, a struct of this library.  What a smaller one lacks has its
   default; a larger one has nothing but zeros after what this library knows, or is refused.  `name`
   is for messages: NAME is NULL, NAME.struct_size is ... */
kvmill_status kvmill_take_struct(const struct op_struct *part, const char *name, const void *given,
                                 void *own, kvmill_error *error);

/* Copy a struct of this library to a caller's, whose struct_size is set: as much as there is room
   for, and zeros after it.  The caller's struct_size stays. */
kvmill_status kvmill_give_struct(const struct op_struct *part, const char *name, const void *own,
                                 void *given, kvmill_error *error);

/* What kvmill_NAME_init does: the defaults to a caller's struct of that size, which is set; nothing
   where that is no struct's size, or `given` is NULL. */
void kvmill_init_struct(const struct op_struct *part, void *given, size_t size);

#endif
