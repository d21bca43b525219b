/* Tables of tests: tests/tables/NAME.tsv, a row a test.

   A row's first cell says what is tested, the others are that test's; tabs, one or more, are
   between cells; "-" is an empty one.  \n and \xHH stand for their bytes.  Lines that begin with #
   are remarks.  "= NAME TEXT" defines a word: in later rows NAME(MORE) is TEXT with MORE after a
   comma, or nothing, in the place of its "...".

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CASE_TABLE_H
#define KVMILL_TESTS_CASE_TABLE_H

#include "program.h"
#include "table.h"

/* What runs all rows that begin with `word`; cells after the last are NULL. */
struct table_test {
    const char *word;
    int cells; /* at least */
    void (*run)(char *const *cells);
    int runs;
    struct table_test *next;
};
void add_rows(struct table_test *test);

/* ROWS(WORD, CELLS) { ... } is the test of the rows of the program's table that begin so; their
   other cells are `cells`. */
#define ROWS(WORD, CELLS)                                                                          \
    static void rows_##WORD(char *const *cells);                                                   \
    __attribute__((constructor)) static void add_rows_##WORD(void) {                               \
        static struct table_test test = {#WORD, CELLS, rows_##WORD, 0, NULL};                      \
        add_rows(&test);                                                                           \
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

#endif
