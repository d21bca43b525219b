/* SPDX-License-Identifier: Apache-2.0 */
#include "score_family.h"

#include <inttypes.h>
#include <string.h>

#include "../defs/format.h"
#include "m4.h"

/* In the order of enum kvmill_score_kind. */
static const char *const kinds[] = {"none",     "dot",     "bound", "positive",
                                    "weighted", "indexer", NULL};
/* By enum kvmill_fold, for each dim to fold: KVMILL_FOLD_HEADS, KVMILL_FOLD_BLOCKS, both. */
static const char *const folds[] = {"each",     "headmax",   "headmean", "headsum",
                                    "blockmax", "blockmean", "blocksum", "max",
                                    "mean",     "sum",       NULL};
static const char *const then[] = {"only",         "thenheadmax",   "thenheadmean", "thenheadsum",
                                   "thenblockmax", "thenblockmean", "thenblocksum", NULL};
enum { FOLD_KINDS = KVMILL_FOLD_SUM };

enum { KIND, ELEMENT, DIM, HEADS, BLOCKS, FOLD, FIELDS = FOLD + KVMILL_MOST_FOLDS };

static const struct field score_fields[] = {
    [KIND] = {"kind", NULL, kinds, 0},
    [ELEMENT] = {"element", NULL, NULL, FIELD_FORMAT},
    [DIM] = {"dim", "d", NULL, 0},
    [HEADS] = {"query_heads", "h", NULL, 0},
    [BLOCKS] = {"page_blocks", "b", NULL, 0},
    [FOLD] = {"fold", NULL, folds, FIELD_OPTIONAL},
    [FOLD + 1] = {"then", NULL, then, FIELD_OPTIONAL},
};

/* tiles: finishes the sums of as many pages at a time as a vector has lanes.  heads: folds the
   scores of a query's heads, which may be many, as they are computed. */
static const char *const variants[] = {"tiles", "heads", NULL};

/* ---- Legal kernels ---- */

enum { MOST_DIM = 1024, MOST_HEADS = 16, MOST_SCORES = 64 }; /* the last two limit tiles */

static int64_t fold_over(int64_t fold) {
    return fold == 0 ? 0 : (fold - 1) / FOLD_KINDS + 1;
}

static int64_t fold_by(int64_t fold) {
    return fold == 0 ? 0 : (fold - 1) % FOLD_KINDS + 1;
}

static bool is_bound(const struct kernel *kernel) {
    return kernel->value[KIND] == KVMILL_SCORE_BOUND;
}

/* Whether each fold is over heads or blocks that exist, and no dim is folded twice.  BOUND has one
   dim. */
static bool folds_are_legal(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    int64_t there =
        (value[HEADS] > 1 ? KVMILL_FOLD_HEADS : 0) | (value[BLOCKS] > 1 ? KVMILL_FOLD_BLOCKS : 0);
    int64_t first = fold_over(value[FOLD]), second = fold_over(value[FOLD + 1]);
    if (is_bound(kernel))
        return second == 0 && (first == 0 || first == there);
    return (first & ~there) == 0 && (second & ~there) == 0 && (first & second) == 0 &&
           first != (KVMILL_FOLD_HEADS | KVMILL_FOLD_BLOCKS) && (first != 0 || second == 0);
}

static bool is_of_tiles(const int64_t *value) {
    return value[KIND] <= KVMILL_SCORE_BOUND && value[HEADS] <= MOST_HEADS &&
           value[BLOCKS] <= MOST_SCORES / value[HEADS];
}

static bool is_of_heads(const int64_t *value) {
    return value[KIND] != KVMILL_SCORE_BOUND &&
           value[BLOCKS] <= KVMILL_MOST_PAGE_SCORES / value[HEADS] &&
           (value[HEADS] == 1 || fold_over(value[FOLD]) == KVMILL_FOLD_HEADS);
}

