/* The definitions of formats for templates/format/rows.m4.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_FORMATS_H
#define KVMILL_GEN_FORMATS_H

#include "m4.h"

bool define_formats(struct expansion *expansion);

#endif
