/* Lists of instruction sets, as a user writes them.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_ISA_LIST_H
#define KVMILL_GEN_ISA_LIST_H

#include "../base/error.h"
#include "../defs/isa.h"

enum { MOST_ISAS = 12 };

struct isa_list {
    const struct isa *items[MOST_ISAS];
    int count;
};

/* All names, joined by `between`; the caller frees the text. */
struct isa_words {
    char text[128];
};
const char *isa_join(const char *between, struct isa_words *words);

/* Names separated by commas; the name of an architecture stands for all of its instruction sets, and
   "native" for this one; a NULL text means "x86_64". */
bool isa_list_parse(const char *text, const char *native, struct isa_list *list,
                    struct error *error);

#endif
