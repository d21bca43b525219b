/* What the functions of libkvmill_specs have in common.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_LIBSPECS_READING_H
#define KVMILL_LIBSPECS_READING_H

#include <locale.h>

#include <kvmill_specs.h>

#include "../base/error.h"

/* Puts the thread in the C locale while a text is read, so that numbers have decimal points. */
locale_t reading_begin(void);
void reading_end(locale_t before);

/* Returns KVMILL_OK if the text was read, or the status of the reader's failure, with its
   message. */
kvmill_status reading_status(bool done, const struct error *reason, kvmill_error *error);

#endif
