/* Reads sweeps from databases and texts, and combines those of several files.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_FILE_H
#define KVMILL_TUNE_SWEEP_FILE_H

#include "sweep.h"

/* Reads a database, or the text of one.  Free the sweeps also after a failure. */
bool sweeps_read_file(const char *path, struct sweeps *sweeps, struct error *error);

/* Reads a database, a text, or all texts NAME.tune of a directory. */
bool sweeps_read_files(const char *path, struct sweeps *sweeps, struct error *error);

/* Whether both keys are about the same work: spec, problem, instruction set and threads are equal;
   machine and compiler may differ. */
bool sweeps_same_work(const struct sweep_key *a, const struct sweep_key *b);

/* Returns the time of the latest result. */
int64_t sweep_time(const struct sweep *sweep);

/* Returns the latest sweep about the work of a key, or NULL. */
const struct sweep *sweeps_latest(const struct sweeps *sweeps, const struct sweep_key *key);

/* Writes the work of a key: "32/8x128 float16, decode 4096 tokens, avx2, 2 threads". */
enum { WORK_SIZE = 160 };
void sweep_work_words(const struct sweep_key *key, char words[WORK_SIZE]);

/* Write the two halves of the work: the kernel, "" if the spec is not a symbol; and the problem,
   instruction set and threads. */
void sweep_kernel_words(const struct sweep_key *key, char words[WORK_SIZE]);
void sweep_problem_words(const struct sweep_key *key, char words[WORK_SIZE]);

#endif
