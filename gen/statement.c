/* SPDX-License-Identifier: Apache-2.0 */
#include "statement.h"

#include <stdio.h>
#include <string.h>

const char *statement_read(const char *at, struct statement *statement) {
    statement->count = 0;
    while (*at != '\0' && *at != ';' && statement->count < MOST_STATEMENT_WORDS) {
        size_t length = strcspn(at, " ;");
        snprintf(statement->words[statement->count++], STATEMENT_WORD_SIZE, "%.*s", (int)length,
                 at);
        at += length;
        at += strspn(at, " ");
    }
    at += *at == ';';
    return at + strspn(at, " ");
}

bool statement_call(const struct statement *statement, struct text *steps) {
    bool done = text_print(steps, "km_step(");
    for (int i = 0; done && i < statement->count; i++)
        done = text_print(steps, "%s«%s»", i ? ", " : "", statement->words[i]);
    return done && text_print(steps, ")");
}
