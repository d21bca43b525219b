/* Prints the choices for kernels: variants, tunables and their legal values.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_TOOLS_KERNEL_SPACES_H
#define KVMILL_TOOLS_KERNEL_SPACES_H

#include "../base/json.h"
#include "../gen/kernel.h"

/* Print to standard output, as text or as JSON. */
bool print_variants(const struct kernel_list *kernels, const struct isa_list *isas,
                    struct error *error);
bool print_variants_json(const struct kernel_list *kernels, const struct isa_list *isas,
                         struct error *error);

#endif
