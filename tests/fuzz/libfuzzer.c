/* Calls the target that KVMILL_FUZZ names, for libFuzzer.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fuzz_target *target;

/* Adds an argument that the command line lacks. */
static void add_word(int *argc, char ***argv, const char *word) {
    char **words = calloc((size_t)*argc + 2, sizeof *words);
    if (words == NULL)
        return;
    memcpy(words, *argv, (size_t)*argc * sizeof *words);
    words[(*argc)++] = strdup(word);
    *argv = words;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *name = getenv("KVMILL_FUZZ");
    char most[32];
    target = fuzz_target_of(name ? name : "");
    if (target != NULL) {
        snprintf(most, sizeof most, "-max_len=%zu", target->most);
        add_word(argc, argv, most);
        return 0;
    }
    fputs("KVMILL_FUZZ: accepted:", stderr);
    for (int i = 0; fuzz_targets[i].name != NULL; i++)
        fprintf(stderr, " %s", fuzz_targets[i].name);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    target->run(data, size);
    return 0;
}
