/* Random problems of CacheAttend: places, formats, masks, strides and terms; rows that no query
   sees are poison.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_ATTEND_PROBLEM_H
#define KVMILL_TESTS_ATTEND_PROBLEM_H

#include "elements.h"
#include "oracle/cache_attend.h"

/* Where rows are. */
enum place { LENGTHS, SHARED, RANGES, PAGES, PAGES_OF_HEADS, PAGE_DIM, SLOTS, PLACES };

struct format {
    enum oracle_type type, scale;
    int64_t group; /* 0: no scales */
    DLDataType tensor;
};

struct problem {
    kvmill_cache_attend op;
    enum place place;
    struct format format[2]; /* of keys and values */
    bool ragged;
    int64_t each, rows, cells; /* queries of a sequence; rows of a cache; of all caches */
    struct oracle_attend oracle;
    struct fenced_tensor tensor[KVMILL_CACHE_ATTEND_TENSORS];
    const DLTensor *tensors[KVMILL_CACHE_ATTEND_TENSORS];
    char words[256];
};

void problem_open(struct problem *problem, bool is_long, struct dice *dice);
void problem_close(struct problem *problem);

#endif
