/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "table.h"

#include "tap.h"

struct table table_open(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/tables/%s.tsv", KVMILL_SOURCEDIR, name);
    struct table table = {.file = fopen(path, "r"), .name = name};
    if (table.file == NULL)
        bail_out("cannot read %s", path);
    return table;
}

void table_close(struct table *table) {
    fclose(table->file);
}

char *table_line(struct table *table) {
    do {
        if (fgets(table->line, sizeof table->line, table->file) == NULL)
            return NULL;
        table->number++;
        char *end = strchr(table->line, '\n');
        if (end == NULL)
            bail_out("%s.tsv, line %d: too long", table->name, table->number);
        *end = '\0';
    } while (table->line[0] == '#' || table->line[0] == '\0');
    return table->line;
}

bool table_next(struct table *table, char **cells, int count) {
    char *rest = table_line(table);
    if (rest == NULL)
        return false;
    for (int i = 0; i < count; i++)
        cells[i] = rest != NULL ? strsep(&rest, "\t") : "";
    return true;
}

void each_row(const char *name, int cells, void (*use)(char **cell)) {
    struct table table = table_open(name);
    for (char *rest; (rest = table_line(&table)) != NULL;) {
        char *cell[MOST_CELLS + 1];
        int count = 0;
        while (count <= MOST_CELLS && (cell[count] = strsep(&rest, "\t")) != NULL)
            count++;
        if (count != cells)
            bail_out("%s.tsv, line %d: %d cells; wanted: %d", name, table.number, count, cells);
        use(cell);
    }
    table_close(&table);
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

int64_t numbers_in(const char *cell, int base, double *numbers, int64_t most) {
    int64_t count = 0;
    memset(numbers, 0, (size_t)most * sizeof *numbers);
    for (char *end; count < most; cell = end) {
        double number = base == 16 ? (double)strtol(cell, &end, 16) : strtod(cell, &end);
        if (end == cell)
            break;
        if (*end == '/')
            number /= strtod(end + 1, &end);
        end += *end == ',';
        numbers[count++] = number;
    }
    return count;
}
