/* A search space as data: named parameters with their legal values, a constraint, and a default
   point.

   A point has a text form, "tile=4 strip=2 path=half", with all parameters in their order.
   Databases and users identify candidates by it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SPACE_H
#define KVMILL_TUNE_SPACE_H

#include <stdint.h>

#include "../base/text.h"

enum { MOST_PARAMETERS = 16, MOST_VALUES = 64 };

/* A number, with ordered values, or a choice among words, without order. */
struct parameter {
    const char *name;         /* a C identifier */
    const int64_t *values;    /* in ascending order; NULL for words */
    const char *const *words; /* of letters, digits and underscores; NULL for numbers */
    int count;                /* of values or words, 1 to MOST_VALUES */
    int preset;               /* index of the default */
};

/* The index of each parameter's value; unused elements are zero, so that memcmp compares points. */
struct point {
    uint8_t at[MOST_PARAMETERS];
};

struct space {
    const struct parameter *parameters;
    int count;
    /* Whether the values can be combined; NULL: always. */
    bool (*allows)(const struct space *space, const struct point *point);
    const void *context; /* for `allows` */
};

/* Checks a space.  The program makes spaces, not its user, so an error is EXIT_BUG. */
bool space_check(const struct space *space, struct error *error);

bool space_holds(const struct space *space, const struct point *point);
struct point space_default(const struct space *space);
bool points_equal(const struct point *a, const struct point *b);

/* Walk all legal points; the last parameter changes fastest.  Return false after the last point. */
bool space_first(const struct space *space, struct point *point);
bool space_next(const struct space *space, struct point *point);

/* Returns the number of legal points, or `most` if there are more. */
int64_t space_count(const struct space *space, int64_t most);

/* Returns a random legal point; all are equally likely. */
struct point space_random(const struct space *space, uint64_t *random);

/* Finds the legal points that differ in one parameter: for a number the next legal values below and
   above, for a choice all other words.  Returns how many; `neighbours` has room for
   MOST_NEIGHBOURS. */
enum { MOST_NEIGHBOURS = MOST_PARAMETERS * MOST_VALUES };
int space_neighbours(const struct space *space, const struct point *point,
                     struct point *neighbours);

/* Prints the text of a point.  Returns false if out of memory. */
bool space_print(const struct space *space, const struct point *point, struct text *text);

/* Parses the text of a point.  Parameters may come in any order; those left out have their
   defaults.  EXIT_USER for unknown names, values and combinations. */
bool space_parse(const struct space *space, const char *text, struct point *point,
                 struct error *error);

#endif
