/* Ops of a flow's programs in spec files, and the numbers and words that they are told by.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SPEC_FLOW_OP_H
#define KVMILL_GEN_SPEC_FLOW_OP_H

#include <kvmill.h>

#include "../base/json.h"

/* `least` to `most` dims, numbers or words for them, at the end of dims[most]; the attention and
   the selection of the flow are known. */
bool flow_read_dims(const struct json_place *place, const kvmill_flow *flow, size_t least,
                    size_t most, int64_t dims[3], struct error *error);

/* The member `key`, a string; *word stays where there is none. */
bool flow_read_word(const struct json_place *place, const char *key, const char **word,
                    struct error *error);

bool flow_read_op(const struct json_place *place, const kvmill_flow *flow, kvmill_flow_op *op,
                  struct error *error);

#endif
