/* The settings of kvmill in a session: entries of its configuration.

   packs: paths of libNAME.so, separated by colons.  They are searched before those of KVMILL_PACKS
   and the pack that is part of this library.

   portable: 1: the provider also takes nodes that no pack has fast kernels for.  Default 0.

   math: the arithmetic of GroupQueryAttention and of PMX's nodes: f32, near or fast.  Default f32.

   make_kernels: 1, or a directory: the provider generates kernels for nodes that no pack has fast
   kernels for, and keeps them in the user's cache directory or in this one.  Default 0.

   make_seconds: the time limit for generating kernels.  Default 600.

   The key of an entry is kvmill.NAME, or NAME as an option of the provider.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BINDINGS_ONNXRUNTIME_ORT_SETTINGS_H
#define KVMILL_BINDINGS_ONNXRUNTIME_ORT_SETTINGS_H

#include "../common/loaded_packs.h"
#include "runtime.h"

struct settings {
    struct packs packs;
    bool portable;
    const char *math; /* NULL: f32 */
};

/* Whether and how the provider generates kernels. */
struct making {
    bool allowed;
    char directory[512]; /* "": the user's cache directory */
    int seconds;
};

/* Reads the entries, and releases them.  Fails for a pack that cannot be used, for invalid values,
   and for names of options that there are not.  making: NULL if the caller makes no kernels. */
OrtStatus *settings_read(struct settings *settings, struct making *making,
                         OrtKeyValuePairs *entries);

#endif
