/* Refusals of a single tensor in a spec, a plan or a run, each with one wording.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_REFUSE_H
#define KVMILL_OPS_REFUSE_H

#include <kvmill.h>

/* NAME is NULL; a tensor is required */
kvmill_status kvmill_refuse_null(const char *name, kvmill_error *error);

/* NAME has type TYPE; accepted: ACCEPTED
   word: its name, or NULL for that of the table of types.  A type without a name is told as by the
   next function. */
kvmill_status kvmill_refuse_type(const char *name, DLDataType type, const char *word,
                                 const char *accepted, kvmill_error *error);

/* NAME has type code CODE with BITS bits and LANES lanes; accepted: ACCEPTED */
kvmill_status kvmill_refuse_type_code(const char *name, DLDataType type, const char *accepted,
                                      kvmill_error *error);

/* "float16"; for a type without a name "type code 7 with 3 bits and 1 lanes", or "not set"; the
   text may live in `words`. */
struct kvmill_type_text {
    char text[64];
};
const char *kvmill_type_words(DLDataType type, struct kvmill_type_text *words);

/* NAME has shape SHAPE; accepted: DIMS MORE */
kvmill_status kvmill_refuse_shape(const char *name, const DLTensor *tensor, int rank,
                                  const int64_t *dims, const char *more, kvmill_error *error);

/* Accepted numbers; last INT64_MAX: there is no end; last less than first: none are accepted. */
struct kvmill_range {
    int64_t first, last;
};

/* NAME INDEX is VALUE; accepted: FIRST to LAST
   or "accepted: FIRST", "accepted: FIRST or more", "accepted: none".  INDEX says which element, as
   "[3]", or is "". */
kvmill_status kvmill_refuse_number(kvmill_status status, const char *name, const char *index,
                                   int64_t value, struct kvmill_range accepted,
                                   kvmill_error *error);

/* The same for element i of a tensor. */
kvmill_status kvmill_refuse_element(kvmill_status status, const char *name, int64_t i,
                                    int64_t value, struct kvmill_range accepted,
                                    kvmill_error *error);

/* The status of an index that is not accepted. */
static inline kvmill_status kvmill_index_status(int64_t value) {
    return value < 0 ? KVMILL_E_INDEX_NEGATIVE : KVMILL_E_INDEX_RANGE;
}

/* Check what later checks of dims need: a valid rank, and a shape. */
kvmill_status kvmill_check_form(const char *name, const DLTensor *tensor, kvmill_error *error);

/* dim D of NAME is DIM; accepted: 0 or more, or dynamic
   NAME has shape SHAPE; accepted: at most COUNT elements
   after kvmill_check_form.  `least` is 0 in a run, and KVMILL_DYNAMIC where dims may be left open.
 */
kvmill_status kvmill_check_dims(const char *name, const DLTensor *tensor, int64_t least,
                                kvmill_error *error);

#endif
