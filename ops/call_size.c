/* SPDX-License-Identifier: Apache-2.0 */
#include "call_size.h"

#include <inttypes.h>
#include <stdio.h>

void kvmill_call_size_print(const struct kvmill_call_size *size,
                            char words[KVMILL_CALL_SIZE_WORDS]) {
    bool decodes = size->tokens == 1;
    snprintf(words, KVMILL_CALL_SIZE_WORDS, "%s %" PRId64 " on %" PRId64,
             decodes ? "decode" : "prefill", decodes ? size->batch : size->tokens, size->positions);
}

static bool take_word(const char **at, const char *word) {
    size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

/* From 1 on, of at most nine digits. */
static bool take_count(const char **at, int64_t *count) {
    const char *first = *at;
    for (*count = 0; **at >= '0' && **at <= '9' && *at < first + 9; ++*at)
        *count = *count * 10 + (**at - '0');
    return *first != '0' && *at > first;
}

bool kvmill_call_size_parse(const char *words, struct kvmill_call_size *size) {
    *size = (struct kvmill_call_size){1, 1, 1};
    bool decodes = take_word(&words, "decode ");
    if (!decodes && !take_word(&words, "prefill "))
        return false;
    return take_count(&words, decodes ? &size->batch : &size->tokens) &&
           take_word(&words, " on ") && take_count(&words, &size->positions) && *words == '\0' &&
           (decodes || size->tokens > 1);
}
