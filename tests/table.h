/* Tables of tests: rows of tests/tables/, whose columns tabs part.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_TABLE_H
#define KVMILL_TESTS_TABLE_H

#include <stdbool.h>
#include <stdio.h>

struct table {
    FILE *file;
    char line[2048];
};

/* tests/tables/NAME.tsv. */
struct table table_open(const char *name);
void table_close(struct table *table);

/* The next row that is no comment, as so many columns; those it lacks are "".  They last until the
   next call.  False at the end. */
bool table_next(struct table *table, char **columns, int count);

#endif
