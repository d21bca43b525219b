/* Shapes of tensors, described in words.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "op.h"

const char *kvmill_op_shape_words(const struct op *op, const struct op_tensor *tensor) {
    return op->dynamic && tensor->dynamic_shape ? tensor->dynamic_shape : tensor->shape;
}

static size_t word_length(const char *word) {
    return strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

/* The entry of a word, or the list's end. */
static const struct op_dim *find(const char *word, size_t length, const struct op_dim *words) {
    while (words->word != NULL &&
           (word_length(words->word) != length || memcmp(words->word, word, length) != 0))
        words++;
    return words;
}

static bool value_of(const char *word, size_t length, const struct op_dim *words, int64_t *value) {
    char *end;
    *value = strtoll(word, &end, 10);
    if (end == word + length)
        return true;
    const struct op_dim *found = find(word, length, words);
    *value = found->value;
    return found->word != NULL;
}

/* Terms that `sign` parts: "B*R+1" is a sum of products. */
static bool total_of(const char *text, size_t length, char sign, const struct op_dim *words,
                     int64_t *total) {
    int64_t value;
    for (*total = sign == '*'; length > 0;) {
        const char *end = memchr(text, sign, length);
        size_t part = end ? (size_t)(end - text) : length;
        if (!(sign == '+' ? total_of(text, part, '*', words, &value)
                          : value_of(text, part, words, &value)))
            return false;
        if (*total != KVMILL_DYNAMIC && value != KVMILL_DYNAMIC)
            *total = sign == '+' ? *total + value : *total * value;
        else
            *total = KVMILL_DYNAMIC;
        part += end != NULL;
        text += part;
        length -= part;
    }
    return true;
}

int kvmill_op_shape(const char *shape, int which, const struct op_dim *words,
                    int64_t dims[OP_MOST_RANK]) {
    int rank = 0;
    for (; which > 0 && shape != NULL; which--)
        shape = (shape = strchr(shape, '|')) != NULL ? shape + 1 : NULL;
    if (shape == NULL)
        return -1;
    for (shape += strspn(shape, " "); *shape != '\0' && *shape != '|';
         shape += strspn(shape, " ")) {
        size_t length = strcspn(shape, " |");
        if (rank == OP_MOST_RANK || !total_of(shape, length, '+', words, &dims[rank++]))
            return -1;
        shape += length;
    }
    return rank;
}

/* ---- What arrays tell ---- */

static bool learn_word(const char *word, size_t length, int64_t value, struct op_dim *words) {
    size_t at = (size_t)(find(word, length, words) - words);
    if (words[at].word != NULL && (value == KVMILL_DYNAMIC || words[at].value == value))
        return true;
    if (words[at].word != NULL && words[at].value != KVMILL_DYNAMIC)
        return false;
    words[at] = (struct op_dim){word, value};
    return at + 1 < OP_MOST_WORDS;
}

bool kvmill_op_learn(const char *shape, const DLTensor *tensor, struct op_dim *words) {
    int d = 0;
    for (shape += strspn(shape, " "); *shape != '\0' && *shape != '|';
         shape += strspn(shape, " "), d++) {
        size_t length = strcspn(shape, " |");
        bool is_word = word_length(shape) == length;
        if (tensor != NULL && d == tensor->ndim)
            return false;
        int64_t value = tensor != NULL ? tensor->shape[d] : KVMILL_DYNAMIC;
        if (is_word && !learn_word(shape, length, value, words))
            return false;
        shape += length;
    }
    return tensor == NULL || d == tensor->ndim;
}
