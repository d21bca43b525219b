/* Says on standard error whether kvmill is in use.

   `kvmill llama` writes the number of the process that it becomes to KVMILL_LAUNCHED: there, and
   with KVMILL_VERBOSE, a line says that a ggml uses kvmill, or at the end why kvmill had nothing to
   do.  Reasons why a ggml cannot use it are always printed.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_NOTICE_H
#define KVMILL_GGML_NOTICE_H

#include <stdbool.h>

/* What becomes of a node.  Small ones are left to ggml, which is faster there. */
enum verdict { HAS_NO_KERNELS, IS_SMALL, IS_TAKEN };

/* Prints "kvmill: not in use: " and the reason.  Returns false. */
__attribute__((format(printf, 1, 2))) bool notice_refusal(const char *format, ...);

/* Whether KVMILL_VERBOSE is set. */
bool notice_is_verbose(void);

/* A ggml uses kvmill from now on. */
void notice_use(int api_version, const char *library);

/* ggml has offered an attention node. */
void notice_attention(enum verdict verdict);

#endif
