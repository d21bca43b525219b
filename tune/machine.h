/* What results depend on: CPU, compiler, flags and templates.  Finds results for which they differ.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_MACHINE_H
#define KVMILL_TUNE_MACHINE_H

#include "../base/find_program.h"
#include "sweep.h"

enum { HASH_SIZE = 17, MOST_FAMILIES = 16 };

/* templates is the hash of all templates, family_templates those of each family's templates. */
struct machine {
    char cpu[128], compiler[COMPILER_SIZE], flags[256], templates[HASH_SIZE];
    char family_templates[MOST_FAMILIES][HASH_SIZE]; /* in the order of family_at */
};

/* Reads the CPU, the compiler and flags that build packs ($CC, $CFLAGS), and the templates.
   EXIT_ENVIRONMENT if there are no templates.  A compiler that cannot be run is "unknown". */
bool machine_read(struct machine *machine, struct error *error);

/* Returns the hash of the templates that results for `spec` depend on.  If `spec` is the symbol of
   a kernel, these are its family's, so that changes to other families do not affect it; otherwise
   all. */
const char *machine_templates(const struct machine *machine, const char *spec);

/* Computes the hashes of a directory of templates, in hexadecimal.  They cover code, but not
   comments and spaces. */
bool machine_hash_templates(const char *directory, struct machine *machine, struct error *error);

/* The reasons why results of a key are not valid on this machine. */
enum misfit { FITS, FOREIGN_CPU, STALE_TEMPLATES, OTHER_COMPILER, MISFITS };
enum misfit machine_misfit(const struct machine *machine, const struct sweep_key *key);

/* Returns "measured on another CPU", ..., a constant. */
const char *misfit_words(enum misfit misfit);

/* A set of misfits to refuse has the bit 1 << FOREIGN_CPU, ..., for each. */
enum { REFUSE_ALL = 1 << FOREIGN_CPU | 1 << STALE_TEMPLATES | 1 << OTHER_COMPILER };

/* Removes the sweeps with a refused misfit.  results[misfit] counts the results with each
   misfit. */
void machine_filter(const struct machine *machine, unsigned refused, struct sweeps *sweeps,
                    size_t results[MISFITS]);

#endif
