/* The device that ggml is given.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_DEVICE_H
#define KVMILL_GGML_DEVICE_H

#include "ggml_api.h"

/* Returns what ggml's library must register, or NULL, after a line on standard error, if it cannot
   use kvmill. */
ggml_backend_reg_t device_open(void *library);

/* Returns the device if a ggml uses it, or NULL. */
ggml_backend_dev_t device_own(void);

#endif
