/* The tuning database: results of measurements, in SQLite, a transaction for each.

   Several processes may write to one database at the same time; a process that finds it locked
   waits for up to ten seconds.  Each result is stored completely or not at all, however the process
   ends, and remains once it is stored.

   If the contents of a database are unusable (another version, another program's, damaged), the
   error is EXIT_USER. If the system refuses access (read-only, locked, disk full), it is
   EXIT_ENVIRONMENT. Both messages name the file.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TUNE_DATABASE_H
#define KVMILL_TUNE_DATABASE_H

#include "sweep.h"

struct database;

enum database_use { DATABASE_READ, DATABASE_WRITE, DATABASE_CREATE };

/* DATABASE_CREATE makes it if it is not there.  NULL after an error. */
struct database *database_open(const char *path, enum database_use use, struct error *error);
void database_close(struct database *database); /* NULL is allowed */

/* Whether the file begins as SQLite's do; an empty one does, too.  false: it cannot be opened. */
bool is_database(const char *path, bool *is, struct error *error);

/* What adding did. */
struct additions {
    int64_t added;
    int64_t known; /* were there already */
};

/* One transaction.  A result is known by its key, candidate and time; where those are there with
   other contents the database stays as it is, EXIT_USER. */
bool database_add(struct database *database, const struct sweep_key *key,
                  const struct sweep_result *result, struct error *error);

/* All of them in one transaction: all or, after an error, none. */
bool database_add_all(struct database *database, const struct sweeps *sweeps,
                      struct additions *additions, struct error *error);
bool database_remove_all(struct database *database, const struct sweeps *sweeps,
                         struct error *error);

/* Everything there is, sorted.  Rows with a fault are an error. */
bool database_read(struct database *database, struct sweeps *sweeps, struct error *error);

/* Whether the file is whole: pages, indices, references. */
bool database_check(struct database *database, struct error *error);

#endif
