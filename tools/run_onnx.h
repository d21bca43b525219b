/* kvmill run for ONNX models.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_RUN_ONNX_H
#define KVMILL_TOOLS_RUN_ONNX_H

#include "../base/error.h"
#include "options.h"

/* Runs a model from arrays of --in to arrays of --out.  All of its nodes must be ops that kvmill
   runs. */
bool run_onnx(const struct options *given, const char *name, struct error *error);

#endif
