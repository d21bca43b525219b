/* Tries several extents in place of unknown ones, and compares the kernels.

   SPDX-License-Identifier: Apache-2.0 */
#include "open_extents.h"

#include <stdlib.h>
#include <string.h>

#include "../../gen/generators.h"
#include "../../gen/isa_list.h"
#include "../../spec/stablehlo.h"

static void set_extents(struct tensor_shape *shapes, int count, int64_t extent) {
    for (int i = 0; i < count; i++)
        for (int d = 0; d < shapes[i].rank; d++)
            if (shapes[i].dims[d] == KVMILL_DYNAMIC)
                shapes[i].dims[d] = extent;
}

static void set_gather(struct gather_problem *gather, int64_t extent) {
    set_extents(&gather->operand, 1, extent);
    set_extents(&gather->start_indices, 1, extent);
    gather->has_result = false; /* it follows from the others */
}

static void set_scatter(struct scatter_problem *scatter, int64_t extent) {
    set_extents(scatter->inputs, scatter->count, extent);
    set_extents(scatter->updates, scatter->count, extent);
    set_extents(&scatter->scatter_indices, 1, extent);
    scatter->has_results = false;
}

/* What differs between specs with other extents. */
static void *problem_of(const struct spec *spec, size_t *size) {
    bool is_gather = spec_is(spec, OP_GATHER);
    *size = is_gather ? sizeof *spec->gather : sizeof *spec->window_scatter;
    return is_gather ? (void *)spec->gather : (void *)spec->window_scatter;
}

/* Whether the spec with this extent is right; then its kernels are added to the list. */
static bool try_extent(struct spec *spec, int64_t extent, struct kernel_list *kernels, bool *right,
                       struct error *error) {
    struct isa_list isas;
    struct error reason = {0};
    if (spec_is(spec, OP_GATHER))
        set_gather(spec->gather, extent);
    else
        set_scatter(spec->window_scatter, extent);
    *right = spec_check(spec, &reason);
    bool done = isa_list_parse(NULL, "scalar", &isas, error);
    for (int i = 0; done && *right && i < isas.count; i++)
        done = spec_kernels(spec, isas.items[i], kernels, error);
    return done;
}

static bool are_same(const struct kernel_list *a, const struct kernel_list *b) {
    char left[SYMBOL_SIZE], right[SYMBOL_SIZE];
    for (size_t i = 0; a->count == b->count && i < a->count; i++) {
        kernel_symbol(&a->items[i], left);
        kernel_symbol(&b->items[i], right);
        if (strcmp(left, right) != 0)
            return false;
    }
    return a->count == b->count;
}

static bool try_extents(struct spec *spec, const void *open, bool *closed, struct error *error) {
    static const int64_t extents[] = {3 * OPEN_EXTENT, OPEN_EXTENT}; /* the last one stays */
    struct kernel_list kernels[2] = {{0}};
    size_t size;
    void *problem = problem_of(spec, &size);
    bool done = true;
    *closed = true;
    for (int i = 0; done && *closed && i < 2; i++) {
        memcpy(problem, open, size);
        done = try_extent(spec, extents[i], &kernels[i], closed, error);
    }
    *closed = done && *closed && are_same(&kernels[0], &kernels[1]);
    for (int i = 0; i < 2; i++)
        kernel_list_free(&kernels[i]);
    return done;
}

bool spec_close_extents(struct spec *spec, bool *closed, struct error *error) {
    size_t size;
    const void *problem = problem_of(spec, &size);
    *closed = false;
    if (spec_is(spec, OP_GATHER) && spec->gather->slices_open)
        return true;
    void *open = malloc(size);
    if (open == NULL)
        return out_of_memory(error);
    memcpy(open, problem, size);
    bool done = try_extents(spec, open, closed, error);
    free(open);
    return done;
}
