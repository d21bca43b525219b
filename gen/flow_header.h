/* The functions of a pack's header that plan the steps of a flow.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_FLOW_HEADER_H
#define KVMILL_GEN_FLOW_HEADER_H

#include "../spec/spec.h"

bool flow_define_plan(const struct spec *spec, struct text *text);

#endif
