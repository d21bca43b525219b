/* What is refused of a tensor by itself, in a spec, a plan or a run: one wording each.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_REFUSE_H
#define KVMILL_OPS_REFUSE_H

#include <kvmill.h>

/* NAME is NULL; a tensor is required */
kvmill_status kvmill_refuse_null(const char *name, kvmill_error *error);

/* NAME has type TYPE; accepted: ACCEPTED */
kvmill_status kvmill_refuse_type(const char *name, const char *type, const char *accepted,
                                 kvmill_error *error);

/* NAME has type code CODE with BITS bits and LANES lanes; accepted: ACCEPTED */
kvmill_status kvmill_refuse_type_code(const char *name, DLDataType type, const char *accepted,
                                      kvmill_error *error);

/* NAME has shape SHAPE; accepted: DIMS MORE */
kvmill_status kvmill_refuse_shape(const char *name, const DLTensor *tensor, int rank,
                                  const int64_t *dims, const char *more, kvmill_error *error);

/* NAME has rank RANK; accepted: 0 to 64
   the shape of NAME is NULL; it has rank RANK
   Before anything looks at a dim or a stride. */
kvmill_status kvmill_check_readable(const char *name, const DLTensor *tensor, kvmill_error *error);

/* What kvmill_check_readable says, and
   dim D of NAME is DIM; accepted: 0 or more, or dynamic
   NAME has shape SHAPE; accepted: at most COUNT elements
   `least` is 0 in a run, and KVMILL_DYNAMIC where dims may be left open. */
kvmill_status kvmill_check_dims(const char *name, const DLTensor *tensor, int64_t least,
                                kvmill_error *error);

#endif
