/* The text of sweeps: what was read is written as it was read.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "../../tune/ranking.h"
#include "../../tune/sweep_text.h"
#include "fuzz.h"
#include "fuzz_sweeps.h"

static char *print(const struct sweeps *sweeps) {
    struct text text = {0};
    struct error error = {0};
    fuzz_require(sweeps_print(sweeps, &text, &error), "%s", error.text);
    return text.data;
}

static void check_again(const struct sweeps *sweeps) {
    struct sweeps again = {0};
    struct error error = {0};
    char *text = print(sweeps);
    fuzz_require(sweeps_parse("again.tune", text, &again, &error), "%s\n%s", error.text, text);
    char *other = print(&again);
    fuzz_require(strcmp(text, other) == 0, "%s\nis read as\n%s", text, other);
    free(text);
    free(other);
    sweeps_free(&again);
}

void fuzz_check_sweeps(const struct sweeps *sweeps) {
    struct ranking ranking;
    struct error error = {0};
    for (size_t i = 0; i < sweeps->count; i++) {
        if (sweep_rank(&sweeps->items[i], &ranking, &error))
            ranking_free(&ranking);
        else
            fuzz_require_refusal(&error);
    }
    check_again(sweeps);
}

void fuzz_tune(const unsigned char *data, size_t size) {
    struct sweeps sweeps = {0};
    struct error error = {0};
    char *text = strndup((const char *)data, size);
    fuzz_require(text != NULL, "out of memory");
    if (sweeps_parse("file.tune", text, &sweeps, &error))
        fuzz_check_sweeps(&sweeps);
    else
        fuzz_require_refusal(&error);
    free(text);
    sweeps_free(&sweeps);
}
