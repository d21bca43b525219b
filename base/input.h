/* Opens and reads files that users name.  Refuses what cannot be one, what is larger than its
   reader accepts, and a FIFO that nobody writes to: no reader reads, or waits, without end.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_INPUT_H
#define KVMILL_BASE_INPUT_H

#include <stdint.h>

#include "text.h"

/* A kind of file. */
struct input_kind {
    const char *words; /* for messages: "an ONNX model" */
    int64_t most;      /* bytes, a multiple of a MiB; 0: no limit, for readers that stop early */
    bool streams;      /* pipes, terminals and the like are accepted, too */

    /* Refuses a whole file by its first bytes, before its size counts; or NULL. */
    bool (*refuse)(const char *path, const struct text *begin, struct error *error);
};

enum { INPUT_BEGIN = 16 }; /* `begin` has so many bytes, or the whole file */

/* Opens a file.  Returns its descriptor, or -1 after an error: EXIT_USER, unless the machine is the
   cause.  A stream may still have more bytes than are accepted. */
int input_open(const char *path, const struct input_kind *kind, struct error *error);

/* input_open for libraries that open a file themselves, by its path. */
bool input_check(const char *path, const struct input_kind *kind, struct error *error);

/* input_open with a stream; NULL after an error. */
FILE *input_stream(const char *path, const struct input_kind *kind, struct error *error);

/* Reads a whole file into a text that is empty.  The kind has a limit. */
bool input_read(const char *path, const struct input_kind *kind, struct text *text,
                struct error *error);

#endif
