/* Expands a header as a C preprocessor would, as far as the headers of templates/words need it:
   #include "FILE" of the same folder, #ifndef, #endif, and macros.  All other directives, and
   #include of other folders, are removed.  A file that cannot be read is an error.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_C_MACROS_H
#define KVMILL_GEN_C_MACROS_H

#include "../base/text.h"

enum { MOST_HEADERS = 16, HEADER_NAME = 32 };

/* The headers of an expansion, in the order in which they were first included. */
struct header_list {
    char names[MOST_HEADERS][HEADER_NAME]; /* without ".h" */
    int count;
};

/* Appends the header NAME.h of `folder`.  A line "#from NAME" is before the text of each header, and
   before its continuation after what it includes. */
bool c_macros_expand(const char *folder, const char *name, struct text *text,
                     struct header_list *headers, struct error *error);

#endif
