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

/* What is not printed again as it was is something else. */
bool kvmill_call_size_parse(const char *words, struct kvmill_call_size *size) {
    char kind[8], again[KVMILL_CALL_SIZE_WORDS];
    int64_t count;
    if (sscanf(words, "%7s %9" SCNd64 " on %9" SCNd64, kind, &count, &size->positions) != 3 ||
        count < 1 || size->positions < 1)
        return false;
    bool decodes = strcmp(kind, "decode") == 0;
    size->batch = decodes ? count : 1;
    size->tokens = decodes ? 1 : count;
    kvmill_call_size_print(size, again);
    return strcmp(words, again) == 0;
}
