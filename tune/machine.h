/* What results depend on: CPU, compiler, flags and templates.  Also finds results that were made
   with others.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_MACHINE_H
#define KVMILL_TUNE_MACHINE_H

#include "../base/program.h"
#include "sweep.h"

enum { HASH_SIZE = 17, MOST_FAMILIES = 16 };

/* templates: the hash of all that kernels are made of, and of what each family is made of. */
struct machine {
    char cpu[128], compiler[COMPILER_SIZE], flags[256], templates[HASH_SIZE];
    char family_templates[MOST_FAMILIES][HASH_SIZE]; /* in the order of family_at */
};

/* The CPU, the compiler and flags that packs are built with ($CC, $CFLAGS), the templates there
   are. EXIT_ENVIRONMENT where there are no templates; a compiler that cannot be run is "unknown".
 */
bool machine_read(struct machine *machine, struct error *error);

/* What results about that spec, the symbol of a kernel, depend on: changes of one family's
   templates leave the results of others as they are.  Of any other text: all templates. */
const char *machine_templates(const struct machine *machine, const char *spec);

/* Set the hashes from a directory of templates, in hexadecimal: of their code, not of comments and
   spaces. */
bool machine_hash_templates(const char *directory, struct machine *machine, struct error *error);

/* Why results of that key do not hold here. */
enum misfit { FITS, FOREIGN_CPU, STALE_TEMPLATES, OTHER_COMPILER, MISFITS };
enum misfit machine_misfit(const struct machine *machine, const struct sweep_key *key);

/* "measured on another CPU", ...; constant. */
const char *misfit_words(enum misfit misfit);

/* Which misfits are refused: a bit for each, 1 << FOREIGN_CPU. */
enum { REFUSE_ALL = 1 << FOREIGN_CPU | 1 << STALE_TEMPLATES | 1 << OTHER_COMPILER };

/* Take out the sweeps that are refused; results[misfit] counts what each has cost. */
void machine_filter(const struct machine *machine, unsigned refused, struct sweeps *sweeps,
                    size_t results[MISFITS]);

#endif
