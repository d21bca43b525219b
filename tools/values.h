/* The values of options and arguments (words, files, directories), for completion in shells.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_VALUES_H
#define KVMILL_TOOLS_VALUES_H

#include <stdio.h>

#include "../base/error.h"

enum places { NO_PLACES, DIRECTORIES, FILES };

struct values {
    const char *name; /* part of the names of shell functions */
    enum places places;
    const char *const *words; /* ends with NULL; or NULL */
    /* Prints words of other tables, each with a space after it; or NULL. */
    bool (*print)(FILE *stream, struct error *error);
};

extern const struct values file_values, directory_values, model_values, isa_values, cache_values,
    activation_values, ggml_values, math_values, specialise_values, layout_values, strategy_values,
    progress_values, step_values, bounds_values, action_values, shell_values;

/* Prints all words, each with a space after it. */
bool values_print(const struct values *values, FILE *stream, struct error *error);

/* Fails if an option's word is not in the list.  NULL, an option that was not given, is
   accepted. */
bool values_have(const struct values *values, const char *option, const char *word,
                 struct error *error);

#endif
