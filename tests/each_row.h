/* Cases as data: tests/tables/NAME.tsv, a row a line, cells with a tab between them.  Lines that
   begin with # say what the columns are.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_EACH_ROW_H
#define KVMILL_TESTS_EACH_ROW_H

enum { MOST_CELLS = 10 };

/* use (cells) for every row; a row that has not so many cells ends the test. */
void each_row(const char *name, int cells, void (*use)(char **cell));

/* The place of `word` among `count` words; none ends the test. */
int place_of(const char *word, const char *const *words, int count);

/* The number after "key=" in a cell; 0 where it has no such key. */
double number_in(const char *cell, const char *key);

#endif
