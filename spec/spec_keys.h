/* Reads and writes the keys of specs according to the description of their op.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_SPEC_KEYS_H
#define KVMILL_SPEC_SPEC_KEYS_H

#include "spec.h"

/* Set every part of the spec to the description's defaults. */
void spec_init_parts(struct spec *spec);

/* Write attributes in the description's order, omitting defaults where it says so; and the name. */
void spec_write_attributes(const struct spec *spec, json_t *object);
void spec_write_name(const struct spec *spec, json_t *object);

/* Call `each` for the members that differ from what the library's init function sets, until it
   returns false. */
typedef bool spec_member_hook(const struct op_member *member, const void *at, void *more);
bool spec_each_set_member(const struct spec *spec, spec_member_hook *each, void *more);

/* Initialise a new spec for an op of this family, with its defaults; and read a JSON object as such
   a spec. */
bool spec_begin_with(struct spec *spec, const struct spec_family *family, const struct op *op,
                     struct error *error);
bool spec_read_with(const struct json_place *place, struct spec *spec,
                    const struct spec_family *family, const struct op *op, struct error *error);

/* ---- Values ---- */

bool spec_read_flag(const struct json_place *place, int32_t *flag, struct error *error);
bool spec_read_real(const struct json_place *place, double *value, struct error *error);

/* One of `words`, which end with NULL; *word is set to the constant among them. */
bool spec_read_word(const struct json_place *place, const char *const *words, const char **word,
                    struct error *error);

/* An element type among `words`; NULL: any. */
bool spec_read_type(const struct json_place *place, const char *const *words, DLDataType *type,
                    struct error *error);

/* An array of dims, with "?" for one that only a run knows.  An absent shape follows from the
 * inputs of a run. */
bool spec_read_shape(const struct json_place *place, DLTensor *tensor, struct error *error);
json_t *spec_write_shape(const DLTensor *tensor);

/* An optional text for the pack's header, if `good` accepts it; `accepted` says in words what that
 * is. */
bool spec_read_label(const struct json_place *place, const char *key, bool (*good)(const char *),
                     const char *accepted, char *label, size_t size, struct error *error);

/* ---- Families: those whose specs need code of their own; the others are plain ---- */

extern const struct spec_family tensor_scatter_specs, cache_attention_specs, cache_attend_specs,
    onnx_attention_specs, gather_specs, window_scatter_specs, flow_specs, plain_specs,
    write_rows_specs;

/* The family of an op. */
const struct spec_family *spec_family_for(const struct op *op);

#endif
