/* SPDX-License-Identifier: Apache-2.0 */
#include "select_family.h"

static const char *const scores[] = {"none", "f32", NULL};

enum { SCORE, FIELDS };

static const struct field select_fields[] = {[SCORE] = {"score", NULL, scores, 0}};

/* threshold: finds the least score that is selected, bit by bit. */
static const char *const variants[] = {"threshold", NULL};

/* Counting and packing need vectors of at least eight words; with fewer, the portable kernel is as
   fast. */
static bool is_legal_select(const struct kernel *kernel) {
    return kvmill_isa_plain(kernel->isa) == kernel->isa && kernel->isa->lanes >= 8 &&
           kernel->value[SCORE] == KVMILL_F32;
}

bool select_kernels(const struct isa *isa, struct kernel_list *list, struct error *error) {
    const struct kernel kernel = {.family = &select_pages_family,
                                  .isa = kvmill_isa_plain(isa),
                                  .variant = variants[0],
                                  .value = {[SCORE] = KVMILL_F32}};
    return !is_legal_select(&kernel) || kernel_list_add(list, &kernel, error);
}

static void explain_select(const struct kernel *kernel, FILE *stream) {
    (void)kernel;
    fprintf(stream, "Selects the best pages, in their order: scores become integers, and the "
                    "threshold is\n"
                    "found by bisection, which counts the scores above the middle of a range.\n");
}

static const char *const libraries[] = {"select", NULL};

const struct family select_pages_family = {
    .name = "select_pages",
    .folder = "select",
    .op = "flow",
    .libraries = libraries,
    .fields = select_fields,
    .field_count = FIELDS,
    .variants = variants,
    .tunables = "select_tunables",
    .legal = is_legal_select,
    .explain = explain_select,
};
