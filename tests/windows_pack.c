/* SPDX-License-Identifier: Apache-2.0 */
#include "windows_pack.h"

#include <dlfcn.h>

#include "../ops/element.h"
#include "plans.h"
#include "tap.h"
#include "walk.h"

int windows_cases(int usual) {
    const char *cases = getenv("KVMILL_WINDOWS_CASES");
    return cases ? atoi(cases) : usual;
}

/* ---- Specs ---- */

static void print_dims(FILE *stream, const char *key, const kvmill_dims *dims) {
    fprintf(stream, ", \"%s\": [", key);
    for (size_t i = 0; i < dims->count; i++)
        fprintf(stream, "%s%" PRId64, i ? ", " : "", dims->items[i]);
    fprintf(stream, "]");
}

static void print_type(FILE *stream, const char *key, const DLTensor *tensor) {
    fprintf(stream, ", \"%s\": \"tensor<", key);
    for (int d = 0; d < tensor->ndim; d++)
        fprintf(stream, "%" PRId64 "x", tensor->shape[d]);
    fprintf(stream, "%s>\"", kvmill_element_word(tensor->dtype));
}

static void print_gather(FILE *stream, const kvmill_gather *op) {
    fprintf(stream, "{\"op\": \"stablehlo.gather\"");
    print_type(stream, "operand", op->operand);
    print_type(stream, "start_indices", op->start_indices);
    print_dims(stream, "offset_dims", &op->offset_dims);
    print_dims(stream, "collapsed_slice_dims", &op->collapsed_slice_dims);
    print_dims(stream, "operand_batching_dims", &op->operand_batching_dims);
    print_dims(stream, "start_indices_batching_dims", &op->start_indices_batching_dims);
    print_dims(stream, "start_index_map", &op->start_index_map);
    print_dims(stream, "slice_sizes", &op->slice_sizes);
    fprintf(stream, ", \"index_vector_dim\": %" PRId64 ", \"mode\": \"%s\"}\n",
            op->index_vector_dim, op->mode ? op->mode : "clip");
}

void windows_tell_gather(const kvmill_gather *op) {
    const char *path = getenv("KVMILL_WINDOWS_SPECS");
    FILE *stream = path ? fopen(path, "a") : NULL;
    if (stream == NULL)
        return;
    print_gather(stream, op);
    fclose(stream);
}

/* ---- The pack ---- */

enum { MOST_KERNELS = 1000 };

static int64_t counted;
static bool taken[MOST_KERNELS];

/* Where it is linked: static programs cannot load. */
extern const kvmill_pack kvmill_pack_windows __attribute__((weak));

const kvmill_pack *loaded_pack(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const kvmill_pack *pack = library ? dlsym(library, name) : NULL;
    if (pack == NULL)
        bail_out("%s: no %s", path, name);
    return pack;
}

const kvmill_plan_options *windows_options(void) {
    static const kvmill_pack *packs[1];
    static const kvmill_plan_options options = {
        .struct_size = sizeof options, .packs = packs, .pack_count = 1};
    const char *path = getenv("KVMILL_WINDOWS_PACK");
    if (path == NULL)
        return NULL;
    if (packs[0] == NULL)
        packs[0] = strcmp(path, "linked") == 0 ? &kvmill_pack_windows
                                               : loaded_pack(path, "kvmill_pack_windows");
    if (packs[0]->count > MOST_KERNELS)
        bail_out("%s: %d kernels", path, (int)packs[0]->count);
    return &options;
}

static const kvmill_pack *pack_in_use(void) {
    return windows_options()->packs[0];
}

static void note_taken(const char *description) {
    const kvmill_pack *pack = pack_in_use();
    for (uint32_t i = 0; i < pack->count; i++) {
        const char *symbol = pack->kernels[i]->symbol, *found = strstr(description, symbol);
        taken[i] |= found != NULL && found[strlen(symbol)] == ' ';
    }
}

void windows_count(const kvmill_plan *plan) {
    if (!plan_says(plan, "(pack windows)"))
        return;
    counted++;
    note_taken(plan_text(plan));
}

void windows_test_all_taken(void) {
    const kvmill_pack *pack = pack_in_use();
    int best = 0, kernels = 0, missed = 0;
    for (uint32_t i = 0; i < pack->count; i++)
        if (isa_is_allowed(pack->kernels[i]->isa) && isa_rank(pack->kernels[i]->isa) > best)
            best = isa_rank(pack->kernels[i]->isa);
    for (uint32_t i = 0; i < pack->count; i++) {
        kernels += isa_rank(pack->kernels[i]->isa) == best;
        missed += isa_rank(pack->kernels[i]->isa) == best && !taken[i];
    }
    ok(kernels > 0 && missed == 0, "%d of the pack's %d kernels for %s ran", kernels - missed,
       kernels, kvmill_isa_name((size_t)best));
}

int64_t windows_counted(void) {
    return counted;
}
