/* SPDX-License-Identifier: Apache-2.0 */
#include "known_programs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"

struct program {
    struct program *next;
    int64_t number;
    char text[];
};

static struct program *known;

const char *program_of_number(int64_t number) {
    for (const struct program *program = known; program != NULL; program = program->next)
        if (program->number == number)
            return program->text;
    return NULL;
}

static bool add(const char *text, size_t length, int64_t number) {
    struct program *program = malloc(sizeof *program + length + 1);
    if (program == NULL)
        return false;
    program->next = known;
    program->number = number;
    memcpy(program->text, text, length + 1);
    known = program;
    return true;
}

bool program_remember(const char *text, int64_t *number, struct error *error) {
    size_t length = strlen(text);
    *number = (int64_t)hash_bytes(HASH_START, text, length);
    const char *other = program_of_number(*number);
    if (other == NULL)
        return add(text, length, *number) || out_of_memory(error);
    return strcmp(other, text) == 0 ||
           fail(error, EXIT_USER,
                "two programs have the number %016" PRIx64
                "; accepted: their kernels in two packs: \"%.200s\" and \"%.200s\"",
                (uint64_t)*number, other, text);
}
