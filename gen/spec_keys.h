/* Keys of specs, read and written as the description of their op says.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SPEC_KEYS_H
#define KVMILL_GEN_SPEC_KEYS_H

#include "spec.h"

/* All that the op's description says: unknown and missing keys are refused, attributes go into the
   spec's parts, shapes into its tensors. */
bool spec_read_keys(const struct json_place *place, struct spec *spec, struct error *error);

/* Every part of the spec as the description's defaults are. */
void spec_init_parts(struct spec *spec);

/* Attributes, and shapes, in the description's order; defaults are left out as it says. */
void spec_write_attributes(const struct spec *spec, json_t *object);
void spec_write_shapes(const struct spec *spec, json_t *object);

/* The members that are not as the library's init function leaves them, as calls of km_set. */
bool spec_define_members(const struct spec *spec, struct text *text);

/* ---- Values ---- */

bool spec_read_flag(const struct json_place *place, int32_t *flag, struct error *error);
bool spec_read_real(const struct json_place *place, double *value, struct error *error);

/* One of `words`, which end with NULL: *word is the constant among them. */
bool spec_read_word(const struct json_place *place, const char *const *words, const char **word,
                    struct error *error);

/* An element type that is among `words`; NULL: any. */
bool spec_read_type(const struct json_place *place, const char *const *words, DLDataType *type,
                    struct error *error);

/* An array of dims, with "?" for one that only the run knows.  An absent shape is left for the
   inputs of a run to tell. */
bool spec_read_shape(const struct json_place *place, DLTensor *tensor, struct error *error);
json_t *spec_write_shape(const DLTensor *tensor);

/* An optional text for the pack's header, of what `good` lets pass, in words `accepted`. */
bool spec_read_label(const struct json_place *place, const char *key, bool (*good)(const char *),
                     const char *accepted, char *label, size_t size, struct error *error);

#endif
