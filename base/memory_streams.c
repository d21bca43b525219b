/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_streams.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

bool memory_streams_open(int streams[STANDARD_STREAMS], const char *doing, const char *what,
                         struct error *error) {
    bool done = true;
    for (int i = 0; i < STANDARD_STREAMS; i++) {
        streams[i] = memfd_create("kvmill", MFD_CLOEXEC);
        done = done && streams[i] >= 0;
    }
    return done || fail_errno(error, doing, what);
}

void memory_streams_close(const int streams[STANDARD_STREAMS]) {
    for (int i = 0; i < STANDARD_STREAMS; i++)
        if (streams[i] >= 0)
            close(streams[i]);
}

bool memory_stream_write(int stream, const struct text *text, const char *doing, const char *what,
                         struct error *error) {
    for (size_t at = 0; at < text->length;) {
        ssize_t written = TEMP_FAILURE_RETRY(write(stream, text->data + at, text->length - at));
        if (written < 0)
            return fail_errno(error, doing, what);
        at += (size_t)written;
    }
    return lseek(stream, 0, SEEK_SET) == 0 || fail_errno(error, doing, what);
}

bool memory_stream_read(int stream, struct text *text, const char *doing, const char *what,
                        struct error *error) {
    char block[65536];
    ssize_t got;
    off_t at = 0;
    while ((got = TEMP_FAILURE_RETRY(pread(stream, block, sizeof block, at))) > 0) {
        if (!text_append(text, block, (size_t)got))
            return out_of_memory(error);
        at += got;
    }
    return got == 0 || fail_errno(error, doing, what);
}
