/* Options that name files of arrays: --in NAME=FILE.npy and --out NAME=FILE.npy.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_NAMED_FILES_H
#define KVMILL_TOOLS_NAMED_FILES_H

#include <stdbool.h>

#include "../base/error.h"

/* The names that an option accepts. */
struct file_names {
    const char *(*name_at)(const void *holder, int place); /* NULL: no name at this place */
    const void *holder;
    int count;
};

/* Returns the place of the name in an option's value, NAME=FILE, or -1 after an error.  The value
   may contain anything. */
int named_file_place(const struct file_names *names, const char *option, const char *value,
                     struct error *error);

/* Returns the file in an option's value. */
const char *named_file_of(const struct file_names *names, int place, const char *value);

/* Checks that there is an output, and that no two outputs go to the same file.  `files` are by
   place. */
bool named_files_check(const struct file_names *outputs, const char *const *files,
                       struct error *error);

#endif
