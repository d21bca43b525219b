/* The ONNX Runtime that has loaded this library.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_RUNTIME_H
#define KVMILL_ONNXRUNTIME_RUNTIME_H

#include <kvmill.h>

#include "ort_api.h"

/* Its functions.  Set by runtime_open, before anything else is called. */
extern const struct ort_api *ort;

/* Whether it is older than ORT_VERSION. */
extern bool runtime_is_old;

/* Find the functions.  A runtime older than 1.`least` is refused. */
OrtStatus *runtime_open(const struct ort_api_base *base, unsigned least);

/* A status with a message.  The caller's, who mostly hands it on. */
__attribute__((format(printf, 2, 3))) OrtStatus *runtime_fail(unsigned code, const char *format,
                                                              ...);

/* What kvmill refused; NULL where that is nothing. */
OrtStatus *runtime_refuse(kvmill_status status, const kvmill_error *error);

/* Forget a status: true where it was success. */
bool runtime_succeeded(OrtStatus *status);

/* A line of the runtime's log. */
__attribute__((format(printf, 3, 4))) void runtime_log(const OrtLogger *logger, unsigned level,
                                                       const char *format, ...);

#endif
