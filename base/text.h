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

/* Appends formatted text.  Returns false if out of memory. */
__attribute__((format(printf, 2, 3))) bool text_print(struct text *text, const char *format, ...);
bool text_append(struct text *text, const char *data, size_t length);
void text_free(struct text *text);

/* Appends a whole file.  Returns false, with errno, if it cannot be read or memory runs out. */
bool text_read_file(struct text *text, const char *path);

/* Reads the first line of a file, without its newline, as far as there is room.  Returns false if
   there is none. */
bool text_first_line(const char *path, char *line, size_t size);

/* Returns a stream that appends to the text, or NULL if out of memory.  If memory runs out later,
   the stream has an error; open_memstream of glibc 2.36 does not report that. */
FILE *text_stream(struct text *text);

/* Whether the text is valid UTF-8 without control characters, except those in `allowed`. */
bool text_is_plain(const char *text, const char *allowed);

/* Whether the name ends with `ending`, for example ".json", and has something before it. */
bool name_has_ending(const char *name, const char *ending);

/* Copies the text for a terminal or a page: control characters, except newlines, and bytes that are
   not UTF-8 become \x1b and the like.  Truncates it to `size`. */
void text_show(const char *text, char *shown, size_t size);

/* Writes the text as it is, or by put_shown if the stream is a terminal. */
void text_put(const struct text *text, FILE *stream);

/* Write to a stream that may be a terminal, as text_show does: fputs, and printf of up to 4095
   bytes. */
void put_shown(const char *text, FILE *stream);
__attribute__((format(printf, 2, 3))) void print_shown(FILE *stream, const char *format, ...);

#endif
