/* Checks an op's attributes against their description.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_ATTRIBUTES_H
#define KVMILL_OPS_ATTRIBUTES_H

#include "../defs/format.h"
#include "../defs/op.h"

/* Check ranges, words, versions and factors of the members of one of the op's structs. */
kvmill_status kvmill_check_attributes(const struct op *op, const struct op_struct *part,
                                      const void *base, kvmill_error *error);

/* The same for the first struct of op `number` of a family. */
kvmill_status kvmill_check_members(enum op_family family, int number, const void *base,
                                   kvmill_error *error);

/* Check the lists of axes in it: they have at most as many items as a tensor can have axes, and are
   not NULL, except for the one called `open` (or NULL for none), whose items may be unknown. */
kvmill_status kvmill_check_axis_lists(enum op_family family, const void *base, const char *open,
                                      kvmill_error *error);

/* PREFIX NAME is TYPE; accepted: ACCEPTED */
kvmill_status kvmill_refuse_member_type(const char *prefix, const char *name, DLDataType type,
                                        const char *accepted, kvmill_error *error);

/* Check a word of kvmill_mode_words; NULL: linear. */
bool kvmill_is_circular(const char *mode);

/* Refuse "saturate" where there are no scales. */
kvmill_status kvmill_refuse_saturation(kvmill_error *error);

/* "float32, float16, bfloat16": the types of activations. */
const char *kvmill_list_activations(char text[KVMILL_WORDS_SIZE]);

#endif
