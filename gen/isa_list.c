/* SPDX-License-Identifier: Apache-2.0 */
#include "isa_list.h"

#include <stdio.h>
#include <string.h>

const char *isa_join(const char *between, struct isa_words *words) {
    size_t at = 0, size = sizeof words->text;
    for (const struct isa *isa = kvmill_isas; isa->name != NULL && at < size; isa++)
        at += (size_t)snprintf(words->text + at, size - at, "%s%s", at ? between : "", isa->name);
    return words->text;
}

static bool refuse_isa(const char *word, size_t length, struct error *error) {
    struct isa_words words;
    return fail(error, EXIT_USER,
                "--isa: \"%.*s\" is unknown; accepted: %s, or all of a CPU's: %s, %s, or native",
                (int)(length < 40 ? length : 40), word, isa_join(", ", &words),
                kvmill_cpus[CPU_X86_64], kvmill_cpus[CPU_AARCH64]);
}

static void add(struct isa_list *list, const struct isa *isa) {
    for (int i = 0; i < list->count; i++)
        if (list->items[i] == isa)
            return;
    list->items[list->count++] = isa;
}

static const struct isa *isa_of(const char *word, size_t length, const char *native) {
    bool is_native = length == strlen("native") && memcmp(word, "native", length) == 0;
    return is_native ? kvmill_isa_by_name(native, strlen(native))
                     : kvmill_isa_by_name(word, length);
}

static bool add_cpu(struct isa_list *list, const char *word, size_t length) {
    int cpu = CPU_X86_64;
    while (cpu < CPU_COUNT &&
           (strlen(kvmill_cpus[cpu]) != length || memcmp(kvmill_cpus[cpu], word, length) != 0))
        cpu++;
    for (const struct isa *isa = kvmill_isas; cpu < CPU_COUNT && isa->name != NULL; isa++)
        if (kvmill_isa_is_of(isa, (enum cpu)cpu))
            add(list, isa);
    return cpu < CPU_COUNT;
}

bool isa_list_parse(const char *text, const char *native, struct isa_list *list,
                    struct error *error) {
    list->count = 0;
    for (const char *word = text ? text : kvmill_cpus[CPU_X86_64];; word++) {
        size_t length = strcspn(word, ",");
        const struct isa *isa = isa_of(word, length, native);
        if (isa != NULL)
            add(list, isa);
        else if (!add_cpu(list, word, length))
            return refuse_isa(word, length, error);
        word += length;
        if (*word == '\0')
            return true;
    }
}
