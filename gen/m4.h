/* Driving m4: facts go in as definitions on its standard input, text comes back.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_M4_H
#define KVMILL_GEN_M4_H

#include <stdint.h>

#include "../base/text.h"

enum { MOST_TEMPLATES = 32 };

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

/* Where templates/ and include/ are: $KVMILL_DATADIR, else where they were installed, else the
   source tree. */
const char *data_directory(void);

/* Where what the command loads at run time is: where it was built, or was installed. */
const char *module_directory(void);

/* What compiles and links with the library where it was built; NULL when it is installed:
 * pkg-config knows. */
const char *library_cflags(void);
const char *library_libs(void);

#endif
