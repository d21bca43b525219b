/* A kernel before it is text: its family, its shape, its instruction set and variant.

   The symbol identifies a kernel: kvmill_<family>_<fields>__<isa>_<variant>_<tuning>. The part
   before the double underscore says what is computed, the part after it how. kernel_parse reads
   what kernel_symbol writes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_KERNEL_H
#define KVMILL_GEN_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../base/error.h"
#include "isa_list.h"

/* A count field that the kernel leaves open; written as "n". */
#define ANY_COUNT (-1)

/* What m4 can compute with; a larger count is left open. */
#define MOST_COUNT INT32_MAX

/* One property of a kernel's shape: a word out of a list, or a count after a prefix. */
struct field {
    const char *name;         /* as templates know it: km_<name> */
    const char *prefix;       /* of a count; NULL for words */
    const char *const *words; /* ends with NULL; the value is the index */
    unsigned flags;
};
/* The word names a file in templates/format; a count that symbols leave out where it is 0; no count
   but 64 bits, which are written as 16 hexadecimal digits; words are the names of formats. */
enum { FIELD_TYPE = 1, FIELD_OPTIONAL = 2, FIELD_BITS = 4, FIELD_FORMAT = 8 };

/* A number of the family's problems, named as the struct's member, that the kernel has as a
   constant; 0: it reads it. */
enum { FIELD_CONSTANT = 16 | FIELD_OPTIONAL };

enum { MOST_FIELDS = 20, TUNING_SIZE = 80, SYMBOL_SIZE = 240 };

/* Straight-line code moves at most this many units, and no more than so many loads move. */
enum { STRAIGHT_LINE_UNITS = 8192, STRAIGHT_LINE_LOADS = 256 };

/* The same as templates know it: km_straight_units. */
int64_t straight_line_units(const struct isa *isa);

struct kernel;
struct expansion;

/* A kernel family: one template, one portable version in the runtime, one oracle in the tests. */
struct family {
    const char *name;
    const char *op;     /* the op whose specs it serves, for listings */
    const char *folder; /* templates/kernel/<folder> has its templates */
    const char *const
        *libraries; /* <folder>/<library>.m4: what its variants share; ends with NULL */
    const struct field *fields;
    int field_count;
    const char *const *variants; /* ends with NULL */
    bool formats;                /* its templates know formats of rows: templates/format/rows.m4 */
    const char *tunables;        /* <folder>/<tunables>.m4: what its kernels leave open; or NULL */
    bool (*legal)(const struct kernel *kernel); /* the variant can serve the shape */
    void (*explain)(const struct kernel *kernel, FILE *stream);
    /* Definitions beside the fields, or NULL. */
    bool (*define)(const struct kernel *kernel, struct expansion *expansion);
    /* Whether all is known that its source needs, or NULL: what the symbol says is enough. */
    bool (*complete)(const struct kernel *kernel, struct error *error);
};

struct kernel {
    const struct family *family;
    int64_t value[MOST_FIELDS]; /* in the order of the family's fields */
    const struct isa *isa;
    const char *variant;      /* one of the family's */
    char tuning[TUNING_SIZE]; /* tunables that are not the preset: "block32_inner4", or "" */
};

/* The next tunable of a tuning, NULL-terminated text that `tuning` moves through; false after the
   last.  Names are letters. */
bool next_tunable(const char **tuning, char name[TUNING_SIZE], int64_t *value);

/* The family whose name the symbol begins with, NULL where there is none. */
const struct family *family_of_symbol(const char *symbol);

void kernel_symbol(const struct kernel *kernel, char symbol[SYMBOL_SIZE]);
bool kernel_parse(const char *symbol, struct kernel *kernel, struct error *error);

/* Whether symbols differ in how at most: they are interchangeable. */
bool symbols_do_the_same(const char *a, const char *b);

/* A word of a field that has no prefix, NULL after the last. */
const char *field_word(const struct field *field, int64_t value);

static inline bool is_constant(const struct field *field) {
    return (field->flags & FIELD_CONSTANT) == FIELD_CONSTANT;
}

/* The numbers of its problems that the kernel has as constants: "heads 8, cache.row_stride 2048".
 */
void kernel_constant_words(const struct kernel *kernel, char words[SYMBOL_SIZE]);

/* A number that a kernel may have as a constant, or that its shape leaves open.  One that is not
   known (0 or less), that is too large for symbols, or that its family does not know stays open. */
struct constant {
    const char *name;
    int64_t value;
};
enum { MOST_CONSTANTS = 8 };
struct constants {
    struct constant items[MOST_CONSTANTS];
    int count;
};
void constants_add(struct constants *constants, const char *name, int64_t value);
void kernel_fix(struct kernel *kernel, const struct constants *constants);

/* The shape in one word, "h8_mn_s1_d256", without the words of other fields. */
void kernel_shape_words(const struct kernel *kernel, char words[SYMBOL_SIZE]);

/* ---- Lists without duplicates, in order of first appearance ---- */

struct kernel_list {
    struct kernel *items;
    size_t count;
};

bool kernel_list_add(struct kernel_list *list, const struct kernel *kernel, struct error *error);
void kernel_list_free(struct kernel_list *list);

#endif
