/* Sweeps as canonical text: sorted, one fact per line, for review, comparison and version control.

     kvmill-tune 1

     sweep
     cpu GenuineIntel 6-207-2 Intel(R) Xeon(R) Processor
     ...                    compiler, flags, templates, isa, spec, problem, threads, bytes, flops
     result measured tile=4 strip=2
     default                only for the default
     time 2026-11-21T22:50:00.000000Z
     ...                    code, limit, environment, message of a failure, samples, baseline
     end 1

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_TEXT_H
#define KVMILL_TUNE_SWEEP_TEXT_H

#include "../base/text.h"
#include "sweep.h"

/* Prints sweeps, which must be sorted. */
bool sweeps_print(const struct sweeps *sweeps, struct text *text, struct error *error);

/* Parses a text, adds its results to the sweeps, and sorts them; free them also after a failure.
   Errors are "file:line: what is wrong; what is accepted", EXIT_USER.  Refuses a text without its
   end. */
bool sweeps_parse(const char *file, const char *text, struct sweeps *sweeps, struct error *error);

/* Prints samples with nine digits each, separated by spaces. */
bool samples_print(const double *samples, int count, struct text *text);

/* Returns samples, or NULL: *count is then -1 if the text is not a list of samples, or something
   else if out of memory. */
double *samples_parse(const char *text, int *count);

#endif
