/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep_name.h"

#include <inttypes.h>
#include <string.h>

#include "../base/hash.h"

/* ---- Facts ---- */

enum fact { SPEC, PROBLEM, ISA, BYTES, FLOPS, CPU, COMPILER, FLAGS, TEMPLATES };

static const char *string_of(const struct sweep_key *key, enum fact fact) {
    switch (fact) {
    case SPEC:
        return key->spec;
    case PROBLEM:
        return key->problem;
    case ISA:
        return key->isa;
    case CPU:
        return key->cpu;
    case COMPILER:
        return key->compiler;
    case FLAGS:
        return key->flags;
    case TEMPLATES:
        return key->templates;
    default:
        return NULL;
    }
}

static bool agree(const struct sweep_key *a, const struct sweep_key *b, enum fact fact) {
    if (fact == BYTES)
        return a->bytes == b->bytes;
    if (fact == FLOPS)
        return a->flops == b->flops;
    return strcmp(string_of(a, fact), string_of(b, fact)) == 0;
}

/* ---- Others with the same words ---- */

static bool have_same_words(const struct sweep_key *a, const struct sweep_key *b) {
    char first[WORK_SIZE], second[WORK_SIZE];
    sweep_work_words(a, first);
    sweep_work_words(b, second);
    return strcmp(first, second) == 0;
}

/* Whether another sweep with the same words differs in this fact, and in none of those before. */
static bool decides(const struct sweep_key *key, const struct sweeps *among, enum fact fact) {
    for (size_t i = 0; i < among->count; i++) {
        const struct sweep_key *other = &among->items[i].key;
        bool differs = !agree(key, other, fact);
        for (int before = 0; differs && before < (int)fact; before++)
            differs = agree(key, other, before);
        if (differs && have_same_words(key, other))
            return true;
    }
    return false;
}

/* Whether all specs with the same words do the same, so that they differ in how they do it. */
static bool do_the_same(const struct sweep_key *key, const struct sweeps *among) {
    const char *end = strstr(key->spec, "__");
    for (size_t i = 0; end != NULL && i < among->count; i++) {
        const struct sweep_key *other = &among->items[i].key;
        if (strncmp(key->spec, other->spec, (size_t)(end - key->spec) + 2) != 0 &&
            have_same_words(key, other))
            return false;
    }
    return end != NULL;
}

/* ---- Words ---- */

/* Prints a string.  One that is too long for a name is cut, with a hash of the whole. */
static bool print_string(struct text *text, const char *before, const char *string) {
    enum { LONGEST = 100, SHOWN = 60 };
    size_t length = strlen(string);
    if (length <= LONGEST)
        return text_print(text, ", %s%s", before, string);
    return text_print(text, ", %s%.*s... (%016" PRIx64 ")", before, SHOWN, string,
                      hash_bytes(HASH_START, string, length));
}

static bool print_fact(const struct sweep_key *key, const struct sweeps *among, enum fact fact,
                       struct text *text) {
    static const char *const before[] = {[SPEC] = "",
                                         [PROBLEM] = "",
                                         [ISA] = "",
                                         [CPU] = "",
                                         [COMPILER] = "",
                                         [FLAGS] = "flags ",
                                         [TEMPLATES] = "templates "};
    if (fact == BYTES)
        return text_print(text, ", %.17g bytes", key->bytes);
    if (fact == FLOPS)
        return text_print(text, ", %.17g operations", key->flops);
    const char *string = string_of(key, fact);
    if (fact == SPEC && do_the_same(key, among))
        string = strstr(string, "__") + 2;
    return print_string(text, before[fact], string);
}

bool sweep_tell_apart(const struct sweep_key *key, const struct sweeps *among,
                      enum sweep_facts facts, struct text *text) {
    bool done = true;
    for (int fact = SPEC; done && fact < (int)facts; fact++)
        if (decides(key, among, fact))
            done = print_fact(key, among, fact, text);
    return done;
}
