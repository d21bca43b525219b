/* Times each word of templates/words alone.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_BENCH_WORDS_H
#define KVMILL_TOOLS_BENCH_WORDS_H

#include "../base/json.h"
#include "options.h"

/* Prints a line for each word of each instruction set of --isa that this CPU runs, by default all.
   Sets `json`, to be released, to the same. */
bool bench_words(const struct options *given, json_t **json, struct error *error);

#endif
