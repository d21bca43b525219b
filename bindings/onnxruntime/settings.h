/* The settings of kvmill in a session: entries of its configuration.

   packs: paths of libNAME.so, separated by colons, before those of KVMILL_PACKS and the pack that
   is part of this library.

   portable: 1, the provider takes nodes that no pack has fast kernels for, too; 0.

   math: f32, near or fast, the arithmetic of GroupQueryAttention and of PMX's nodes; f32.

   make_kernels: 1, or a directory: what the provider finds no fast kernels for, it makes some for,
   in the user's directory for caches, or this one; 0.

   make_seconds: how long that may take; 600.

   The key of an entry is kvmill.NAME; as an option of the provider, NAME.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_ONNXRUNTIME_SETTINGS_H
#define KVMILL_ONNXRUNTIME_SETTINGS_H

#include "../common/packs.h"
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
OrtStatus *settings_take(struct settings *settings, struct making *making,
                         OrtKeyValuePairs *entries);

#endif
