/* Finds the file of --model, which is a path, a directory, or the name of a model that kvmill
   knows.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MODEL_FILE_H
#define KVMILL_TOOLS_MODEL_FILE_H

#include "../base/error.h"

/* The names of the configs that come with kvmill. */
struct model_names {
    char **items; /* ends with NULL */
    int count;
};

/* Reads the names.  They are empty if the directory of configs does not exist.  Free them also
   after a failure. */
bool model_names_read(struct model_names *names, struct error *error);
void model_names_free(struct model_names *names);

/* Returns the path of the model's file, to be freed, or NULL after an error.  A file or directory
   takes precedence over a name. */
char *model_file(const char *given, struct error *error);

#endif
