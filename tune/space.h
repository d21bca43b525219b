/* A search space as data: named parameters with their legal values, a constraint, a default point.

   A point has a text form, "tile=4 strip=2 path=half", with all parameters in their order.
   Databases and users name candidates by it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SPACE_H
#define KVMILL_TUNE_SPACE_H

#include <stdint.h>

#include "../base/text.h"

enum { MOST_PARAMETERS = 16, MOST_VALUES = 64 };

/* A number, whose values have an order, or a choice among words, which have none. */
struct parameter {
    const char *name;         /* a C identifier */
    const int64_t *values;    /* rising; NULL for words */
    const char *const *words; /* of letters, digits and underscores; NULL for numbers */
    int count;                /* of values or words, 1 to MOST_VALUES */
    int preset;               /* index of the default */
};

/* Index of each parameter's value; the others are zero, so that points can be compared as bytes. */
struct point {
    uint8_t at[MOST_PARAMETERS];
};

struct space {
    const struct parameter *parameters;
    int count;
    /* Whether these values go together; NULL: all do. */
    bool (*allows)(const struct space *space, const struct point *point);
    const void *context; /* the constraint's own */
};

/* A space is made by the program, not by its user: what is wrong with it is EXIT_BUG. */
bool space_check(const struct space *space, struct error *error);

bool space_holds(const struct space *space, const struct point *point);
struct point space_default(const struct space *space);
bool points_equal(const struct point *a, const struct point *b);

/* All legal points, the last parameter moving fastest; false after the last. */
bool space_first(const struct space *space, struct point *point);
bool space_next(const struct space *space, struct point *point);

/* How many legal points there are, or `most` where there are more. */
int64_t space_count(const struct space *space, int64_t most);

/* A legal point, each as likely as the other. */
struct point space_random(const struct space *space, uint64_t *random);

/* Legal points that differ in one parameter: of a number the next legal values below and above, of
   a choice all other words.  Returns how many; `neighbours` has room for MOST_NEIGHBOURS. */
enum { MOST_NEIGHBOURS = MOST_PARAMETERS * MOST_VALUES };
int space_neighbours(const struct space *space, const struct point *point,
                     struct point *neighbours);

/* false: out of memory. */
bool space_print(const struct space *space, const struct point *point, struct text *text);

/* Parameters may come in any order; those left out have their defaults.  EXIT_USER for unknown
   names, values and combinations. */
bool space_parse(const struct space *space, const char *text, struct point *point,
                 struct error *error);

#endif
