/* SPDX-License-Identifier: Apache-2.0 */
#include "isa.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct isa isas[] = {
    {.name = "scalar",
     .move_bytes = 8,
     .lanes = 4,
     .registers = 16,
     .stream_bytes = 0,
     .size = {.frame = 560, .batch = 0, .row = 2, .move = 14, .run = 600, .ring = 540, .keep = 977}},
    {.name = "avx2",
     .move_bytes = 32,
     .lanes = 8,
     .registers = 16,
     .stream_bytes = 32,
     .size = {.frame = 555, .batch = 90, .row = 33, .move = 16, .run = 1340, .ring = 490, .keep = 1690}},
    {.name = "avx512",
     .move_bytes = 64,
     .lanes = 16,
     .registers = 32,
     .stream_bytes = 64,
     .size = {.frame = 390, .batch = 190, .row = 44, .move = 13, .run = 1300, .ring = 380, .keep = 1616}},
    {.name = "avx512vnni",
     .move_bytes = 64,
     .lanes = 16,
     .registers = 32,
     .stream_bytes = 64,
     .extends = "avx512"},
    {.name = "avx512fp16",
     .move_bytes = 64,
     .lanes = 16,
     .registers = 32,
     .stream_bytes = 64,
     .extends = "avx512vnni"},
    {.name = "neon",
     .move_bytes = 16,
     .lanes = 4,
     .registers = 32,
     .stream_bytes = 0,
     .size = {.frame = 190, .batch = 0, .row = 58, .move = 8, .run = 500, .ring = 356, .keep = 837}},
};
/* clang-format on */
enum { ISA_COUNT = sizeof isas / sizeof *isas };

static const char default_isas[] = "scalar,avx2,avx512,avx512vnni,avx512fp16";

const struct isa *isa_by_name(const char *name, size_t length) {
    for (int i = 0; i < ISA_COUNT; i++)
        if (strlen(isas[i].name) == length && memcmp(isas[i].name, name, length) == 0)
            return &isas[i];
    return NULL;
}

const struct isa *isa_plain(const struct isa *isa) {
    while (isa->extends != NULL)
        isa = isa_by_name(isa->extends, strlen(isa->extends));
    return isa;
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
