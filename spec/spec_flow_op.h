/* Ops of a flow's programs in spec files, and their attributes.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_SPEC_FLOW_OP_H
#define KVMILL_SPEC_SPEC_FLOW_OP_H

#include "flow_spec.h"

/* `least` to `most` dims, numbers or words for them, at the end of dims[most]; the attention, the
   selection and the flow's own words are known. */
bool flow_read_dims(const struct json_place *place, const struct flow_spec *flow, size_t least,
                    size_t most, int64_t dims[3], struct error *error);

/* The value of one of the flow's own words; 0: there is no such word. */
int64_t flow_word(const struct flow_spec *flow, const char *text, size_t length);

/* The member `key`, a string; *word does not change if there is none. */
bool flow_read_word(const struct json_place *place, const char *key, const char **word,
                    struct error *error);

bool flow_read_op(const struct json_place *place, const struct flow_spec *flow, kvmill_flow_op *op,
                  struct error *error);

#endif
