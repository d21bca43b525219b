/* Attributes of ops in words, by the ops' descriptions: "num_heads=6 T1=float16 softcap=nan"; and
   changes to tensors.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TESTS_SETTINGS_H
#define KVMILL_TESTS_SETTINGS_H

#include "../defs/op.h"
#include "fence.h"

/* A word of a text, separated by spaces: "name=value", or a name alone, with the value "". */
struct setting {
    char name[48], value[192];
};

/* Reads the next word and moves `text` past it; returns false at the end. */
bool setting_next(const char **text, struct setting *setting);

/* Read the integers of a value, "7,0,12"; "max" and "min" are those of int64_t.  Returns how
   many. */
int setting_integers(const char *value, int64_t *integers, int most);
int64_t setting_integer(const char *value);

/* Returns an element type.  "none" is no type; "code.bits.lanes" is for types without a name. */
DLDataType setting_type(const char *value);

/* Sets the attribute with this name; returns false if it does not exist.  "-" is ignored. */
bool setting_apply(const struct setting *setting, const struct op_struct *part, void *base);

/* Chooses among alternatives in braces, "T1={float32|float16}", which may be nested: `pick` returns
   the index of one. */
void setting_choose(const char *settings, int64_t (*pick)(void *context, int64_t alternatives),
                    void *context, char *chosen, size_t size);

/* A `pick` that chooses at random. */
int64_t setting_roll(void *dice, int64_t alternatives);

/* Passes all settings of a text to `say`, with alternatives chosen at random; a setting that it
   does not know ends the program. */
void setting_say(const char *settings, struct dice *dice, void *to,
                 bool (*say)(void *to, const struct setting *setting));

/* Sets attributes from a text; the others get their defaults. */
void setting_fill(const struct op_struct *part, void *base, const char *settings,
                  struct dice *dice);

/* Gives attributes that are tensors the tensors of a call, which has `count` of them. */
void setting_tensors(const struct op *op, void *base, const DLTensor *const *tensors, int count);

/* A member of a struct that settings can set; the last entry has no name. */
struct wanted_setting {
    const char *name;
    size_t offset;
    enum { SETTING_INTEGER, SETTING_LIST, SETTING_TYPE, SETTING_WORD } kind; /* int64_t, or 16 */
};

/* clang-format off */
#define SETTING_KIND(member) _Generic(member, int64_t: SETTING_INTEGER, int64_t *: SETTING_LIST, \
                                      DLDataType: SETTING_TYPE, const char *: SETTING_WORD)
#define SETTING_OF(base, name, member) \
    {name, offsetof(base, member), SETTING_KIND(((base *)NULL)->member)}
/* clang-format on */

/* Sets the member; returns how many values the setting has, or -1 if no member has this name. */
int setting_want(const struct setting *setting, const struct wanted_setting *wanted, void *base);

/* Reads one integer for all, or a list; returns how many values were given. */
int setting_spread(const char *value, int64_t *integers, int64_t count);

/* ---- Changes to tensors ---- */

struct bent {
    DLTensor dl;
    int64_t shape[MOST_DIMS + 1], strides[MOST_DIMS + 1];
};

/* Copies a tensor without changes. */
void bent_from(struct bent *bent, const DLTensor *good);

/* Applies a change: rank, type, shape, strides, offset (of bytes), .N (a dim); dims, stride: of all
   axes; "more", one more dim; "empty", "device", "no-data", "no-shape".  Returns false for any
   other word. */
bool bent_by(struct bent *bent, const char *word, const char *value);

#endif
