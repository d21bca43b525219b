/* Does the ggml of the process have the interface of ggml_api.h?  Versions of the interface do not
   tell: structs and numbers have changed while the version stayed.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GGML_LAYOUT_H
#define KVMILL_GGML_LAYOUT_H

#include <stdbool.h>

/* Has this ggml make tensors, nodes and a backend, and looks where their members are.  Sets what is
   different in different releases: see struct host.  Returns false, with a notice, if something
   else is different.  The CPU device must be registered, and calls_find have
   found ggml's functions. */
bool layout_read(void);

#endif
