/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrated.h"

#include <string.h>

#include "../base/text.h"
#include "../gen/variants.h"
#include "../runtime/core/calibration.h"

/* Tunables that get their value from the calibration: the number in units of `unit`.  If the number
   is more than `most`, the tunable keeps its preset, and the library decides. */
static const struct choice_of {
    const char *family, *tunable, *number;
    int64_t unit, most;
} choices[] = {
    {"store_rows", "pages", "copy_streams", 1, 1},
    {"keep_rows", "pages", "copy_streams", 1, 1},
    {"gather", "streams", "gather_streams", 1, 1},
    {"gather", "around", "around", 1024, INT64_MAX},
};
enum { CHOICES = sizeof choices / sizeof *choices };

static int64_t number_of(struct calibration *calibration, const char *name) {
    return *kvmill_calibration_at(calibration, kvmill_calibration_named(name));
}

static bool is_accepted(const struct tunable *tunable, int64_t value) {
    for (int i = 0; i < tunable->value_count; i++)
        if (tunable->values[i] == value)
            return true;
    return false;
}

static int64_t value_of(const struct kernel *kernel, const struct tunable *tunable,
                        struct calibration *calibration) {
    for (int i = 0; i < CHOICES; i++) {
        const struct choice_of *choice = &choices[i];
        if (strcmp(choice->family, kernel->family->name) != 0 ||
            strcmp(choice->tunable, tunable->name) != 0)
            continue;
        int64_t number = number_of(calibration, choice->number);
        if (number <= choice->most && tunable->preset != 0 &&
            is_accepted(tunable, number / choice->unit))
            return number / choice->unit;
    }
    return tunable->preset;
}

static bool has_choices(const struct kernel *kernel) {
    for (int i = 0; i < CHOICES; i++)
        if (strcmp(choices[i].family, kernel->family->name) == 0)
            return true;
    return false;
}

/* Whether the kernel was tuned.  Such kernels stay as they are: the pack's table of sizes names
   them. */
static bool is_tuned(const struct pack *pack, const struct kernel *kernel) {
    char symbol[SYMBOL_SIZE], other[SYMBOL_SIZE];
    bool tuned = kernel->tuning[0] != '\0';
    kernel_symbol(kernel, symbol);
    for (size_t i = 0; !tuned && i < pack->measured.count; i++) {
        kernel_symbol(&pack->measured.items[i].kernel, other);
        tuned = strcmp(symbol, other) == 0;
    }
    return tuned;
}

static bool set_tuning(struct kernel *kernel, struct calibration *calibration,
                       struct error *error) {
    struct tunable_space space;
    char tuning[TUNING_SIZE] = "";
    bool done = tunable_space_read(kernel, &space, error), fits = done;
    for (int i = 0; fits && i < space.count; i++)
        fits = tuning_add(&space.tunables[i], value_of(kernel, &space.tunables[i], calibration),
                          tuning);
    for (size_t i = 0; fits && i < space.points.count; i++)
        if (strcmp(space.points.items[i].tuning, tuning) == 0)
            *kernel = space.points.items[i];
    tunable_space_free(&space);
    return done;
}

static bool set_tunings(const struct pack *pack, struct calibration *calibration,
                        struct kernel_list *kernels, size_t *changed, struct error *error) {
    bool done = true;
    for (size_t i = 0; done && i < pack->kernels.count; i++) {
        struct kernel kernel = pack->kernels.items[i];
        if (has_choices(&kernel) && !is_tuned(pack, &kernel)) {
            done = set_tuning(&kernel, calibration, error);
            *changed += kernel.tuning[0] != '\0';
        }
        done = done && kernel_list_add(kernels, &kernel, error);
    }
    return done;
}

bool calibrated_apply(const char *path, struct pack *pack, struct error *error) {
    struct calibration calibration;
    struct kernel_list kernels = {0};
    char why[CALIBRATION_WHY];
    size_t changed = 0;
    if (!kvmill_calibration_read(path, true, &calibration, why))
        return fail(error, EXIT_USER, "--calibration: %s: %s", path, why);
    if (!set_tunings(pack, &calibration, &kernels, &changed, error)) {
        kernel_list_free(&kernels);
        return false;
    }
    kernel_list_free(&pack->kernels);
    pack->kernels = kernels;
    print_shown(stderr, "%s: %zu of %zu kernels differ from their presets\n", path, changed,
                pack->kernels.count);
    return true;
}
