/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_space.h"

#include <stdlib.h>
#include <string.h>

/* Parameter 0 is the variant, parameter 1 + i is tunable i.  All variants have the same tunables,
   each with its own values.  `legal` has a bit for each combination of values of any variant. */
struct tune_space {
    struct space space;
    struct parameter parameters[1 + MOST_TUNABLES];
    int64_t values[MOST_TUNABLES][MOST_VALUES];
    const char *names[MOST_ALTERNATIVES];
    struct tunable_space variants[MOST_ALTERNATIVES];
    struct kernel kernels[MOST_ALTERNATIVES];
    int variant_count;
    unsigned char *legal;
};

/* ---- Values ---- */

static void insert(int64_t *values, int *count, int64_t value) {
    int at = 0;
    while (at < *count && values[at] < value)
        at++;
    if ((at < *count && values[at] == value) || *count == MOST_VALUES)
        return;
    memmove(&values[at + 1], &values[at], (size_t)(*count - at) * sizeof *values);
    values[at] = value;
    ++*count;
}

static int index_of(const struct parameter *parameter, int64_t value) {
    int i = 0;
    while (i < parameter->count && parameter->values[i] != value)
        i++;
    return i;
}

/* Makes a parameter with the values of all variants, and the preset of the first. */
static void join_tunable(struct tune_space *space, int i) {
    struct parameter *parameter = &space->parameters[1 + i];
    const struct tunable *first = &space->variants[0].tunables[i];
    *parameter = (struct parameter){.name = first->name, .values = space->values[i]};
    for (int v = 0; v < space->variant_count; v++) {
        const struct tunable *tunable = &space->variants[v].tunables[i];
        for (int n = 0; n < tunable->value_count; n++)
            insert(space->values[i], &parameter->count, tunable->values[n]);
    }
    parameter->preset = index_of(parameter, first->preset);
}

/* ---- Legal points ---- */

static size_t number_of(const struct tune_space *space, const struct point *point) {
    size_t number = 0;
    for (int i = 0; i < space->space.count; i++)
        number = number * (size_t)space->parameters[i].count + point->at[i];
    return number;
}

static bool allows(const struct space *base, const struct point *point) {
    const struct tune_space *space = base->context;
    size_t number = number_of(space, point);
    return (space->legal[number / 8] >> number % 8 & 1) != 0;
}

static void allow(struct tune_space *space, int variant, const struct kernel *kernel) {
    struct point point = {{(uint8_t)variant}};
    const struct tunable_space *tunables = &space->variants[variant];
    for (int i = 0; i < tunables->count; i++)
        point.at[1 + i] = (uint8_t)index_of(&space->parameters[1 + i],
                                            tunable_value(&tunables->tunables[i], kernel));
    size_t number = number_of(space, &point);
    space->legal[number / 8] |= (unsigned char)(1 << number % 8);
}

static bool list_legal(struct tune_space *space, struct error *error) {
    size_t all = 1;
    for (int i = 0; i < space->space.count; i++)
        all *= (size_t)space->parameters[i].count;
    space->legal = calloc(all / 8 + 1, 1);
    for (int v = 0; space->legal != NULL && v < space->variant_count; v++)
        for (size_t p = 0; p < space->variants[v].points.count; p++)
            allow(space, v, &space->variants[v].points.items[p]);
    return space->legal != NULL || out_of_memory(error);
}

/* ---- Opening ---- */

static bool add_variant(struct tune_space *space, const struct kernel *kernel,
                        struct error *error) {
    int v = space->variant_count++;
    space->kernels[v] = *kernel;
    space->names[v] = kernel->variant;
    return tunable_space_read(kernel, &space->variants[v], error);
}

/* Adds the variants, the kernel's own first, because it is the default. */
static bool add_variants(struct tune_space *space, const struct kernel *kernel,
                         const struct isa_list *isas, struct error *error) {
    struct kernel_list others = {0};
    bool done =
        add_variant(space, kernel, error) && kernel_alternatives(kernel, isas, &others, error);
    for (size_t i = 0; done && i < others.count; i++)
        if (others.items[i].variant != kernel->variant)
            done = add_variant(space, &others.items[i], error);
    kernel_list_free(&others);
    return done;
}

static bool set_parameters(struct tune_space *space, struct error *error) {
    space->parameters[0] =
        (struct parameter){.name = "variant", .words = space->names, .count = space->variant_count};
    for (int i = 0; i < space->variants[0].count; i++)
        join_tunable(space, i);
    space->space = (struct space){.parameters = space->parameters,
                                  .count = 1 + space->variants[0].count,
                                  .allows = allows,
                                  .context = space};
    return list_legal(space, error) && space_check(&space->space, error);
}

struct tune_space *tune_space_open(const struct kernel *kernel, const struct isa_list *isas,
                                   struct error *error) {
    struct tune_space *space = calloc(1, sizeof *space);
    if (space == NULL) {
        out_of_memory(error);
        return NULL;
    }
    if (add_variants(space, kernel, isas, error) && set_parameters(space, error))
        return space;
    tune_space_close(space);
    return NULL;
}

void tune_space_close(struct tune_space *space) {
    for (int v = 0; space != NULL && v < space->variant_count; v++)
        tunable_space_free(&space->variants[v]);
    if (space != NULL)
        free(space->legal);
    free(space);
}

const struct space *tune_space_of(const struct tune_space *space) {
    return &space->space;
}

/* ---- Kernels of points ---- */

struct kernel tune_space_kernel(const struct tune_space *space, const struct point *point) {
    int variant = point->at[0];
    struct kernel kernel = space->kernels[variant];
    const struct tunable_space *tunables = &space->variants[variant];
    for (int i = 0; i < tunables->count; i++)
        tuning_add(&tunables->tunables[i], space->values[i][point->at[1 + i]], kernel.tuning);
    return kernel;
}

bool tune_space_parse(const struct tune_space *space, const char *candidate, struct kernel *kernel,
                      struct error *error) {
    struct point point;
    if (!space_parse(&space->space, candidate, &point, error))
        return false;
    *kernel = tune_space_kernel(space, &point);
    return true;
}
