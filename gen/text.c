/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_append(struct text *text, const char *data, size_t length) {
    char *grown = realloc(text->data, text->length + length + 1);
    if (grown == NULL)
        return false;
    memcpy(grown + text->length, data, length);
    text->data = grown;
    text->length += length;
    grown[text->length] = '\0';
    return true;
}

bool text_print(struct text *text, const char *format, ...) {
    char *piece;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&piece, format, arguments);
    va_end(arguments);
    if (length < 0)
        return false;
    bool done = text_append(text, piece, (size_t)length);
    free(piece);
    return done;
}

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}
