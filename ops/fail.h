/* Reports a failure: a status, and a message in the caller's buffer.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_FAIL_H
#define KVMILL_OPS_FAIL_H

#include <stdbool.h>

#include <kvmill.h>

/* Write the message into error (which may be NULL) and return status. */
__attribute__((format(printf, 3, 4))) kvmill_status kvmill_fail(kvmill_error *error,
                                                                kvmill_status status,
                                                                const char *format, ...);

/* Clear the message and return KVMILL_OK. */
kvmill_status kvmill_succeed(kvmill_error *error);

/* Whether a failure is not the caller's fault: out of memory, or an instruction set that KVMILL_ISA
 * names. */
static inline bool kvmill_is_of_system(kvmill_status status) {
    return status == KVMILL_E_MEMORY || status == KVMILL_E_ISA;
}

/* A shape in words, "[2, 8, ?, 128]"; the returned text lives in `text`. */
struct kvmill_shape_text {
    char text[128];
};
const char *kvmill_shape_words(const DLTensor *tensor, struct kvmill_shape_text *words);

#endif
