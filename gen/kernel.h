/* A kernel as data, before its text exists: family, shape, instruction set and variant.

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

/* The largest count that m4 can compute with; larger ones are left open. */
#define MOST_COUNT INT32_MAX

/* One property of a kernel's shape: a word of a list, or a count after a prefix. */
struct field {
    const char *name;         /* templates call it km_<name> */
    const char *prefix;       /* of a count; NULL for words */
    const char *const *words; /* ends with NULL; the value is the index */
    unsigned flags;
};
/* Kinds of fields: the word names a file in templates/format; a count that symbols omit if it is 0;
   64 bits, which are written as 16 hexadecimal digits; a word that names a format. */
enum { FIELD_TYPE = 1, FIELD_OPTIONAL = 2, FIELD_BITS = 4, FIELD_FORMAT = 8 };

/* A number of the family's problems, with the name of the struct's member, that the kernel has as a
   constant; 0: the kernel reads it. */
enum { FIELD_CONSTANT = 16 | FIELD_OPTIONAL };

enum { MOST_FIELDS = 20, TUNING_SIZE = 80, SYMBOL_SIZE = 240 };

/* Straight-line code moves at most this many units, with at most this many loads. */
enum { STRAIGHT_LINE_UNITS = 8192, STRAIGHT_LINE_LOADS = 256 };

/* The same number for templates: km_straight_units. */
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
    const char *tunables;        /* <folder>/<tunables>.m4 declares its tunables; or NULL */
    bool (*legal)(const struct kernel *kernel); /* whether the variant can serve the shape */
    void (*explain)(const struct kernel *kernel, FILE *stream);
    /* Definitions in addition to the fields, or NULL. */
    bool (*define)(const struct kernel *kernel, struct expansion *expansion);
    /* Whether everything that its source needs is known; NULL: the symbol is enough. */
    bool (*complete)(const struct kernel *kernel, struct error *error);
};

struct kernel {
    const struct family *family;
    int64_t value[MOST_FIELDS]; /* in the order of the family's fields */
    const struct isa *isa;
    const char *variant;      /* one of the family's */
    char tuning[TUNING_SIZE]; /* tunables that are not the preset: "block32_inner4", or "" */
};

/* The next tunable of a tuning, as text that ends with NUL; `tuning` moves on.  false after the
   last one.  Names consist of letters. */
bool next_tunable(const char **tuning, char name[TUNING_SIZE], int64_t *value);

/* The family with whose name the symbol begins; NULL if there is none. */
const struct family *family_of_symbol(const char *symbol);

void kernel_symbol(const struct kernel *kernel, char symbol[SYMBOL_SIZE]);
bool kernel_parse(const char *symbol, struct kernel *kernel, struct error *error);

/* Whether symbols differ at most in the part that says how, so that the kernels are
 * interchangeable. */
bool symbols_do_the_same(const char *a, const char *b);

/* A word of a field that has no prefix, NULL after the last. */
const char *field_word(const struct field *field, int64_t value);

static inline bool is_constant(const struct field *field) {
    return (field->flags & FIELD_CONSTANT) == FIELD_CONSTANT;
}

/* The numbers of its problems that the kernel has as constants: "heads 8, cache.row_stride 2048".
 */
void kernel_constant_words(const struct kernel *kernel, char words[SYMBOL_SIZE]);

/* Set a number that a kernel may have as a constant.  It stays open if it is unknown (0 or less),
   too large for symbols, or not among the family's numbers. */
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
