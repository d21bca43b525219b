/* Checks values of specs and writes the error messages.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "../defs/dtype.h"
#include "spec_keys.h"

bool spec_read_flag(const struct json_place *place, int32_t *flag, struct error *error) {
    bool number = json_is_integer(place->value) &&
                  (json_integer_value(place->value) == 0 || json_integer_value(place->value) == 1);
    if (!number && !json_is_boolean(place->value))
        return json_fail(error, place, "is not a boolean; accepted: true, false, 1, 0");
    *flag = number ? json_integer_value(place->value) != 0 : json_is_true(place->value);
    return true;
}

bool spec_read_real(const struct json_place *place, double *value, struct error *error) {
    if (!json_is_number(place->value))
        return json_fail(error, place, "is not a number; accepted: a number");
    *value = json_number_value(place->value);
    return true;
}

/* ---- Words ---- */

static bool refuse_word(const struct json_place *place, const char *text, const char *const *words,
                        const char *accepted, struct error *error) {
    char suggestion[SUGGESTION_SIZE];
    suggest_word(text, words, suggestion);
    return json_fail(error, place, "is \"%.40s\"; %saccepted: %s", text, suggestion, accepted);
}

static bool refuse_words(const struct json_place *place, const char *text, const char *const *words,
                         struct error *error) {
    char accepted[160] = "";
    for (int i = 0; words[i] != NULL; i++)
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s",
                 i ? ", " : "", words[i]);
    return refuse_word(place, text, words, accepted, error);
}

static const char *find_word(const char *const *words, const char *text) {
    while (*words != NULL && strcmp(*words, text) != 0)
        words++;
    return *words;
}

bool spec_read_word(const struct json_place *place, const char *const *words, const char **word,
                    struct error *error) {
    const char *text;
    if (!json_get_string(place, &text, error))
        return false;
    *word = find_word(words, text);
    return *word != NULL || refuse_words(place, text, words, error);
}

static bool refuse_type(const struct json_place *place, const char *text, struct error *error) {
    const char *names[32] = {NULL};
    for (size_t i = 0; kvmill_dtype_at(i) != NULL && i < 31; i++)
        names[i] = kvmill_dtype_at(i)->name;
    return refuse_word(place, text, names,
                       "the types of TensorScatter-24 by their ONNX or NumPy names", error);
}

bool spec_read_type(const struct json_place *place, const char *const *words, DLDataType *type,
                    struct error *error) {
    const char *text;
    if (!json_get_string(place, &text, error))
        return false;
    const struct kvmill_dtype *known = kvmill_dtype_by_name(text);
    if (words != NULL && (known == NULL || find_word(words, known->name) == NULL))
        return refuse_words(place, text, words, error);
    if (known == NULL)
        return refuse_type(place, text, error);
    *type = known->dl;
    return true;
}

bool spec_read_label(const struct json_place *place, const char *key, bool (*good)(const char *),
                     const char *accepted, char *label, size_t size, struct error *error) {
    const char *text;
    struct json_place member = json_member(place, key);
    if (member.value == NULL)
        return true;
    if (!json_get_string(&member, &text, error))
        return false;
    if (!good(text) || strlen(text) >= size)
        return json_fail(error, &member, "is \"%.48s\"; accepted: at most %zu %s", text, size - 1,
                         accepted);
    strcpy(label, text);
    return true;
}

/* ---- Shapes ---- */

bool spec_set_shape(DLTensor *tensor, const int64_t *dims, int rank, struct error *error) {
    free(tensor->shape);
    tensor->ndim = rank;
    tensor->shape = malloc((size_t)(rank + !rank) * sizeof *tensor->shape);
    if (tensor->shape == NULL)
        return out_of_memory(error);
    if (rank > 0)
        memcpy(tensor->shape, dims, (size_t)rank * sizeof *tensor->shape);
    return true;
}

static bool read_dim(const struct json_place *place, int64_t *dim, struct error *error) {
    const char *text = json_string_value(place->value);
    *dim = KVMILL_DYNAMIC;
    if (text != NULL)
        return strcmp(text, "?") == 0 ||
               json_fail(error, place, "is \"%.40s\"; accepted: a count, or \"?\"", text);
    return json_get_integer(place, 0, INT64_MAX, dim, error);
}

bool spec_read_shape(const struct json_place *place, DLTensor *tensor, struct error *error) {
    if (place->value == NULL)
        return true;
    if (!json_get_array(place, error))
        return false;
    int rank = (int)json_array_size(place->value);
    if (!spec_set_shape(tensor, NULL, 0, error))
        return false;
    int64_t *dims = calloc((size_t)rank + 1, sizeof *dims);
    bool done = dims != NULL || out_of_memory(error);
    for (int d = 0; done && d < rank; d++) {
        struct json_place element = json_element(place, (size_t)d);
        done = read_dim(&element, &dims[d], error);
    }
    done = done && spec_set_shape(tensor, dims, rank, error);
    free(dims);
    return done;
}

json_t *spec_write_shape(const DLTensor *tensor) {
    json_t *dims = json_array();
    for (int d = 0; d < tensor->ndim; d++)
        json_array_append_new(dims, tensor->shape[d] == KVMILL_DYNAMIC
                                        ? json_string("?")
                                        : json_integer(tensor->shape[d]));
    return dims;
}
