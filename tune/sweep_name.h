/* Tells sweeps apart whose work has the same words.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_SWEEP_NAME_H
#define KVMILL_TUNE_SWEEP_NAME_H

#include "../base/text.h"
#include "sweep_file.h"

/* How many facts of a key count, in this order: spec, problem, instruction set, bytes, operations;
   CPU; compiler, flags, templates.  The others belong to sweeps of different times, which a report
   shows as one. */
enum sweep_facts { FACTS_OF_WORK = 5, FACTS_WITH_CPU = 6, ALL_FACTS = 9 };

/* Appends the facts that words of the work (sweep_work_words) do not say, as far as they tell the
   sweep from others in the list with the same words: ", 16777216 bytes".  Returns false if out of
   memory. */
bool sweep_tell_apart(const struct sweep_key *key, const struct sweeps *among,
                      enum sweep_facts facts, struct text *text);

#endif
