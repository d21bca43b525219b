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

/* Add an empty file; NULL if out of memory.  The pointer is valid until the next call. */
struct output_file *output_add(struct output *output, const char *name, struct error *error);

/* Create the directory unless it exists; `made` says whether it was created. */
bool output_make_directory(const char *directory, bool *made, struct error *error);

/* Create a directory and those above it for its owner only, unless they exist. */
bool output_make_directories(char *path, struct error *error);

/* Write all files to a directory.  Each is first written to a temporary file next to its place;
   when all are complete, they are renamed.  Files that are equal already keep their times;
   `written` counts the others.  Symbolic links are followed.  A place that holds anything but a
   regular file is refused. */
bool output_write(const struct output *output, const char *directory, int *written,
                  struct error *error);
void output_free(struct output *output);

/* The same for one file by its path, in an existing directory.  The text moves into it, and is
 * empty afterwards. */
bool output_write_file(const char *path, struct text *text, struct error *error);

/* "directory/name", to be freed; NULL if out of memory. */
char *path_join(const char *directory, const char *name);

#endif
