/* What is generated for WriteRows.

   SPDX-License-Identifier: Apache-2.0 */
#include "../ops/write_rows.h"
#include "convert_family.h"
#include "generators.h"

static bool write_rows_spec_kernels(const struct spec *spec, const struct isa *isa,
                                    struct kernel_list *list, struct error *error) {
    static const struct constants none = {.count = 0};
    struct kvmill_convert_shape shape;
    return write_rows_shape(spec, &shape, error) &&
           write_rows_kernels(&shape, &none, isa, list, error);
}

const struct generator write_rows_generator = {
    .kernels = write_rows_spec_kernels,
    .without_kernels = "rows are too long for kernels",
};
