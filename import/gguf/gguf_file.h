/* Reads the bytes of a GGUF file in order.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_IMPORT_GGUF_GGUF_FILE_H
#define KVMILL_IMPORT_GGUF_GGUF_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "../../base/error.h"

enum { GGUF_MOST_READ = 16384 };

struct gguf_file {
    const char *name;
    int descriptor;
    int64_t size;
    int64_t at; /* the next byte */
    int64_t held_at;
    size_t held; /* bytes of the window, from held_at on */
    unsigned char window[GGUF_MOST_READ];
    struct error *error;
};

bool gguf_open(const char *name, struct gguf_file *file, struct error *error);
void gguf_close(struct gguf_file *file);

/* Fails with "file: byte 1234: " and the message, EXIT_USER.  Returns false. */
__attribute__((format(printf, 3, 4))) bool gguf_fail(const struct gguf_file *file, int64_t at,
                                                     const char *format, ...);

/* Checks that `count` items of at least `bytes` each can follow. */
bool gguf_has_room(const struct gguf_file *file, uint64_t count, int64_t bytes, const char *what);

/* Take the next `bytes`, at most GGUF_MOST_READ; read an unsigned little-endian number of 1 to 8
   bytes; skip `count` items of `bytes` each. */
bool gguf_read_bytes(struct gguf_file *file, size_t bytes, const unsigned char **data,
                     const char *what);
bool gguf_number(struct gguf_file *file, size_t bytes, uint64_t *value, const char *what);
bool gguf_skip(struct gguf_file *file, uint64_t count, int64_t bytes, const char *what);

/* Reads a string and terminates it with 0.  A string that does not fit is skipped, and `text` is
   "". */
bool gguf_string(struct gguf_file *file, char *text, size_t size, const char *what);

#endif
