/* Instruction sets: the list, those of this CPU, and the limit that the environment sets.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_CPU_H
#define KVMILL_RUNTIME_CORE_CPU_H

#include <kvmill.h>
#include <stdbool.h>

/* Position in the list, worst first; -1 for an unknown name. */
int kvmill_isa_rank(const char *name);

/* The level of an instruction set.  Those of one level differ only in extensions.  The name must be
 * known. */
int kvmill_isa_level(const char *name);

/* The list's own text for a name, or NULL for NULL and ""; origin: where the name is from, for
   messages. */
kvmill_status kvmill_isa_known(const char *name, const char *origin, const char **known,
                               kvmill_error *error);

/* The best rank that may be used, limited by `wanted` (NULL: no limit) and by KVMILL_ISA. */
kvmill_status kvmill_isa_cap(const char *wanted, int *rank, kvmill_error *error);

/* Whether the processor is made by AMD. */
bool kvmill_cpu_is_amd(void);

/* Maker, family and model: "AuthenticAMD 25-17"; only the architecture, if nothing else is known.
 */
enum { PROCESSOR_SIZE = 64 };
void kvmill_processor_words(char words[PROCESSOR_SIZE]);

#endif
