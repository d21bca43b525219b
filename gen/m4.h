/* Runs m4: definitions go to its standard input, and the expanded text comes back.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_M4_H
#define KVMILL_GEN_M4_H

#include <stdint.h>

#include "../base/text.h"

enum { MOST_TEMPLATES = 32 };

/* The m4 program that is run. */
const char *m4_program(void);

/* One expansion: the files of templates/ in order; "-" is the place of the definitions. */
struct expansion {
    const char *files[MOST_TEMPLATES + 1]; /* ends with NULL */
    struct text definitions;
};

/* The only functions that write definitions; names get the prefix km_. */
bool define_text(struct expansion *expansion, const char *name, const char *value);
bool define_integer(struct expansion *expansion, const char *name, int64_t value);

/* Expand, and append to result.  Fails if m4 fails, or if a word of the templates is left over.  If
   KVMILL_TRACE is set in the environment, the definitions and the command go to standard error. */
bool expand(const struct expansion *expansion, struct text *result, struct error *error);

#endif
