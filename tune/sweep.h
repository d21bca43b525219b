/* Sweeps.  A sweep contains all results with the same key; only these may be compared.

   The structs own their strings, which are never NULL and contain no newlines; newlines of a
   message become spaces.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_H
#define KVMILL_TUNE_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"
#include "outcome.h"

/* What results depend on, in addition to the candidate. */
struct sweep_key {
    char *cpu;       /* the model, as environment_read_cpu returns it */
    char *compiler;  /* the first line of its --version */
    char *flags;     /* the compiler's options */
    char *templates; /* hash of the generator's templates */
    char *isa;
    char *spec;    /* canonical text of one kernel request */
    char *problem; /* the problem: "decode 4096 tokens" */
    int threads;
    double bytes, flops; /* of one run: least memory traffic, operations that count */
};

/* The kind of limit on the speed, measured in the same run. */
enum limit_kind { LIMIT_NONE, LIMIT_BYTES, LIMIT_FLOPS };

/* Returns "none", "bytes" or "flops", a constant. */
const char *limit_word(enum limit_kind kind);
bool limit_by_word(const char *word, enum limit_kind *kind);

struct sweep_result {
    char *candidate; /* text of a point */
    bool is_default;
    enum outcome outcome;
    char *message;              /* a failure's, or "" */
    double *samples, *baseline; /* seconds of one run; the default's, in turn with it, or NULL */
    int sample_count;           /* 0 for a failure */
    enum limit_kind limit;
    double limit_rate; /* bytes or operations a second */
    int64_t code_bytes;
    int64_t measured;  /* microseconds since 1970; identifies the result, with key and candidate */
    char *environment; /* as environment_print writes it */
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

/* Adds a copy of a result to the sweep of that key, or to a new one.  EXIT_ENVIRONMENT if out of
   memory.  The order is that of adding, until sweeps_sort. */
bool sweeps_add(struct sweeps *sweeps, const struct sweep_key *key,
                const struct sweep_result *result, struct error *error);
bool sweeps_add_all(struct sweeps *sweeps, const struct sweeps *more, struct error *error);
void sweeps_sort(struct sweeps *sweeps);

/* Returns the sweep of a key, or NULL; whether it has a result of the candidate. */
const struct sweep *sweeps_find(const struct sweeps *sweeps, const struct sweep_key *key);
bool sweeps_have(const struct sweeps *sweeps, const struct sweep_key *key, const char *candidate);

void sweeps_free(struct sweeps *sweeps);

/* Frees the contents of a sweep, for functions that remove it from a list. */
void sweep_free(struct sweep *sweep);

/* Compares whole keys, strings first.  Returns 0 if they are equal. */
int sweep_key_compare(const struct sweep_key *a, const struct sweep_key *b);
bool sweep_results_equal(const struct sweep_result *a, const struct sweep_result *b);

/* Return what is wrong with a key or a result (no candidate, samples that are not positive, ...),
   or NULL. */
const char *sweep_key_fault(const struct sweep_key *key);
const char *sweep_result_fault(const struct sweep_result *result);

/* Returns a sample as it is read back: samples are stored as text of nine digits. */
double sample_rounded(double seconds);

/* The strings of a key or result by index, for reading, writing and freeing. */
enum { KEY_STRINGS = 7, RESULT_STRINGS = 3 };
extern const char *const sweep_key_names[KEY_STRINGS];
char **sweep_key_string(struct sweep_key *key, int i);
const char *sweep_key_text(const struct sweep_key *key, int i);

#endif
