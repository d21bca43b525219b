/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The interval of a median ---- */

/* Returns the probability that k of n fair coins show heads. */
static double heads(int n, int k) {
    return exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) - n * log(2));
}

/* Returns how many samples to leave out at each end.  The rest has at least the coverage that is
   wanted in *coverage, or less if there are too few samples.  Sets *coverage to the actual one. */
static int samples_outside(int n, double *coverage) {
    int outside = 0;
    double wanted = *coverage, next;
    *coverage = 1 - 2 * heads(n, 0);
    while ((next = *coverage - 2 * heads(n, outside + 1)) >= wanted) {
        *coverage = next;
        outside++;
    }
    return outside;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void find_floor(const double *sorted, int count, int compared, struct summary *summary) {
    double wanted = 1 - 0.05 / compared, coverage = wanted;
    int outside = samples_outside(count, &coverage);
    summary->floor = coverage >= wanted ? sorted[outside] : 0;
    summary->ceiling = coverage >= wanted ? sorted[count - 1 - outside] : INFINITY;
}

static void summarise_sorted(const double *sorted, int count, int compared,
                             struct summary *summary) {
    summary->coverage = 0.95;
    int outside = samples_outside(count, &summary->coverage);
    summary->count = count;
    summary->minimum = sorted[0];
    summary->median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    summary->low = sorted[outside];
    summary->high = sorted[count - 1 - outside];
    find_floor(sorted, count, compared, summary);
}

bool summarise(const double *samples, int count, int compared, struct summary *summary) {
    double *sorted = malloc((size_t)count * sizeof *sorted);
    if (sorted == NULL)
        return false;
    memcpy(sorted, samples, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    summarise_sorted(sorted, count, compared, summary);
    free(sorted);
    return true;
}

bool summarise_ratio(const double *baseline, const double *samples, int count, int compared,
                     struct summary *summary) {
    double *ratios = malloc((size_t)count * sizeof *ratios);
    if (ratios == NULL)
        return false;
    for (int i = 0; i < count; i++)
        ratios[i] = baseline[i] / samples[i];
    bool done = summarise(ratios, count, compared, summary);
    free(ratios);
    return done;
}

struct summary summary_quotient(const struct summary *baseline, const struct summary *samples) {
    return (struct summary){
        .count = baseline->count < samples->count ? baseline->count : samples->count,
        .minimum = baseline->low / samples->high,
        .median = baseline->median / samples->median,
        .low = baseline->low / samples->high,
        .high = baseline->high / samples->low,
        .coverage = baseline->coverage * samples->coverage,
        .floor = baseline->floor / samples->ceiling,
        .ceiling = samples->floor > 0 ? baseline->ceiling / samples->floor : INFINITY,
    };
}

bool summary_is_tight(const struct summary *summary) {
    double half = TIE_BAND / 2 * summary->median;
    return summary->low >= summary->median - half && summary->high <= summary->median + half;
}

/* ---- The winner ---- */

bool gain_is_faster(const struct summary *gain) {
    return gain->floor > 1 && gain->median > 1 + TIE_BAND;
}

static bool is_preferred(const struct contender_result *a, const struct contender_result *b) {
    if (a->code_bytes != b->code_bytes)
        return a->code_bytes < b->code_bytes;
    return strcmp(a->name, b->name) < 0;
}

static bool is_ahead(const struct contender_result *a, const struct contender_result *b) {
    return a->gain.median != b->gain.median ? a->gain.median > b->gain.median : is_preferred(a, b);
}

static int find_fastest(const struct contender_result *contenders, int count) {
    int fastest = NO_CONTENDER;
    for (int i = 0; i < count; i++)
        if (gain_is_faster(&contenders[i].gain) &&
            (fastest < 0 || is_ahead(&contenders[i], &contenders[fastest])))
            fastest = i;
    return fastest;
}

static double band_of(const struct summary *gain) {
    double half_width = (gain->high - gain->low) / 2 / gain->median;
    return half_width > TIE_BAND ? half_width : TIE_BAND;
}

bool gains_tie(const struct summary *fastest, const struct summary *gain) {
    return gain_is_faster(gain) && gain->median >= fastest->median * (1 - band_of(fastest));
}

struct choice choose(const struct contender_result *contenders, int count) {
    int fastest = find_fastest(contenders, count);
    struct choice choice = {.winner = fastest, .fastest = fastest, .band = TIE_BAND};
    if (fastest < 0)
        return choice;
    choice.band = band_of(&contenders[fastest].gain);
    for (int i = 0; i < count; i++) {
        if (!gains_tie(&contenders[fastest].gain, &contenders[i].gain))
            continue;
        choice.ties++;
        if (is_preferred(&contenders[i], &contenders[choice.winner]))
            choice.winner = i;
    }
    return choice;
}
