/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_accuracy.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- Masses ---- */

static double dot(const float *a, const float *b, int64_t dim) {
    double sum = 0;
    for (int64_t d = 0; d < dim; d++)
        sum += (double)a[d] * b[d];
    return sum;
}

static void softmax(double *scores, int64_t count) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        most = scores[i] > most ? scores[i] : most;
    for (int64_t i = 0; i < count; i++)
        sum += scores[i] = exp(scores[i] - most);
    for (int64_t i = 0; i < count; i++)
        scores[i] /= sum;
}

void masses_fill(const struct masses *masses, const float *query, const float *key, int64_t dim,
                 double scale) {
    for (int h = 0; h < masses->group; h++) {
        double *own = masses->mass + h * masses->tokens;
        for (int64_t t = 0; t < masses->tokens; t++)
            own[t] = scale * dot(query + h * dim, key + t * dim, dim);
        softmax(own, masses->tokens);
    }
}

static double page_mass(const struct masses *masses, int head, int64_t page) {
    const double *own = masses->mass + head * masses->tokens;
    int64_t end = (page + 1) * masses->page_size;
    double sum = 0;
    for (int64_t t = page * masses->page_size; t < end && t < masses->tokens; t++)
        sum += own[t];
    return sum;
}

/* ---- Measures of a list ---- */

double mass_coverage(const struct masses *masses, int head, struct page_list list) {
    double sum = 0;
    for (int64_t i = 0; i < list.count; i++)
        sum += page_mass(masses, head, list.page[i]);
    return sum;
}

static bool has_page(struct page_list list, int64_t page) {
    int64_t low = 0, high = list.count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (list.page[middle] < page)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list.count && list.page[low] == page;
}

/* Inserts a token into the list of the heaviest, sorted by mass; a token goes after those of equal
   mass.  Returns the new length. */
static int insert(const double *mass, int64_t token, int64_t *heaviest, int count, int most) {
    int at = count < most ? count : most;
    while (at > 0 && mass[heaviest[at - 1]] < mass[token]) {
        if (at < most)
            heaviest[at] = heaviest[at - 1];
        at--;
    }
    if (at < most)
        heaviest[at] = token;
    return count < most ? count + 1 : most;
}

double mass_recall(const struct masses *masses, int head, struct page_list list, int most) {
    int64_t heaviest[MOST_HEAVIEST];
    int count = 0, found = 0;
    for (int64_t t = 0; t < masses->tokens; t++)
        count = insert(masses->mass + head * masses->tokens, t, heaviest, count, most);
    for (int i = 0; i < count; i++)
        found += has_page(list, heaviest[i] / masses->page_size);
    return (double)found / count;
}

/* ---- The oracle ---- */

struct page_mass {
    double mass;
    int32_t page;
};

static int compare_masses(const void *a, const void *b) {
    const struct page_mass *x = a, *y = b;
    return x->mass != y->mass ? (x->mass < y->mass) - (x->mass > y->mass)
                              : (x->page > y->page) - (x->page < y->page);
}

static int compare_pages(const void *a, const void *b) {
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void sum_masses(const struct masses *masses, int64_t first, int64_t count,
                       struct page_mass *pages_by_mass) {
    for (int64_t i = 0; i < count; i++) {
        pages_by_mass[i] = (struct page_mass){0, (int32_t)(first + i)};
        for (int h = 0; h < masses->group; h++)
            pages_by_mass[i].mass += page_mass(masses, h, first + i);
    }
}

void oracle_list(const struct masses *masses, int64_t bos, int64_t eos, int32_t *list,
                 int64_t count) {
    int64_t pages = (masses->tokens + masses->page_size - 1) / masses->page_size;
    int64_t between = pages - bos - eos;
    struct page_mass *pages_by_mass = malloc((size_t)between * sizeof *pages_by_mass);
    if (pages_by_mass == NULL)
        abort();
    sum_masses(masses, bos, between, pages_by_mass);
    qsort(pages_by_mass, (size_t)between, sizeof *pages_by_mass, compare_masses);
    for (int64_t i = 0; i < count; i++)
        list[i] = (int32_t)(i < bos            ? i
                            : i >= count - eos ? pages - (count - i)
                                               : pages_by_mass[i - bos].page);
    qsort(list, (size_t)count, sizeof *list, compare_pages);
    free(pages_by_mass);
}

double list_overlap(struct page_list a, struct page_list b) {
    int64_t both = 0;
    for (int64_t i = 0; i < a.count; i++)
        both += has_page(b, a.page[i]);
    return (double)both / (double)(a.count + b.count - both);
}

/* ---- Outputs ---- */

struct difference vector_difference(const float *a, const float *b, int64_t count) {
    double apart = 0, own = dot(a, a, count), other = dot(b, b, count);
    for (int64_t i = 0; i < count; i++)
        apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return (struct difference){sqrt(apart / other), dot(a, b, count) / sqrt(own * other)};
}

/* ---- Statistics ---- */

static int compare_values(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

struct spread spread_of(double *values, int64_t count) {
    double sum = 0;
    qsort(values, (size_t)count, sizeof *values, compare_values);
    for (int64_t i = 0; i < count; i++)
        sum += values[i];
    return (struct spread){sum / (double)count, values[count / 20], values[0]};
}
