/* Runs m4: definitions go to its standard input, and the expanded text comes back.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_M4_H
#define KVMILL_GEN_M4_H

#include <stdint.h>

#include "../base/text.h"

enum { MOST_TEMPLATES = 32 };

/* What is run. */
const char *m4_program(void);

/* One expansion: the files of templates/ in order; the definitions stand where "-" does. */
struct expansion {
    const char *files[MOST_TEMPLATES + 1]; /* ends with NULL */
    struct text definitions;
};

/* The only places that write definitions; the names get the prefix km_. */
bool define_text(struct expansion *expansion, const char *name, const char *value);
bool define_integer(struct expansion *expansion, const char *name, int64_t value);

/* Expand into result (appended).  Fails when m4 does, or when a word of the templates is left over.
   With KVMILL_TRACE set in the environment, the definitions and the command go to standard error.
 */
bool expand(const struct expansion *expansion, struct text *result, struct error *error);

#endif
