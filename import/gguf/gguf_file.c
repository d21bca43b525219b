/* SPDX-License-Identifier: Apache-2.0 */
#include "gguf_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../base/input.h"

/* Headers are mostly vocabulary, about ten MiB in real files. */
static const int64_t most_header = (int64_t)256 << 20;

bool gguf_fail(const struct gguf_file *file, int64_t at, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail(file->error, EXIT_USER, "%.400s: byte %" PRId64 ": %s", file->name, at, message);
}

/* Only the headers are read, so the size does not matter. */
static const struct input_kind gguf_input = {.words = "a GGUF model"};

bool gguf_open(const char *name, struct gguf_file *file, struct error *error) {
    memset(file, 0, sizeof *file);
    file->name = name;
    file->error = error;
    file->descriptor = input_open(name, &gguf_input, error);
    if (file->descriptor < 0)
        return false;
    file->size = lseek(file->descriptor, 0, SEEK_END);
    if (file->size >= 0)
        return true;
    gguf_close(file);
    return fail_errno(error, "read", name);
}

void gguf_close(struct gguf_file *file) {
    close(file->descriptor);
}

static bool fail_end(const struct gguf_file *file, const char *what) {
    return gguf_fail(file, file->at,
                     "the file ends in %s, after %" PRId64 " bytes; accepted: whole headers", what,
                     file->size);
}

bool gguf_has_room(const struct gguf_file *file, uint64_t count, int64_t bytes, const char *what) {
    int64_t end;
    if (count > (uint64_t)(file->size - file->at) / (uint64_t)bytes)
        return fail_end(file, what);
    end = file->at + (int64_t)count * bytes;
    return end <= most_header ||
           gguf_fail(file, file->at,
                     "%s would end at byte %" PRId64 "; accepted: headers of %" PRId64 " MiB", what,
                     end, most_header >> 20);
}

static bool hold(struct gguf_file *file, size_t bytes, const char *what) {
    if (file->at >= file->held_at &&
        file->at + (int64_t)bytes <= file->held_at + (int64_t)file->held)
        return true;
    ssize_t got =
        TEMP_FAILURE_RETRY(pread(file->descriptor, file->window, sizeof file->window, file->at));
    if (got < 0)
        return fail_errno(file->error, "read", file->name);
    file->held_at = file->at;
    file->held = (size_t)got;
    return file->held >= bytes || fail_end(file, what);
}

bool gguf_read_bytes(struct gguf_file *file, size_t bytes, const unsigned char **data,
                     const char *what) {
    if (!gguf_has_room(file, bytes, 1, what) || !hold(file, bytes, what))
        return false;
    *data = file->window + (file->at - file->held_at);
    file->at += (int64_t)bytes;
    return true;
}

bool gguf_number(struct gguf_file *file, size_t bytes, uint64_t *value, const char *what) {
    const unsigned char *data;
    if (!gguf_read_bytes(file, bytes, &data, what))
        return false;
    *value = 0;
    while (bytes-- > 0)
        *value = *value << 8 | data[bytes];
    return true;
}

bool gguf_skip(struct gguf_file *file, uint64_t count, int64_t bytes, const char *what) {
    if (!gguf_has_room(file, count, bytes, what))
        return false;
    file->at += (int64_t)count * bytes;
    return true;
}

bool gguf_string(struct gguf_file *file, char *text, size_t size, const char *what) {
    const unsigned char *data;
    uint64_t length = 0;
    text[0] = '\0';
    if (!gguf_number(file, 8, &length, what))
        return false;
    if (length >= size)
        return gguf_skip(file, length, 1, what);
    if (!gguf_read_bytes(file, length, &data, what))
        return false;
    memcpy(text, data, length);
    text[length] = '\0';
    return true;
}
