/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/text.h"

static const char *const limit_words[] = {
    [LIMIT_NONE] = "none", [LIMIT_BYTES] = "bytes", [LIMIT_FLOPS] = "flops"};

const char *limit_word(enum limit_kind kind) {
    return limit_words[kind];
}

bool limit_by_word(const char *word, enum limit_kind *kind) {
    for (int i = LIMIT_NONE; i <= LIMIT_FLOPS; i++)
        if (strcmp(limit_words[i], word) == 0) {
            *kind = (enum limit_kind)i;
            return true;
        }
    return false;
}

double sample_rounded(double seconds) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", seconds);
    return strtod(text, NULL);
}

/* ---- Strings ---- */

const char *const sweep_key_names[KEY_STRINGS] = {"cpu", "compiler", "flags",  "templates",
                                                  "isa", "spec",     "problem"};

char **sweep_key_string(struct sweep_key *key, int i) {
    char **const strings[KEY_STRINGS] = {&key->cpu, &key->compiler, &key->flags,  &key->templates,
                                         &key->isa, &key->spec,     &key->problem};
    return strings[i];
}

const char *sweep_key_text(const struct sweep_key *key, int i) {
    return *sweep_key_string((struct sweep_key *)key, i);
}

static char **result_string(struct sweep_result *result, int i) {
    char **const strings[RESULT_STRINGS] = {&result->candidate, &result->message,
                                            &result->environment};
    return strings[i];
}

/* ---- Copies ---- */

static bool own_string(char **string) {
    return (*string = strdup(*string)) != NULL;
}

static bool own_samples(double **samples, int count) {
    double *copy = malloc((size_t)count * sizeof *copy);
    for (int i = 0; copy != NULL && i < count; i++)
        copy[i] = (*samples)[i];
    *samples = copy;
    return copy != NULL;
}

/* Replaces the strings by copies, all or none. */
static bool own_strings(char **(*string)(void *, int), void *of, int count) {
    for (int i = 0; i < count; i++)
        if (!own_string(string(of, i))) {
            while (i-- > 0)
                free(*string(of, i));
            return false;
        }
    return true;
}

static char **string_of_key(void *key, int i) {
    return sweep_key_string(key, i);
}

static char **string_of_result(void *result, int i) {
    return result_string(result, i);
}

static void free_result(struct sweep_result *result) {
    for (int i = 0; i < RESULT_STRINGS; i++)
        free(*result_string(result, i));
    free(result->samples);
    free(result->baseline);
}

static bool own_result(struct sweep_result *result) {
    double *samples = result->samples, *baseline = result->baseline;
    result->samples = result->baseline = NULL;
    if (!own_strings(string_of_result, result, RESULT_STRINGS))
        return false;
    bool done = true;
    if (result->sample_count > 0) {
        result->samples = samples;
        done = own_samples(&result->samples, result->sample_count);
    }
    if (done && result->sample_count > 0 && baseline != NULL) {
        result->baseline = baseline;
        done = own_samples(&result->baseline, result->sample_count);
    }
    if (!done)
        free_result(result);
    return done;
}

/* ---- Lists ---- */

/* Makes room for an item after `count`.  Returns NULL if out of memory.  Grows when count is a
   power of two. */
static void *grow(void *items, size_t count, size_t size) {
    if ((count & (count - 1)) != 0)
        return items;
    return realloc(items, (count ? 2 * count : 1) * size);
}

/* Finds the sweep of a key.  Starts with the last, which it mostly is, because results come
   sorted. */
static struct sweep *find_sweep(const struct sweeps *sweeps, const struct sweep_key *key) {
    for (size_t i = sweeps->count; i-- > 0;)
        if (sweep_key_compare(&sweeps->items[i].key, key) == 0)
            return &sweeps->items[i];
    return NULL;
}

static struct sweep *add_sweep(struct sweeps *sweeps, const struct sweep_key *key) {
    struct sweep *grown = grow(sweeps->items, sweeps->count, sizeof *grown);
    if (grown == NULL)
        return NULL;
    sweeps->items = grown;
    struct sweep *sweep = &grown[sweeps->count];
    *sweep = (struct sweep){.key = *key};
    if (!own_strings(string_of_key, &sweep->key, KEY_STRINGS))
        return NULL;
    sweeps->count++;
    return sweep;
}

static bool add_result(struct sweep *sweep, const struct sweep_result *result) {
    struct sweep_result *grown = grow(sweep->results, sweep->count, sizeof *grown);
    if (grown == NULL)
        return false;
    sweep->results = grown;
    grown[sweep->count] = *result;
    if (!own_result(&grown[sweep->count]))
        return false;
    sweep->count++;
    return true;
}

const struct sweep *sweeps_find(const struct sweeps *sweeps, const struct sweep_key *key) {
    return find_sweep(sweeps, key);
}

bool sweeps_have(const struct sweeps *sweeps, const struct sweep_key *key, const char *candidate) {
    const struct sweep *sweep = find_sweep(sweeps, key);
    for (size_t i = 0; sweep != NULL && i < sweep->count; i++)
        if (strcmp(sweep->results[i].candidate, candidate) == 0)
            return true;
    return false;
}

bool sweeps_add(struct sweeps *sweeps, const struct sweep_key *key,
                const struct sweep_result *result, struct error *error) {
    struct sweep *sweep = find_sweep(sweeps, key);
    if (sweep == NULL)
        sweep = add_sweep(sweeps, key);
    return (sweep != NULL && add_result(sweep, result)) || out_of_memory(error);
}

