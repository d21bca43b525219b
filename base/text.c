/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static bool append_stream(struct text *text, FILE *stream) {
    char block[65536];
    size_t got;
    bool done = true;
    while (done && (got = fread(block, 1, sizeof block, stream)) > 0)
        done = text_append(text, block, got);
    return done && !ferror(stream);
}

bool text_read_file(struct text *text, const char *path) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return false;
    bool done = append_stream(text, stream);
    int reason = errno;
    fclose(stream);
    errno = reason;
    return done;
}

bool text_first_line(const char *path, char *line, size_t size) {
    FILE *stream = fopen(path, "r");
    bool done = stream != NULL && fgets(line, (int)size, stream) != NULL;
    if (stream != NULL)
        fclose(stream);
    if (done)
        line[strcspn(line, "\n")] = '\0';
    return done;
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

static ssize_t append_bytes(void *text, const char *data, size_t length) {
    return text_append(text, data, length) ? (ssize_t)length : 0;
}

FILE *text_stream(struct text *text) {
    return fopencookie(text, "w", (cookie_io_functions_t){.write = append_bytes});
}

/* ---- Control characters, which a terminal would obey ---- */

/* Returns the length of the UTF-8 character in bytes, or 0 if the bytes are not UTF-8. */
static int utf8_length(const unsigned char *at) {
    int length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (at[0] > 0xf4)
        return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

/* Returns the length of the character in bytes, or 0 if it is a control character or not UTF-8. */
static int plain_length(const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    bool is_control = at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
    return is_control ? 0 : utf8_length(at);
}

bool text_is_plain(const char *text, const char *allowed) {
    for (int length; *text != '\0'; text += length)
        if ((length = strchr(allowed, *text) != NULL ? 1 : plain_length(text)) == 0)
            return false;
    return true;
}

bool name_has_ending(const char *name, const char *ending) {
    size_t length = strlen(name), cut = strlen(ending);
    return length > cut && strcmp(name + length - cut, ending) == 0;
}

enum { LONGEST_SHOWN = 4 };

/* Writes one character as it is shown.  Returns the text after it. */
static const char *show_one(const char *text, char shown[LONGEST_SHOWN + 1]) {
    int length = *text == '\n' ? 1 : plain_length(text);
    if (length == 0)
        snprintf(shown, LONGEST_SHOWN + 1, "\\x%02x", (unsigned char)*text);
    else
        snprintf(shown, LONGEST_SHOWN + 1, "%.*s", length, text);
    return text + (length > 0 ? length : 1);
}

void text_show(const char *text, char *shown, size_t size) {
    size_t at = 0;
    while (*text != '\0' && at + LONGEST_SHOWN < size) {
        text = show_one(text, shown + at);
        at += strlen(shown + at);
    }
    shown[at] = '\0';
}

void put_shown(const char *text, FILE *stream) {
    char shown[LONGEST_SHOWN + 1];
    while (*text != '\0') {
        text = show_one(text, shown);
        fputs(shown, stream);
    }
}

void text_put(const struct text *text, FILE *stream) {
    if (text->length > 0 && isatty(fileno(stream)))
        put_shown(text->data, stream);
    else if (text->length > 0)
        fwrite(text->data, 1, text->length, stream);
}

void print_shown(FILE *stream, const char *format, ...) {
    char line[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    put_shown(line, stream);
}

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}
