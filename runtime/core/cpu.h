/* Instruction sets: the list, what this CPU has, and the cap of the environment.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_RUNTIME_CORE_CPU_H
#define KVMILL_RUNTIME_CORE_CPU_H

#include <kvmill.h>

/* Position in the list, worst first; -1 for an unknown name. */
int kvmill_isa_rank(const char *name);

/* Instruction sets of one level differ in extensions only; the name must be known. */
int kvmill_isa_level(const char *name);

/* The list's own text of a name, NULL for NULL and ""; origin: whose name it is, for messages. */
kvmill_status kvmill_isa_known(const char *name, const char *origin, const char **known,
                               kvmill_error *error);

/* The best rank that may be used: capped by `wanted` (NULL = no wish) and by KVMILL_ISA. */
kvmill_status kvmill_isa_cap(const char *wanted, int *rank, kvmill_error *error);

/* Places that a long piece of memory is best read from in turn: 1 or KVMILL_MOST_STREAMS. */
enum { KVMILL_MOST_STREAMS = 4 };
int kvmill_memory_streams(void);

#endif
