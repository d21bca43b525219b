/* Files in memory that another program uses as its standard streams.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_MEMORY_STREAMS_H
#define KVMILL_BASE_MEMORY_STREAMS_H

#include "process.h"
#include "text.h"

/* `doing` and `what` are arguments for fail_errno, here and below.  Close the streams even after a
   failure. */
bool memory_streams_open(int streams[STANDARD_STREAMS], const char *doing, const char *what,
                         struct error *error);
void memory_streams_close(const int streams[STANDARD_STREAMS]);

/* Writes the whole text; a reader of the stream starts at its first byte. */
bool memory_stream_write(int stream, const struct text *text, const char *doing, const char *what,
                         struct error *error);

/* Appends everything that a program wrote to the stream. */
bool memory_stream_read(int stream, struct text *text, const char *doing, const char *what,
                        struct error *error);

#endif
