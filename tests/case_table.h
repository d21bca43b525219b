/* Tables of tests: tests/tables/NAME.tsv, a row a test.

   A row's first cell says what is tested, the others are that test's; tabs, one or more, are
   between cells; "-" is an empty one.  \n and \xHH stand for their bytes.  Lines that begin with #
   are remarks.  "= NAME TEXT" defines a word: in later rows NAME(MORE) is TEXT with MORE after a
   comma, or nothing, in the place of its "...", or after it.  A test has cells of its own; those
   after the last are NULL.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CASE_TABLE_H
#define KVMILL_TESTS_CASE_TABLE_H

#include "program.h"

enum { MOST_CELLS = 12 };

/* What runs all rows that begin with `word`. */
struct table_test {
    const char *word;
    int cells; /* at least */
    void (*run)(char *const *cells);
    int runs;
    struct table_test *next;
};
void add_table_test(struct table_test *test);

/* ROWS(WORD, CELLS) { ... } is the test of the rows of the program's table that begin so; their
   other cells are `cells`. */
#define ROWS(WORD, CELLS)                                                                          \
    static void rows_##WORD(char *const *cells);                                                   \
    __attribute__((constructor)) static void add_rows_##WORD(void) {                               \
        static struct table_test test = {#WORD, CELLS, rows_##WORD, 0, NULL};                      \
        add_table_test(&test);                                                                     \
    }                                                                                              \
    static void rows_##WORD(char *const *cells)

/* A test of the program: all rows of the table, in their order.  A row of no test, or a test
   without a row, ends the program. */
#define TABLE(NAME)                                                                                \
    TEST(table_##NAME) {                                                                           \
        run_table(#NAME);                                                                          \
    }                                                                                              \
    _Static_assert(true, "")
void run_table(const char *name);

/* EACH_ROW(NAME, CELLS) { ... } is a test of the program, too: every row of a table in which no
   cell says what is tested.  For tables that are no test: use (cells) for every row. */
#define EACH_ROW(NAME, CELLS)                                                                      \
    static void row_of_##NAME(char *const *cells);                                                 \
    TEST(NAME) {                                                                                   \
        each_row(#NAME, CELLS, row_of_##NAME);                                                     \
    }                                                                                              \
    static void row_of_##NAME(char *const *cells)
void each_row(const char *name, int cells, void (*use)(char *const *cells));

/* ---- What cells say ---- */

/* The place of `word` among `count` words; none ends the test. */
int place_of(const char *word, const char *const *words, int count);

/* Numbers that spaces or commas part, at most so many, integers if the base is 16, else "1/3", too;
   how many.  The rest of the array becomes 0. */
int64_t numbers_in(const char *cell, int base, double *numbers, int64_t most);

/* The number after "key=" in a cell; 0 where it has no such key. */
double number_in(const char *cell, const char *key);

#endif
