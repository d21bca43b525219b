/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <string.h>

#include "tap.h"

struct table table_open(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/tables/%s.tsv", KVMILL_SOURCEDIR, name);
    struct table table = {.file = fopen(path, "r")};
    if (table.file == NULL)
        bail_out("cannot read %s", path);
    return table;
}

void table_close(struct table *table) {
    fclose(table->file);
}

bool table_next(struct table *table, char **columns, int count) {
    do {
        if (fgets(table->line, sizeof table->line, table->file) == NULL)
            return false;
        if (strchr(table->line, '\n') == NULL)
            bail_out("a line is too long: %s", table->line);
    } while (table->line[0] == '#');
    char *rest = table->line;
    rest[strcspn(rest, "\n")] = '\0';
    for (int i = 0; i < count; i++)
        columns[i] = rest != NULL ? strsep(&rest, "\t") : "";
    return true;
}
