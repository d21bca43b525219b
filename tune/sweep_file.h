/* Reads sweeps from files of either kind, and combines those of several files.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_FILE_H
#define KVMILL_TUNE_SWEEP_FILE_H

#include "sweep.h"

/* A database, or the text of one.  Free the sweeps also after a failure. */
bool sweeps_read_file(const char *path, struct sweeps *sweeps, struct error *error);

/* The same, or all texts NAME.tune of a directory. */
bool sweeps_read_files(const char *path, struct sweeps *sweeps, struct error *error);

/* Whether both are about the same work: spec, problem, instruction set, threads; machine and
   compiler may differ. */
bool sweeps_same_work(const struct sweep_key *a, const struct sweep_key *b);

/* Time of the latest result. */
int64_t sweep_time(const struct sweep *sweep);

/* The latest sweep about that work, or NULL. */
const struct sweep *sweeps_latest(const struct sweeps *sweeps, const struct sweep_key *key);

/* What tells the work apart from others: "32/8x128 float16, decode 4096 tokens, avx2, 2 threads".
 */
enum { WORK_SIZE = 160 };
void sweep_work_words(const struct sweep_key *key, char words[WORK_SIZE]);

/* The two halves of that: the kernel, "" where the spec is no symbol of one, and what it is run on.
 */
void sweep_kernel_words(const struct sweep_key *key, char words[WORK_SIZE]);
void sweep_problem_words(const struct sweep_key *key, char words[WORK_SIZE]);

#endif
