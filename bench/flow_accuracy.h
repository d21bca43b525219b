/* How well a selection of pages represents all pages: the total softmax weight of its tokens, and
   the error of its output.  A row is one kv head of a request, with the group of query heads on it.
   Lists are ascending page numbers of a row.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_FLOW_ACCURACY_H
#define KVMILL_BENCH_FLOW_ACCURACY_H

#include <stdint.h>

/* What each query head of a row would give to each token: its softmax over all of them. */
struct masses {
    int64_t tokens, page_size;
    int group;
    double *mass; /* [group, tokens], the caller's */
};

struct page_list {
    const int32_t *page;
    int64_t count;
};

/* From query [group, dim] and key [tokens, dim]. */
void masses_fill(const struct masses *masses, const float *query, const float *key, int64_t dim,
                 double scale);

/* Mass of the tokens of the pages, 0 to 1. */
double mass_coverage(const struct masses *masses, int head, struct page_list list);

/* The share of the `most` heaviest tokens (the first of equal ones) that is in the pages. */
enum { MOST_HEAVIEST = 64 };
double mass_recall(const struct masses *masses, int head, struct page_list list, int most);

/* The list of `count` pages of one who knows the masses: the first bos, the last eos, between them
   the heaviest for the group together.  No list of these sizes covers more, on average of the
   group. */
void oracle_list(const struct masses *masses, int64_t bos, int64_t eos, int32_t *list,
                 int64_t count);

/* Pages in both lists / pages in one of them at least. */
double list_overlap(struct page_list a, struct page_list b);

/* |a - b| / |b|, and the cosine of the angle between them. */
struct difference {
    double relative, cosine;
};
struct difference vector_difference(const float *a, const float *b, int64_t count);

/* A summary of many values, which it sorts: low is the 5th percentile, the value that a twentieth
 * is below.
 */
struct spread {
    double mean, low, least;
};
struct spread spread_of(double *values, int64_t count);

#endif
