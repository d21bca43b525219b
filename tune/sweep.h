/* Sweeps: all results that may be compared with each other, which are those with the same key.

   Strings are owned, never NULL, and contain no newlines; newlines of a message become spaces.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_H
#define KVMILL_TUNE_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"
#include "outcome.h"

/* What results depend on beside the candidate. */
struct sweep_key {
    char *cpu;       /* model, as environment_cpu says it */
    char *compiler;  /* the first line of its --version */
    char *flags;     /* its options */
    char *templates; /* hash of the generator's templates */
    char *isa;
    char *spec;    /* canonical text of one kernel request */
    char *problem; /* what it was run on: "decode 4096 tokens" */
    int threads;
    double bytes, flops; /* of one run: memory that is moved at least, operations that count */
};

/* What bounds the speed, measured in the same run. */
enum limit_kind { LIMIT_NONE, LIMIT_BYTES, LIMIT_FLOPS };

/* "none", "bytes", "flops"; the text is constant. */
const char *limit_word(enum limit_kind kind);
bool limit_by_word(const char *word, enum limit_kind *kind);

struct sweep_result {
    char *candidate; /* text of a point */
    bool is_default;
    enum outcome outcome;
    char *message;              /* of a failure; "" */
    double *samples, *baseline; /* seconds of one run; of the default in turn with it, or NULL */
    int sample_count;           /* 0 for a failure */
    enum limit_kind limit;
    double limit_rate; /* bytes or operations a second */
    int64_t code_bytes;
    int64_t measured;  /* microseconds since 1970: with key and candidate, which result it is */
    char *environment; /* as environment_print says it */
};

struct sweep {
    struct sweep_key key;
    struct sweep_result *results; /* by candidate, then measured */
    size_t count;
};

struct sweeps {
    struct sweep *items; /* by key */
    size_t count;
};

/* A copy of a result, in the sweep of that key, a new one if there is none; EXIT_ENVIRONMENT when
   out of memory. Order is that of adding until sweeps_sort. */
bool sweeps_add(struct sweeps *sweeps, const struct sweep_key *key,
                const struct sweep_result *result, struct error *error);
bool sweeps_add_all(struct sweeps *sweeps, const struct sweeps *more, struct error *error);
void sweeps_sort(struct sweeps *sweeps);
void sweeps_free(struct sweeps *sweeps);

/* The insides of one, for who takes it out of the list. */
void sweep_free(struct sweep *sweep);

/* By all of the key, strings first; 0: equal. */
int sweep_key_compare(const struct sweep_key *a, const struct sweep_key *b);
bool sweep_results_equal(const struct sweep_result *a, const struct sweep_result *b);

/* What is wrong with a result, or NULL: no candidate, samples that are not positive, ... */
const char *sweep_key_fault(const struct sweep_key *key);
const char *sweep_result_fault(const struct sweep_result *result);

/* Samples are kept as text of nine digits; this is what such a text gives back. */
double sample_rounded(double seconds);

/* Walk the strings of a key or result: for reading, writing and freeing all alike. */
enum { KEY_STRINGS = 7, RESULT_STRINGS = 3 };
extern const char *const sweep_key_names[KEY_STRINGS];
char **sweep_key_string(struct sweep_key *key, int i);
const char *sweep_key_text(const struct sweep_key *key, int i);

#endif
