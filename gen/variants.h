/* The choices for a kernel: the other variants of its family for the same shape, and the tunables
   that the templates declare.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_VARIANTS_H
#define KVMILL_GEN_VARIANTS_H

#include "kernel.h"

enum { MOST_TUNABLES = 16, MOST_TUNABLE_VALUES = 16 };

struct tunable {
    char name[TUNING_SIZE];
    int64_t preset;
    int64_t values[MOST_TUNABLE_VALUES];
    int value_count;
    char what[128]; /* in words */
};

/* One variant on one instruction set: its tunables, and a kernel for each legal point. */
struct tunable_space {
    struct tunable tunables[MOST_TUNABLES];
    int count;
    struct kernel_list points; /* the preset is among them, with an empty tuning */
};

/* Expands the family's declarations.  Free the space in any case. */
bool tunable_space_read(const struct kernel *kernel, struct tunable_space *space,
                        struct error *error);
void tunable_space_free(struct tunable_space *space);

/* Values as text, "1, 2, 4". */
enum { TUNABLE_WORDS_SIZE = 256 };
void tunable_words(const struct tunable *tunable, char words[TUNABLE_WORDS_SIZE]);

/* Append a tunable to a tuning, unless it has its preset; tunables come in their order.  false: too
 * long. */
bool tuning_add(const struct tunable *tunable, int64_t value, char tuning[TUNING_SIZE]);

/* The tunable's value at a point. */
int64_t tunable_value(const struct tunable *tunable, const struct kernel *point);

/* Check that a tuning from a user is a legal point; the message says what is accepted. */
bool tuning_check(const struct kernel *kernel, struct error *error);

/* All variants of the family that can do what the kernel does, in the family's order, each for the
   kernel's instruction set with those of the extensions in `isas` that it uses; at most
   MOST_ALTERNATIVES. */
enum { MOST_ALTERNATIVES = 8 };
bool kernel_alternatives(const struct kernel *kernel, const struct isa_list *isas,
                         struct kernel_list *list, struct error *error);

#endif
