/* SPDX-License-Identifier: Apache-2.0 */
#include "case_table.h"

#include "common.h"

enum { MOST_WORDS = 24, LINE = 8192 };

struct case_table {
    struct table rows;
    char *words[MOST_WORDS], *texts[MOST_WORDS];
    int count;
};

/* ---- Cells ---- */

static void unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] == 'n') {
            *to = '\n';
            from += 2;
        } else if (from[0] == '\\' && from[1] == 'x') {
            const char digits[] = {from[2], from[3], '\0'};
            *to = (char)strtoul(digits, NULL, 16);
            from += 4;
        } else
            *to = *from++;
    }
    *to = '\0';
}

static int split(char *line, char **cells) {
    int count = 0;
    for (char *cell = strtok(line, "\t"); cell != NULL && count < MOST_CELLS;
         cell = strtok(NULL, "\t"))
        cells[count++] = strcmp(cell, "-") == 0 ? cell + 1 : cell;
    cells[count] = NULL;
    return count;
}

/* ---- Words ---- */

static void append(char *text, const char *more, size_t length) {
    size_t have = strlen(text);
    if (have + length >= LINE)
        bail_out("a cell of more than %d letters", LINE);
    memcpy(text + have, more, length);
    text[have + length] = '\0';
}

/* The number of the word that a call of `at` names; -1 where it is none. */
static int word_at(const struct case_table *table, const char *at) {
    for (int i = 0; i < table->count; i++) {
        size_t length = strlen(table->words[i]);
        if (strncmp(at, table->words[i], length) == 0 && at[length] == '(')
            return i;
    }
    return -1;
}

static void append_word(char *text, const char *body, const char *more, size_t length) {
    const char *gap = strstr(body, "...");
    append(text, body, (size_t)(gap - body));
    if (length > 0) {
        append(text, ", ", 2);
        append(text, more, length);
    }
    append(text, gap + 3, strlen(gap + 3));
}

/* The cell with all words replaced, for free(). */
static char *expand_cell(const struct case_table *table, const char *cell) {
    char text[LINE] = "";
    while (*cell != '\0') {
        int word = word_at(table, cell);
        if (word < 0) {
            append(text, cell++, 1);
            continue;
        }
        const char *more = cell + strlen(table->words[word]) + 1, *end = strchr(more, ')');
        if (end == NULL)
            bail_out("%s.tsv, line %d: no end of %s", table->rows.name, table->rows.number,
                     table->words[word]);
        append_word(text, table->texts[word], more, (size_t)(end - more));
        cell = end + 1;
    }
    unescape(text);
    return strdup(text);
}

static void define(struct case_table *table, char *const *cells, int count) {
    if (count != 3 || strstr(cells[2], "...") == NULL || table->count == MOST_WORDS)
        bail_out("%s.tsv, line %d: accepted: = NAME TEXT, with \"...\"", table->rows.name,
                 table->rows.number);
    table->words[table->count] = strdup(cells[1]);
    table->texts[table->count++] = strdup(cells[2]);
}

/* ---- Rows ---- */

static struct table_test *tests;

void add_rows(struct table_test *test) {
    test->next = tests;
    tests = test;
}

static struct table_test *test_of(const struct case_table *table, const char *word, int cells) {
    for (struct table_test *test = tests; test != NULL; test = test->next)
        if (strcmp(test->word, word) == 0 && cells >= test->cells)
            return test;
    bail_out("%s.tsv, line %d: %s of %d cells is no test", table->rows.name, table->rows.number,
             word, cells);
}

static void run_row(const struct case_table *table, struct table_test *test, char *const *cells) {
    char *expanded[MOST_CELLS] = {NULL};
    for (int i = 0; cells[i] != NULL; i++)
        expanded[i] = expand_cell(table, cells[i]);
    test->run(expanded);
    test->runs++;
    for (int i = 0; expanded[i] != NULL; i++)
        free(expanded[i]);
}

static void read_rows(struct case_table *table) {
    char *line, *cells[MOST_CELLS + 1];
    while ((line = table_line(&table->rows)) != NULL) {
        int count = split(line, cells);
        if (strcmp(cells[0], "=") == 0)
            define(table, cells, count);
        else
            run_row(table, test_of(table, cells[0], count - 1), cells + 1);
    }
}

void run_table(const char *name) {
    struct case_table table = {.rows = table_open(name)};
    read_rows(&table);
    table_close(&table.rows);
    for (int i = 0; i < table.count; i++) {
        free(table.words[i]);
        free(table.texts[i]);
    }
    for (const struct table_test *test = tests; test != NULL; test = test->next)
        if (test->runs == 0)
            bail_out("%s: no row of %s", name, test->word);
}
