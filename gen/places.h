/* Finds the files that the command needs, relative to the command itself, so that an installation
   may be moved as a whole.  A command in its build tree uses the source and build trees: there
   configure has written the file build-tree, which names the source tree.
   Thread-safe; the returned strings are constant.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_PLACES_H
#define KVMILL_GEN_PLACES_H

/* The directory with templates/ and include/; $KVMILL_DATADIR has priority. */
const char *data_directory(void);

/* The directory of what the command loads at run time. */
const char *module_directory(void);

/* The library of the default pack, which may not exist. */
const char *default_pack(void);

/* Options that compile and link with the library, including a run path; NULL if its headers are not
   there, in which case pkg-config may know them. */
const char *library_cflags(void);
const char *library_libs(void);

#endif