static bool is_legal_score(const struct kernel *kernel) {
    const int64_t *value = kernel->value;
    return kvmill_isa_plain(kernel->isa) == kernel->isa && value[KIND] != 0 &&
           (kvmill_is_plain((int)value[ELEMENT]) || value[ELEMENT] == KVMILL_I8) &&
           value[DIM] >= 1 && value[DIM] <= MOST_DIM && value[HEADS] >= 1 && value[BLOCKS] >= 1 &&
           folds_are_legal(kernel) &&
           (kernel->variant == variants[0] ? is_of_tiles : is_of_heads)(value);
}

bool score_kernels(const struct kvmill_score_shape *shape, const struct isa *isa,
                   struct kernel_list *list, struct error *error) {
    struct kernel kernel = {
        .family = &score_pages_family,
        .isa = kvmill_isa_plain(isa),
        .value = {[KIND] = shape->kind,
                  [ELEMENT] = shape->element,
                  [DIM] = shape->dim,
                  [HEADS] = shape->heads,
                  [BLOCKS] = shape->blocks},
    };
    for (int i = 0; i < shape->folds; i++)
        kernel.value[FOLD + i] = (shape->fold[i].over - 1) * FOLD_KINDS + shape->fold[i].by;
    kernel.variant = variants[!is_of_tiles(kernel.value)];
    return !is_legal_score(&kernel) || kernel_list_add(list, &kernel, error);
}

/* ---- Definitions ---- */

static bool define_score(const struct kernel *kernel, struct expansion *expansion) {
    const int64_t *value = kernel->value;
    return define_integer(expansion, "registers", kernel->isa->registers) &&
           define_integer(expansion, "kind_number", value[KIND]) &&
           define_integer(expansion, "element_number", value[ELEMENT]) &&
           define_integer(expansion, "over1", fold_over(value[FOLD])) &&
           define_integer(expansion, "by1", fold_by(value[FOLD])) &&
           define_integer(expansion, "over2", fold_over(value[FOLD + 1])) &&
           define_integer(expansion, "by2", fold_by(value[FOLD + 1]));
}

/* ---- Words ---- */

static void explain_fold(int64_t fold, FILE *stream) {
    static const char *const over[] = {"", "heads", "blocks", "all of a page"};
    static const char *const by[] = {"", "largest", "mean", "sum"};
    if (fold != 0)
        fprintf(stream, ", then the %s over %s", by[fold_by(fold)], over[fold_over(fold)]);
}

static void explain_score(const struct kernel *kernel, FILE *stream) {
    static const char *const of_kind[] = {"",
                                          "dots",
                                          "sums of the larger product",
                                          "dots, 0 where they are below",
                                          "dots, weighted",
                                          "dots, 0 where they are below, weighted"};
    const int64_t *value = kernel->value;
    fprintf(stream, "Scores pages, each of %" PRId64 " row%s of %" PRId64 " %s in a field%s,\n",
            value[BLOCKS], value[BLOCKS] == 1 ? "" : "s", value[DIM],
            kvmill_format_name(value[ELEMENT]), is_bound(kernel) ? " and in another" : "");
    fprintf(stream, "for %" PRId64 " head%s of a query: %s", value[HEADS],
            value[HEADS] == 1 ? "" : "s", of_kind[value[KIND]]);
    explain_fold(value[FOLD], stream);
    explain_fold(value[FOLD + 1], stream);
    fprintf(stream, ".\nSums have one order, so that all kernels give the same bits.\n");
}

static const char *const libraries[] = {"score", NULL};

const struct family score_pages_family = {
    .name = "score_pages",
    .folder = "score",
    .op = "flow",
    .libraries = libraries,
    .formats = true,
    .fields = score_fields,
    .field_count = FIELDS,
    .variants = variants,
    .tunables = "score_tunables",
    .legal = is_legal_score,
    .explain = explain_score,
    .define = define_score,
};
