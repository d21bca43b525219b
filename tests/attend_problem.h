/* Random problems of CacheAttend: places, formats, masks, strides and terms.  Rows that no query
   attends to are poison.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ATTEND_PROBLEM_H
#define KVMILL_TESTS_ATTEND_PROBLEM_H

#include "elements.h"
#include "oracle/oracle_cache_attend.h"

/* Ways to place rows. */
enum place { LENGTHS, SHARED, RANGES, PAGES, PAGES_OF_HEADS, PAGE_DIM, SLOTS, PLACES };

/* LONG: a sequence of many rows.  PLAIN: each sequence has the rows that its length says, and every
   query attends to all of them. */
enum problem_kind { ANY = 0, LONG = 1, PLAIN = 2, LONG_PLAIN = LONG | PLAIN };

struct problem {
    kvmill_cache_attend op;
    enum problem_kind kind;
    bool viewed; /* values are the first elements of the keys' rows */
    DLTensor view;
    int64_t view_shape[4];
    enum place place;
    struct format format[2]; /* of keys and values */
    bool ragged;
    int64_t bad_row[2];        /* of K and V, with a NaN; no row has the number -1 */
    int64_t each, rows, cells; /* queries of a sequence; rows of a cache; rows of all caches */
    struct oracle_attend oracle;
    struct fenced_tensor tensor[KVMILL_CACHE_ATTEND_TENSORS];
    const DLTensor *tensors[KVMILL_CACHE_ATTEND_TENSORS];
    char words[256];
};

void problem_open(struct problem *problem, enum problem_kind kind, struct dice *dice);
void problem_close(struct problem *problem);

#endif
