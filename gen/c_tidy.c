/* Folds, flattens, prunes and lays out C text.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "c_text.h"

bool c_text_tidy(struct text *text, size_t from, struct error *error) {
    struct c_text tokens = {0};
    struct text tidy = {0};
    bool done = c_text_scan(text->data + from, &tokens) && c_text_prune_items(&tokens);
    if (done) {
        c_text_fold(&tokens);
        c_text_flatten(&tokens);
        c_text_fold(&tokens);
        done = c_text_prune(&tokens) && c_text_lay_out(&tokens, &tidy);
    }
    free(tokens.tokens);
    if (done) {
        text->length = from;
        done = text_append(text, tidy.data, tidy.length);
    }
    text_free(&tidy);
    return done || out_of_memory(error);
}
