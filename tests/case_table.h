/* Tables of tests: tests/tables/NAME.tsv, with one test per row.

   The first cell of a row says what is tested; the others are the arguments of that test.  Cells
   are separated by one or more tabs; "-" is an empty cell.  \n and \xHH stand for their bytes.
   Lines that begin with # are comments.
   "= NAME TEXT" defines a word: in later rows, NAME(MORE) becomes TEXT, in which "..." is replaced
   by a comma and MORE, or by nothing; without "...", MORE is appended.  Cells after the last one
   are NULL.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CASE_TABLE_H
#define KVMILL_TESTS_CASE_TABLE_H

#include "program.h"

enum { MOST_CELLS = 12 };

/* The function for all rows that begin with `word`. */
struct table_test {
    const char *word;
    int cells; /* the least number of cells */
    void (*run)(char *const *cells);
    int runs;
    struct table_test *next;
};
void add_table_test(struct table_test *test);

/* ROWS(WORD, CELLS) { ... } defines the test for rows of the program's table that begin with WORD;
   `cells` are their other cells. */
#define ROWS(WORD, CELLS)                                                                          \
    static void rows_##WORD(char *const *cells);                                                   \
    __attribute__((constructor)) static void add_rows_##WORD(void) {                               \
        static struct table_test test = {#WORD, CELLS, rows_##WORD, 0, NULL};                      \
        add_table_test(&test);                                                                     \
    }                                                                                              \
    static void rows_##WORD(char *const *cells)

/* A test of the program: all rows of the table, in order.  A row without a test, or a test without
   a row, ends the program. */
#define TABLE(NAME)                                                                                \
    TEST(table_##NAME) {                                                                           \
        run_table(#NAME);                                                                          \
    }                                                                                              \
    _Static_assert(true, "")
void run_table(const char *name);

/* EACH_ROW(NAME, CELLS) { ... } is also a test of the program, for a table with rows of only this
   test; it gets each row.  For tables without tests, each_row() calls use (cells) for every row. */
#define EACH_ROW(NAME, CELLS)                                                                      \
    static void row_of_##NAME(char *const *cells);                                                 \
    TEST(NAME) {                                                                                   \
        each_row(#NAME, CELLS, row_of_##NAME);                                                     \
    }                                                                                              \
    static void row_of_##NAME(char *const *cells)
void each_row(const char *name, int cells, void (*use)(char *const *cells));

/* ---- Reading cells ---- */

/* Returns the index of `word` among `count` words; ends the test if it is not one of them. */
int place_of(const char *word, const char *const *words, int count);

/* Reads at most `most` numbers, separated by spaces or commas: integers if the base is 16,
   otherwise also "1/3".  Returns how many; the rest of the array becomes 0. */
int64_t numbers_in(const char *cell, int base, double *numbers, int64_t most);

/* Returns the number after "key=" in a cell, or 0 without this key. */
double number_in(const char *cell, const char *key);

#endif
