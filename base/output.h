/* Writes a set of files.  Afterwards a directory contains either all of them, or what it contained
   before.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BASE_OUTPUT_H
#define KVMILL_BASE_OUTPUT_H

#include "text.h"

struct output_file {
    char *name;
    struct text text;
};

struct output {
    struct output_file *files;
    size_t count;
};

/* A new empty file; NULL when out of memory.  The pointer is good until the next call. */
struct output_file *output_add(struct output *output, const char *name, struct error *error);

/* Make the directory unless it is there; `made` tells. */
bool output_make_directory(const char *directory, bool *made, struct error *error);

/* Make it, and those above it, for its owner alone, unless they are there. */
bool output_make_directories(char *path, struct error *error);

/* Write all files into a directory: each into a temporary beside its place first, then, when all
   are there, renamed; files that are equal already keep their time.  `written` counts the others.
   Symbolic links are followed; a place that holds anything else than a regular file is
   refused. */
bool output_write(const struct output *output, const char *directory, int *written,
                  struct error *error);
void output_free(struct output *output);

/* The same for one file by its path, in a directory that is there.  The text moves into it: it is
   empty afterwards. */
bool output_write_file(const char *path, struct text *text, struct error *error);

/* "directory/name", to be freed; NULL when out of memory. */
char *path_join(const char *directory, const char *name);

#endif
