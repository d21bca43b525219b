/* Random problems of CacheAttend: places, formats, masks, strides and terms; rows that no query
   sees are poison.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ATTEND_PROBLEM_H
#define KVMILL_TESTS_ATTEND_PROBLEM_H

#include "elements.h"
#include "oracle/cache_attend.h"

/* Where rows are. */
enum place { LENGTHS, SHARED, RANGES, PAGES, PAGES_OF_HEADS, PAGE_DIM, SLOTS, PLACES };
enum { MOST_LISTS = 64 };

struct problem {
    kvmill_cache_attend op;
    enum place place;
    const struct format *format[2]; /* of keys and values */
    bool ragged;
    int64_t each, rows, cells; /* queries of a sequence; rows of a cache; of all caches */
    int64_t heads_apart, *starts, *lengths, *lists[MOST_LISTS];
    int64_t *rings; /* rows of each list's ring, or NULL */
    int64_t *positions, *key_positions, *ranges;
    double *mask, *slopes, *sinks;
    struct oracle_attend oracle;
    struct fenced_tensor tensor[KVMILL_CACHE_ATTEND_TENSORS];
    const DLTensor *tensors[KVMILL_CACHE_ATTEND_TENSORS];
    char words[256];
};

void problem_open(struct problem *problem, bool is_long, struct dice *dice);
void problem_close(struct problem *problem);

#endif
