/* Gets the device into programs whose ggml loads no plugins, and says whether it is in use.

   A ggml with which a backend was linked, which is the default, does not load the library that
   GGML_BACKEND_PATH names unless a program asks for it, and few do.  But all programs ask how many
   devices there are before they load a model.  If this library is preloaded (LD_PRELOAD, kvmill
   llama), they ask its function of that name, which registers the device first.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_PRELOAD_H
#define KVMILL_GGML_PRELOAD_H

#include <stdbool.h>

/* The variable that holds the process that `kvmill llama` became. */
#define KVMILL_LAUNCHED "KVMILL_LAUNCHED"

/* Notes that a ggml uses the device, and says so if that is wanted. */
void preload_met(void);

/* Notes that ggml has offered an attention node. */
void preload_saw(bool is_taken);

#endif
