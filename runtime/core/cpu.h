/* Instruction sets: the list, those of this CPU, and the limit that the environment sets.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_CPU_H
#define KVMILL_RUNTIME_CORE_CPU_H

#include <kvmill.h>
#include <stdbool.h>

/* Position in the list, worst first; -1 for an unknown name. */
int kvmill_isa_rank(const char *name);

/* Instruction sets of one level differ in extensions only; the name must be known. */
int kvmill_isa_level(const char *name);

/* The list's own text of a name, NULL for NULL and ""; origin: whose name it is, for messages. */
kvmill_status kvmill_isa_known(const char *name, const char *origin, const char **known,
                               kvmill_error *error);

/* The best rank that may be used: capped by `wanted` (NULL = no wish) and by KVMILL_ISA. */
kvmill_status kvmill_isa_cap(const char *wanted, int *rank, kvmill_error *error);

/* Of AMD's make. */
bool kvmill_cpu_is_amd(void);

/* Maker, family and model: "AuthenticAMD 25-17"; the architecture alone where that is all there is
   to know. */
enum { PROCESSOR_SIZE = 64 };
void kvmill_processor_words(char words[PROCESSOR_SIZE]);

#endif
