/* SPDX-License-Identifier: Apache-2.0 */
#include "case_table.h"

enum { MOST_WORDS = 24, LINE = 1 << 14 };

struct case_table {
    FILE *file;
    const char *name;
    int number; /* of the line */
    char line[LINE];
    char *words[MOST_WORDS], *texts[MOST_WORDS];
    int count;
};

static _Noreturn void wrong(const struct case_table *table, const char *what, const char *word) {
    bail_out("%s.tsv, line %d: %s%s", table->name, table->number, what, word);
}

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

/* Returns the number of the word that is called at `at`, or -1. */
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
    append(text, body, gap != NULL ? (size_t)(gap - body) : strlen(body));
    if (length > 0) {
        append(text, ", ", 2);
        append(text, more, length);
    }
    if (gap != NULL)
        append(text, gap + 3, strlen(gap + 3));
}

/* Returns the cell with all words replaced, for free(). */
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
            wrong(table, "no end of ", table->words[word]);
        append_word(text, table->texts[word], more, (size_t)(end - more));
        cell = end + 1;
    }
    unescape(text);
    return strdup(text);
}

static void define(struct case_table *table, char *const *cells, int count) {
    if (count != 3 || table->count == MOST_WORDS)
        wrong(table, "accepted: = NAME TEXT", "");
    table->words[table->count] = strdup(cells[1]);
    table->texts[table->count++] = expand_cell(table, cells[2]);
}

/* ---- Rows ---- */

/* Reads the next line that is not a comment; returns false at the end. */
static bool next_line(struct case_table *table) {
    do {
        if (fgets(table->line, sizeof table->line, table->file) == NULL)
            return false;
        table->number++;
        char *end = strchr(table->line, '\n');
        if (end == NULL)
            wrong(table, "too long", "");
        *end = '\0';
    } while (table->line[0] == '#' || table->line[0] == '\0');
    return true;
}

static void use_row(const struct case_table *table, void (*use)(char *const *cells),
                    char *const *cells) {
    char *expanded[MOST_CELLS] = {NULL};
    for (int i = 0; cells[i] != NULL; i++)
        expanded[i] = expand_cell(table, cells[i]);
    use(expanded);
    for (int i = 0; expanded[i] != NULL; i++)
        free(expanded[i]);
}

static struct table_test *tests;

void add_table_test(struct table_test *test) {
    test->next = tests;
    tests = test;
}

/* Runs the test that the first cell names. */
static void run_row(const struct case_table *table, char *const *cells, int count) {
    struct table_test *test = tests;
    while (test != NULL && (strcmp(test->word, cells[0]) != 0 || count - 1 < test->cells))
        test = test->next;
    if (test == NULL)
        wrong(table, "no test, or one of more cells: ", cells[0]);
    use_row(table, test->run, cells + 1);
    test->runs++;
}

/* Passes rows of at least `least` cells to `use`, or, if that is NULL, to the tests of their
   words. */
static void read_rows(const char *name, int least, void (*use)(char *const *cells)) {
    char path[4096], *cells[MOST_CELLS + 1];
    snprintf(path, sizeof path, "%s/tests/tables/%s.tsv", KVMILL_SOURCEDIR, name);
    struct case_table table = {.file = fopen(path, "r"), .name = name};
    if (table.file == NULL)
        bail_out("cannot read %s", path);
    while (next_line(&table)) {
        int count = split(table.line, cells);
        if (count < least)
            wrong(&table, "too few cells after ", cells[0]);
        if (strcmp(cells[0], "=") == 0)
            define(&table, cells, count);
        else if (use != NULL)
            use_row(&table, use, cells);
        else
            run_row(&table, cells, count);
    }
    fclose(table.file);
    for (int i = 0; i < table.count; i++) {
        free(table.words[i]);
        free(table.texts[i]);
    }
}

void each_row(const char *name, int cells, void (*use)(char *const *cells)) {
    read_rows(name, cells, use);
}

void run_table(const char *name) {
    read_rows(name, 1, NULL);
    for (const struct table_test *test = tests; test != NULL; test = test->next)
        if (test->runs == 0)
            bail_out("%s: no row of %s", name, test->word);
}

/* ---- Reading cells ---- */

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
