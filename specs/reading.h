/* What the functions of libkvmill_specs have in common.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPECS_READING_H
#define KVMILL_SPECS_READING_H

#include <locale.h>

#include <kvmill_specs.h>

#include "../base/error.h"

/* Numbers have points, whatever the host's language: its thread is in the C locale while a text is
   read. */
locale_t reading_begin(void);
void reading_end(locale_t before);

/* How the reader's failure is told; KVMILL_OK where it is done. */
kvmill_status reading_status(bool done, const struct error *reason, kvmill_error *error);

#endif
