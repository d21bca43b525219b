/* Cases as data: rows of tests/tables/NAME.tsv, with tabs between their cells.  Lines that begin
   with # say what the columns are.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_TABLE_H
#define KVMILL_TESTS_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_CELLS = 12 };

struct table {
    FILE *file;
    const char *name;
    int number; /* of the line */
    char line[8192];
};

/* tests/tables/NAME.tsv. */
struct table table_open(const char *name);
void table_close(struct table *table);

/* The next line that is no remark; it lasts until the next call.  NULL at the end. */
char *table_line(struct table *table);

/* The next row, as so many cells; those it lacks are "".  False at the end. */
bool table_next(struct table *table, char **cells, int count);

/* use (cells) for every row; a row that has not so many cells ends the test. */
void each_row(const char *name, int cells, void (*use)(char **cell));

/* The place of `word` among `count` words; none ends the test. */
int place_of(const char *word, const char *const *words, int count);

/* Numbers that spaces or commas part, at most so many, integers if the base is 16, else "1/3", too;
   how many.  The rest of the array becomes 0. */
int64_t numbers_in(const char *cell, int base, double *numbers, int64_t most);

/* The number after "key=" in a cell; 0 where it has no such key. */
double number_in(const char *cell, const char *key);

#endif
