/* A string that grows as text is added.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_TEXT_H
#define KVMILL_BASE_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "error.h"

struct text {
    char *data; /* ends with NUL; NULL while empty */
    size_t length;
};

/* false: out of memory. */
__attribute__((format(printf, 2, 3))) bool text_print(struct text *text, const char *format, ...);
bool text_append(struct text *text, const char *data, size_t length);
void text_free(struct text *text);

/* A stream whose bytes are appended to the text; NULL: out of memory.  It has an error where memory
   did not last, which open_memstream of glibc 2.36 does not tell. */
FILE *text_stream(struct text *text);

/* Whether it holds neither control characters, except those in `allowed`, nor what is no UTF-8. */
bool text_is_plain(const char *text, const char *allowed);

/* Whether something comes before an ending, ".json" say. */
bool name_has_ending(const char *name, const char *ending);

/* As it may go to a terminal or a page: what is not plain, except newlines, as \x1b.  Cut where it
   would not fit. */
void text_show(const char *text, char *shown, size_t size);

/* What other programs read: all bytes as they are, except to a terminal. */
void text_put(const struct text *text, FILE *stream);

/* To a stream that may be a terminal: fputs, and printf of up to 4095 bytes, shown so. */
void put_shown(const char *text, FILE *stream);
__attribute__((format(printf, 2, 3))) void print_shown(FILE *stream, const char *format, ...);

#endif
