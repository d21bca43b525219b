/* How well a selection of pages represents all pages: the total softmax weight of its tokens, and
   the error of its output.  A row is one kv head of a request, with the group of query heads on it.
   Lists are ascending page numbers of a row.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_EXAMPLES_FLOW_ACCURACY_H
#define KVMILL_EXAMPLES_FLOW_ACCURACY_H

#include <stdint.h>

/* Softmax weights over all tokens, for each query head of a row. */
struct masses {
    int64_t tokens, page_size;
    int group;
    double *mass; /* [group, tokens]; owned by the caller */
};

struct page_list {
    const int32_t *page;
    int64_t count;
};

/* Fills the masses from query [group, dim] and key [tokens, dim]. */
void masses_fill(const struct masses *masses, const float *query, const float *key, int64_t dim,
                 double scale);

/* Returns the mass of the tokens in these pages, 0 to 1. */
double mass_coverage(const struct masses *masses, int head, struct page_list list);

/* Returns the share of the `most` heaviest tokens that are in these pages; of tokens with equal
   mass the first count. */
enum { MOST_HEAVIEST = 64 };
double mass_recall(const struct masses *masses, int head, struct page_list list, int most);

/* Sets the best list of `count` pages: the first `bos`, the last `eos`, and between them those with
   the largest mass, summed over the group.  No list with these sizes has a larger coverage,
   averaged over the group. */
void oracle_list(const struct masses *masses, int64_t bos, int64_t eos, int32_t *list,
                 int64_t count);

/* Returns the number of pages in both lists, divided by the number in at least one. */
double list_overlap(struct page_list a, struct page_list b);

/* relative: |a - b| / |b|; cosine: of the angle between a and b. */
struct difference {
    double relative, cosine;
};
struct difference vector_difference(const float *a, const float *b, int64_t count);

/* Statistics of values, which spread_of sorts; low: the 5th percentile. */
struct spread {
    double mean, low, least;
};
struct spread spread_of(double *values, int64_t count);

#endif
