/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_words.h"

#include <stdarg.h>
#include <stdio.h>

void kvmill_said(struct words *words, size_t length) {
    size_t used = length < words->left ? length : words->left - 1;
    words->at += used;
    words->left -= used;
}

void kvmill_words_add(struct words *words, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(words->at, words->left, format, arguments);
    va_end(arguments);
    kvmill_said(words, length < 0 ? 0 : (size_t)length);
}
