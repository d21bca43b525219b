/* The ONNX Runtime that has loaded this library.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_RUNTIME_H
#define KVMILL_ONNXRUNTIME_RUNTIME_H

#include <kvmill.h>

#include "ort_api.h"

/* The runtime's functions.  runtime_open sets it, before all other calls. */
extern const struct ort_api *ort;

/* Whether the runtime is older than ORT_VERSION. */
extern bool runtime_is_old;

/* Finds the functions.  Fails if the runtime is older than 1.`least`. */
OrtStatus *runtime_open(const struct ort_api_base *base, unsigned least);

/* Returns a status with a message, which the caller must release or pass on. */
__attribute__((format(printf, 2, 3))) OrtStatus *runtime_fail(unsigned code, const char *format,
                                                              ...);

/* Returns a status with kvmill's error, or NULL for KVMILL_OK. */
OrtStatus *runtime_refuse(kvmill_status status, const kvmill_error *error);

/* Releases a status.  Returns whether it was success. */
bool runtime_succeeded(OrtStatus *status);

/* Writes a line to the runtime's log. */
__attribute__((format(printf, 3, 4))) void runtime_log(const OrtLogger *logger, unsigned level,
                                                       const char *format, ...);

#endif
