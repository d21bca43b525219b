/* Finds the files that the command needs, relative to the command itself, so that an installation
   may be moved as a whole.  A command in its build tree uses the source and build trees.
   Thread-safe; the returned strings are constant.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_PLACES_H
#define KVMILL_GEN_PLACES_H

/* Where templates/ and include/ are: $KVMILL_DATADIR goes before all else. */
const char *data_directory(void);

/* Where what the command loads at run time is. */
const char *module_directory(void);

/* The library of the default pack, which may not be there. */
const char *default_pack(void);

/* Options that compile and link with the library, a run path among them; NULL where its headers are
   not: pkg-config may know. */
const char *library_cflags(void);
const char *library_libs(void);

#endif