bool sweeps_add_all(struct sweeps *sweeps, const struct sweeps *more, struct error *error) {
    for (size_t i = 0; i < more->count; i++)
        for (size_t k = 0; k < more->items[i].count; k++)
            if (!sweeps_add(sweeps, &more->items[i].key, &more->items[i].results[k], error))
                return false;
    return true;
}

void sweep_free(struct sweep *sweep) {
    for (int i = 0; i < KEY_STRINGS; i++)
        free(*sweep_key_string(&sweep->key, i));
    for (size_t i = 0; i < sweep->count; i++)
        free_result(&sweep->results[i]);
    free(sweep->results);
}

void sweeps_free(struct sweeps *sweeps) {
    for (size_t i = 0; i < sweeps->count; i++)
        sweep_free(&sweeps->items[i]);
    free(sweeps->items);
    *sweeps = (struct sweeps){0};
}

/* ---- Order ---- */

static int compare_numbers(double a, double b) {
    return (a > b) - (a < b);
}

int sweep_key_compare(const struct sweep_key *a, const struct sweep_key *b) {
    int order = 0;
    for (int i = 0; order == 0 && i < KEY_STRINGS; i++)
        order = strcmp(sweep_key_text(a, i), sweep_key_text(b, i));
    if (order == 0)
        order = (a->threads > b->threads) - (a->threads < b->threads);
    if (order == 0)
        order = compare_numbers(a->bytes, b->bytes);
    return order != 0 ? order : compare_numbers(a->flops, b->flops);
}

static int compare_results(const void *a, const void *b) {
    const struct sweep_result *x = a, *y = b;
    int order = strcmp(x->candidate, y->candidate);
    return order != 0 ? order : (x->measured > y->measured) - (x->measured < y->measured);
}

static int compare_sweeps(const void *a, const void *b) {
    return sweep_key_compare(&((const struct sweep *)a)->key, &((const struct sweep *)b)->key);
}

void sweeps_sort(struct sweeps *sweeps) {
    for (size_t i = 0; i < sweeps->count; i++)
        qsort(sweeps->items[i].results, sweeps->items[i].count, sizeof(struct sweep_result),
              compare_results);
    if (sweeps->count > 0)
        qsort(sweeps->items, sweeps->count, sizeof(struct sweep), compare_sweeps);
}

static bool samples_equal(const double *a, const double *b, int count) {
    if (count > 0 && (a == NULL || b == NULL))
        return a == b;
    for (int i = 0; i < count; i++)
        if (sample_rounded(a[i]) != sample_rounded(b[i]))
            return false;
    return true;
}

bool sweep_results_equal(const struct sweep_result *a, const struct sweep_result *b) {
    return strcmp(a->candidate, b->candidate) == 0 && a->is_default == b->is_default &&
           a->outcome == b->outcome && strcmp(a->message, b->message) == 0 &&
           a->sample_count == b->sample_count &&
           samples_equal(a->samples, b->samples, a->sample_count) &&
           samples_equal(a->baseline, b->baseline, a->sample_count) && a->limit == b->limit &&
           sample_rounded(a->limit_rate) == sample_rounded(b->limit_rate) &&
           a->code_bytes == b->code_bytes && a->measured == b->measured &&
           strcmp(a->environment, b->environment) == 0;
}

/* ---- Faults ---- */

/* Values beyond these limits were not measured, and would break figures that are computed from
   them. */
static const double least_seconds = 1e-12, most_seconds = 1e6, most_work = 1e18;

static bool is_within(double value, double least, double most) {
    return value >= least && value <= most;
}

static bool is_work(double value) {
    return value == 0 || is_within(value, 1, most_work);
}

const char *sweep_key_fault(const struct sweep_key *key) {
    for (int i = 0; i < KEY_STRINGS; i++)
        if (!text_is_plain(sweep_key_text(key, i), ""))
            return "a key with a control character";
    if (*key->cpu == '\0' || *key->spec == '\0' || *key->isa == '\0')
        return "no cpu, isa or spec";
    if (key->threads < 1)
        return "less than one thread";
    return is_work(key->bytes) && is_work(key->flops)
               ? NULL
               : "bytes or flops that are not 0 or 1 to 1e18";
}

static bool are_times(const double *samples, int count) {
    for (int i = 0; samples != NULL && i < count; i++)
        if (!is_within(samples[i], least_seconds, most_seconds))
            return false;
    return true;
}

static const int64_t last_microsecond = 253402300799999999; /* the end of the year 9999 */

const char *sweep_result_fault(const struct sweep_result *result) {
    bool measured = result->outcome == OUTCOME_MEASURED;
    if (*result->candidate == '\0')
        return "no candidate";
    if (!text_is_plain(result->candidate, "") || !text_is_plain(result->environment, "") ||
        !text_is_plain(result->message, "\n"))
        return "a control character";
    if (measured != (result->sample_count > 0))
        return measured ? "measured, but without samples" : "failed, but with samples";
    if (!are_times(result->samples, result->sample_count) ||
        !are_times(result->baseline, result->sample_count))
        return "a sample that is not 1e-12 to 1e6 seconds";
    if (result->limit != LIMIT_NONE && !is_within(result->limit_rate, 1, most_work))
        return "a limit that is not 1 to 1e18";
    if (result->measured < 0 || result->measured > last_microsecond)
        return "a time that is not of the years 1970 to 9999";
    return result->code_bytes >= 0 ? NULL : "code of less than 0 bytes";
}
