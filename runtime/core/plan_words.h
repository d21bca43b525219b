/* Text that grows in a buffer, for the descriptions of plans; what does not fit is cut off.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_PLAN_WORDS_H
#define KVMILL_RUNTIME_CORE_PLAN_WORDS_H

#include <stddef.h>

struct words {
    char *at;
    size_t left; /* with the final NUL */
};

__attribute__((format(printf, 2, 3))) void kvmill_words_add(struct words *words, const char *format,
                                                            ...);

/* Count characters that somebody else wrote, or would have written. */
void kvmill_said(struct words *words, size_t length);

#endif
