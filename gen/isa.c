/* SPDX-License-Identifier: Apache-2.0 */
#include "isa.h"

#include <stdio.h>
#include <string.h>

static const struct isa isas[] = {
    {"scalar", 8, 0, {560, 0, 2, 14, 600, 540, 977}},
    {"avx2", 32, 32, {555, 90, 33, 16, 1340, 490, 1690}},
    {"avx512", 64, 64, {390, 190, 44, 13, 1300, 380, 1616}},
    {"neon", 16, 0, {190, 0, 58, 8, 500, 356, 837}},
};
enum { ISA_COUNT = sizeof isas / sizeof *isas };

static const char default_isas[] = "scalar,avx2,avx512";

const struct isa *isa_by_name(const char *name, size_t length) {
    for (int i = 0; i < ISA_COUNT; i++)
        if (strlen(isas[i].name) == length && memcmp(isas[i].name, name, length) == 0)
            return &isas[i];
    return NULL;
}

const char *isa_join(const char *between, struct isa_words *words) {
    size_t at = 0, size = sizeof words->text;
    for (int i = 0; i < ISA_COUNT && at < size; i++)
        at += (size_t)snprintf(words->text + at, size - at, "%s%s", i ? between : "", isas[i].name);
    return words->text;
}

static bool refuse_isa(const char *word, size_t length, struct error *error) {
    struct isa_words words;
    return fail(error, EXIT_USER, "--isa: \"%.*s\" is unknown; accepted: %s",
                (int)(length < 40 ? length : 40), word, isa_join(", ", &words));
}

static bool is_listed(const struct isa_list *list, const struct isa *isa) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i] == isa)
            return true;
    return false;
}

bool isa_list_parse(const char *text, struct isa_list *list, struct error *error) {
    list->count = 0;
    for (const char *word = text ? text : default_isas;; word++) {
        size_t length = strcspn(word, ",");
        const struct isa *isa = isa_by_name(word, length);
        if (isa == NULL)
            return refuse_isa(word, length, error);
        if (!is_listed(list, isa))
            list->items[list->count++] = isa;
        word += length;
        if (*word == '\0')
            return true;
    }
}
