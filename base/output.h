/* Writes a set of files.  Afterwards a directory contains either all of them, or its old contents.

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

/* Adds an empty file.  Returns NULL if out of memory.  The pointer is valid until the next call. */
struct output_file *output_add(struct output *output, const char *name, struct error *error);

/* Creates the directory unless it exists; `made` tells whether it was created. */
bool output_make_directory(const char *directory, bool *made, struct error *error);

/* Creates a directory and its parents, unless they exist, with permissions for the owner only. */
bool output_make_directories(char *path, struct error *error);

/* Refuses a HOME that is not a directory, because kvmill makes directories below it, but not
   itself. `instead` says what is accepted. */
bool output_check_home(const char *home, const char *instead, struct error *error);

/* Writes all files to a directory.  Each is first written to a temporary file next to its place;
   when all are complete, they are renamed.  Files that already have the same contents are left
   alone; `written` counts the others.  Symbolic links are followed.  A path to anything but a
   regular file is refused. */
bool output_write(const struct output *output, const char *directory, int *written,
                  struct error *error);
void output_free(struct output *output);

/* output_write for one file by its path, in an existing directory.  Takes the text, which is empty
   afterwards. */
bool output_write_file(const char *path, struct text *text, struct error *error);

/* Returns "directory/name", to be freed, or NULL if out of memory. */
char *path_join(const char *directory, const char *name);

#endif
