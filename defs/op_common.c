/* What the descriptions of several ops have in common, and structs that are no op's.

   SPDX-License-Identifier: Apache-2.0 */
#include "op_tables.h"

const char *const kvmill_mode_words[] = {"linear", "circular", NULL};
const char *const kvmill_infinite_words[] = {"infinite", "saturate", NULL};
const char *const kvmill_saturate_words[] = {"saturate", "infinite", NULL};

#define SIZE_ALONE(NAME) .name = #NAME, .size = sizeof(NAME)
const struct op_struct kvmill_plan_options_struct = {SIZE_ALONE(kvmill_plan_options)};
const struct op_struct kvmill_pool_options_struct = {SIZE_ALONE(kvmill_pool_options)};
const struct op_struct kvmill_flow_layout_struct = {SIZE_ALONE(kvmill_flow_layout)};
const struct op_struct kvmill_flow_limits_struct = {SIZE_ALONE(kvmill_flow_limits)};
