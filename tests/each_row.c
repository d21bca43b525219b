/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "each_row.h"

#include <stdlib.h>
#include <string.h>

#include "common.h"

void each_row(const char *name, int cells, void (*use)(char **cell)) {
    char *text = read_bytes(source_path("tests/tables/%s.tsv", name), NULL), *rest = text, *line;
    for (int number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        char *cell[MOST_CELLS + 1];
        int count = 0;
        if (*line == '#' || *line == '\0')
            continue;
        while (count <= MOST_CELLS && (cell[count] = strsep(&line, "\t")) != NULL)
            count++;
        if (count != cells)
            bail_out("%s.tsv, line %d: %d cells; wanted: %d", name, number, count, cells);
        use(cell);
    }
    free(text);
}

int place_of(const char *word, const char *const *words, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    bail_out("a table says \"%s\"", word);
}

double number_in(const char *cell, const char *key) {
    size_t length = strlen(key);
    for (const char *at = cell; (at = strstr(at, key)) != NULL; at += length)
        if (at[length] == '=' && (at == cell || at[-1] == ' '))
            return strtod(at + length + 1, NULL);
    return 0;
}
