/* WriteRows in spec files.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/write_rows.h"
#include "spec_keys.h"

static void *write_rows_part(struct spec *spec, int number) {
    (void)number;
    return &spec->write_rows;
}

bool write_rows_shape(const struct spec *spec, struct kvmill_convert_shape *shape,
                      struct error *error) {
    kvmill_error reason;
    return kvmill_write_rows_check(&spec->write_rows, shape, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool check_write_rows(const struct spec *spec, struct error *error) {
    struct kvmill_convert_shape shape;
    return write_rows_shape(spec, &shape, error);
}

const struct spec_family write_rows_specs = {
    .part = write_rows_part,
    .check = check_write_rows,
};
