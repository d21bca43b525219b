/* Sweeps as canonical text: sorted, one fact per line, for review, comparison and version control.

     kvmill-tune 1

     sweep
     cpu GenuineIntel 6-207-2 Intel(R) Xeon(R) Processor
     ...                        compiler, flags, templates, isa, spec, problem, threads, bytes,
   flops result measured tile=4 strip=2 default                    for the default alone time
   2026-11-21T22:50:00.000000Z
     ...                        code, limit, environment, samples, baseline; message of a failure
     end 1

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_TEXT_H
#define KVMILL_TUNE_SWEEP_TEXT_H

#include "../base/text.h"
#include "sweep.h"

/* The sweeps must be sorted. */
bool sweeps_print(const struct sweeps *sweeps, struct text *text, struct error *error);

/* "file:line: what is wrong; what is accepted", EXIT_USER.  A text without its end is refused. Adds
   to the sweeps, which are sorted then; free them also after a failure. */
bool sweeps_parse(const char *file, const char *text, struct sweeps *sweeps, struct error *error);

/* Nine digits each, by spaces: how samples are written. */
bool samples_print(const double *samples, int count, struct text *text);

/* NULL: not such a text (count -1), or out of memory (any other count). */
double *samples_parse(const char *text, int *count);

#endif
