/* Arrays in files: --in NAME=FILE.npy and --out NAME=FILE.npy.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_NAMED_FILES_H
#define KVMILL_TOOLS_NAMED_FILES_H

#include <stdbool.h>

#include "../base/error.h"

/* The names that an option takes. */
struct file_names {
    const char *(*name_at)(const void *holder, int place); /* NULL: nothing is taken there */
    const void *holder;
    int count;
};

/* The place that an option's value names, which may contain what it likes; -1 on errors. */
int named_file_place(const struct file_names *names, const char *option, const char *value,
                     struct error *error);

/* The file that such a value names. */
const char *named_file_of(const struct file_names *names, int place, const char *value);

/* Something is written, and nothing over another; files[] are by place. */
bool named_files_check(const struct file_names *outputs, const char *const *files,
                       struct error *error);

#endif
