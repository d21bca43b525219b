/* The tuning database: results of measurements in SQLite, each stored in a transaction.

   Several processes may write to one database at the same time.  A process that finds it locked
   waits for up to ten seconds.  Each result is stored completely or not at all, however the process
   ends, and remains once it is stored.

   If the contents of a database are unusable (another version, another program's, damaged), the
   error is EXIT_USER.  If the system refuses access (read-only, locked, disk full), it is
   EXIT_ENVIRONMENT.  Both messages name the file.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_DATABASE_H
#define KVMILL_TUNE_DATABASE_H

#include "sweep.h"

struct database;

enum database_use { DATABASE_READ, DATABASE_WRITE, DATABASE_CREATE };

/* Opens a database; DATABASE_CREATE creates it if necessary.  Returns NULL after an error. */
struct database *database_open(const char *path, enum database_use use, struct error *error);
void database_close(struct database *database); /* NULL is allowed */

/* Sets *is if the file begins like a file of SQLite, or is empty.  Returns false if it cannot be
   opened. */
bool is_database(const char *path, bool *is, struct error *error);

/* The numbers of results that were added, and that were already there. */
struct additions {
    int64_t added;
    int64_t known; /* already there */
};

/* Adds a result in a transaction.  Its key, candidate and time identify it.  If the database has
   other contents for them, it is not changed: EXIT_USER. */
bool database_add(struct database *database, const struct sweep_key *key,
                  const struct sweep_result *result, struct error *error);

/* Adds all results in one transaction: all or, after an error, none. */
bool database_add_all(struct database *database, const struct sweeps *sweeps,
                      struct additions *additions, struct error *error);
bool database_remove_all(struct database *database, const struct sweeps *sweeps,
                         struct error *error);

/* Reads all results, sorted.  Fails if a row is invalid. */
bool database_read(struct database *database, struct sweeps *sweeps, struct error *error);

/* Checks that the file is intact: pages, indices, references. */
bool database_check(struct database *database, struct error *error);

#endif
