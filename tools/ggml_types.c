/* SPDX-License-Identifier: Apache-2.0 */
#include "ggml_types.h"

#include <stdio.h>
#include <string.h>

/* llama.cpp's names of element types, and kvmill's.  Types of blocks and rows have the same names
   in both. */
static const char *const ggml_words[][2] = {
    {"f32", "float32"}, {"f16", "float16"}, {"bf16", "bfloat16"}};

enum { GGML_WORDS = sizeof ggml_words / sizeof *ggml_words };
_Static_assert(GGML_WORDS + KVMILL_MOST_FORMATS + 1 <= MOST_GGML_WORDS, "they fit");

const struct kvmill_format_parts *ggml_type_find(const char *text, size_t length) {
    char word[16];
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    for (int i = 0; i < GGML_WORDS; i++)
        if (strcmp(word, ggml_words[i][0]) == 0)
            return kvmill_format_parts(
                kvmill_format_of_word(ggml_words[i][1], KVMILL_WITHOUT_SCALES));
    return kvmill_format_parts(kvmill_format_of_word(word, KVMILL_SCALES_INSIDE));
}

void ggml_type_words(const char *words[MOST_GGML_WORDS]) {
    for (int i = 0; i < GGML_WORDS; i++)
        words[i] = ggml_words[i][0];
    kvmill_format_words(KVMILL_SCALES_INSIDE, words + GGML_WORDS);
}

bool ggml_type_refuse(const char *given, struct error *error) {
    const char *words[MOST_GGML_WORDS];
    char accepted[KVMILL_WORDS_SIZE];
    ggml_type_words(words);
    return fail(error, EXIT_USER, "--ggml: \"%.40s\"; accepted: one of %s, or two, as in q8_0,q4_0",
                given, kvmill_list_words(words, "", accepted));
}
