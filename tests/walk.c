/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int isa_rank(const char *isa) {
    const char *name;
    for (int i = 0; (name = kvmill_isa_name((size_t)i)) != NULL; i++)
        if (strcmp(name, isa) == 0)
            return i;
    return -1;
}

bool isa_is_allowed(const char *isa) {
    const char *cap = getenv("KVMILL_ISA");
    return kvmill_isa_usable(isa) &&
           (cap == NULL || *cap == '\0' || isa_rank(isa) <= isa_rank(cap));
}

struct dice dice_for_kernel(const struct kvmill_kernel *kernel) {
    char what[256];
    const char *how = strstr(kernel->symbol, "__");
    snprintf(what, sizeof what, "%.*s", how ? (int)(how - kernel->symbol) : 255, kernel->symbol);
    return dice_for(what);
}

int64_t constant_of(const struct kvmill_kernel *kernel, const char *name, int64_t otherwise) {
    for (size_t i = 0; i < kernel->constant_count; i++)
        if (strcmp(kernel->constants[i].name, name) == 0)
            return kernel->constants[i].value;
    return otherwise;
}

void kernel_ran(const struct kvmill_kernel *kernel) {
    const char *path = getenv("KVMILL_RAN");
    FILE *stream = path != NULL ? fopen(path, "a") : NULL;
    if (stream == NULL)
        return;
    fprintf(stream, "%s\n", kernel->symbol);
    fclose(stream);
}

const kvmill_plan_options *one_kernel(struct one_kernel *one, const struct kvmill_kernel *kernel) {
    *one = (struct one_kernel){.kernel = kernel, .list = {&one->pack}};
    one->pack = (kvmill_pack){.abi = KVMILL_KERNEL_ABI,
                              .count = 1,
                              .name = "one",
                              .kernels = &one->kernel,
                              .manifest = ""};
    one->options = (kvmill_plan_options){
        .struct_size = sizeof one->options, .packs = one->list, .pack_count = 1};
    return &one->options;
}
