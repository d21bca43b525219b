/* Tables of tests: tests/tables/NAME.tsv, a row a test.

   A row's first cell says what is tested, the others are that test's; tabs, one or more, are
   between cells; "-" is an empty one.  \n and \xHH stand for their bytes.  Lines that begin with #
   are remarks.  "= NAME TEXT" defines a word: in later rows NAME(MORE) is TEXT with MORE after a
   comma, or nothing, in the place of its "...".

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_CASE_TABLE_H
#define KVMILL_TESTS_CASE_TABLE_H

#include "table.h"

/* What runs all rows that begin with `word`; cells after the last are NULL. */
struct table_test {
    const char *word;
    int cells; /* at least */
    void (*run)(char *const *cells);
};

/* Run the tests of all rows, in their order; `tests` ends with a row without a word.  A row of no
   test, or a test without a row, ends the program. */
void run_table(const char *name, const struct table_test *tests);

#endif
