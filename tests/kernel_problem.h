/* Random problems for attention kernels, in memory of their own, and their results.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_KERNEL_PROBLEM_H
#define KVMILL_TESTS_KERNEL_PROBLEM_H

#include <kvmill_kernel.h>

#include "fence.h"
#include "oracle/oracle_cache_attention.h"

enum {
    MOST_POSITIONS = 90,
    AFTER = 16,
    MOST_ROWS = 9,
    MOST_CONSTANT_ROWS = 128,
    MOST_DIM = 1024,
    ELSEWHERE = 64
};

/* K or V. */
struct rows {
    struct oracle_side side;
    int64_t stride, scale_stride;
    struct fence data, scale;                 /* contiguous, for the oracle */
    struct fence data_of_call, scale_of_call; /* with the kernel's strides */
};

struct kernel_problem {
    const struct kvmill_attend_shape *shape;
    enum oracle_type activation;
    int64_t rows, count;
    double scale;
    struct rows key, value;
    struct fence query, output, workspace;
    struct fence mask;      /* [rows][count], or empty */
    struct fence elsewhere; /* memory without rows */
    struct kvmill_query_row row[MOST_CONSTANT_ROWS];
};

/* Scores of usual size are a few units; loud ones are 30 times as large. */
enum loudness { USUAL, LOUD };

/* What the next call reads: `rows` rows, at the same addresses or `elsewhere`, which kernels may
   prefetch but not load; without keys, it has the same addresses, too. */
struct next {
    int64_t rows;
    bool elsewhere, no_key;
};

void kernel_problem_open(struct kernel_problem *p, const struct kvmill_kernel *kernel,
                         enum loudness loudness, struct dice *dice);
void kernel_problem_close(struct kernel_problem *p);
void kernel_problem_run(const struct kvmill_kernel *kernel, const struct kernel_problem *p,
                        struct next next);

/* The largest error of an output before it is rounded to its type, as a share of its bound and of
   the largest output.  Infinite if an output should be finite and is not. */
struct errors {
    double of_bound, of_largest;
};

/* Compares row r of the output with attention in double precision.  worst: inputs were searched
   for, so roundings may add up as badly as they can. */
struct errors kernel_problem_errors(const struct kernel_problem *p, int64_t r, bool worst);

/* Writes a row of K or V. */
void kernel_problem_write(const struct kernel_problem *p, struct rows *rows, int64_t position,
                          const double *numbers);

/* Writes a row with a number that is not finite. */
void kernel_problem_poison(struct rows *rows, const struct kvmill_format *format, int activation,
                           int64_t position, struct dice *dice);

#endif
