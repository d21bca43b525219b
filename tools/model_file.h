/* Which file --model means: a path, a directory, or the name of a model that kvmill knows.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_MODEL_FILE_H
#define KVMILL_TOOLS_MODEL_FILE_H

#include "../base/error.h"

/* Configs that come with kvmill, by name. */
struct model_names {
    char **items; /* ends with NULL */
    int count;
};

/* Without any where there is no such directory.  Free the names also after a failure. */
bool model_names_read(struct model_names *names, struct error *error);
void model_names_free(struct model_names *names);

/* A file that is there goes before a name.  NULL after an error; to be freed. */
char *model_file(const char *given, struct error *error);

#endif
