/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_atom.h"

/* What is being matched. */
struct match {
    const struct kvmill_flow_problem *problem;
    const struct kvmill_flow_program *program;
    struct kvmill_flow_atom atom;
    unsigned along[3]; /* what lies along a dim: KVMILL_OVER_... */
};

static const struct kvmill_flow_value *value_at(const struct match *match, int value) {
    return &match->program->values[value];
}

/* The op that computes a value, if it has this code. */
static const struct kvmill_flow_step *step_of(const struct match *match, int value, int code) {
    const struct kvmill_flow_value *known = value_at(match, value);
    if (known->source != KVMILL_FLOW_RESULT || match->program->steps[known->number].code != code)
        return NULL;
    return &match->program->steps[known->number];
}

/* ---- Inputs ---- */

static bool match_query(struct match *match, int value);

/* A mask: 1 in a range of channels, 0 elsewhere. */
static bool match_mask(struct match *match, int value) {
    const struct kvmill_flow_step *mask = step_of(match, value, KVMILL_FLOW_MASK_SLICE);
    if (mask == NULL || mask->dims != 1u << 2 || mask->alpha != 1 || mask->beta != 0)
        return false;
    if (mask->start > match->atom.first)
        match->atom.first = mask->start;
    if (mask->end < match->atom.last)
        match->atom.last = mask->end;
    return true;
}

static bool match_masked_query(struct match *match, int value) {
    const struct kvmill_flow_step *product = step_of(match, value, KVMILL_FLOW_MULTIPLY);
    return product != NULL && match_mask(match, product->input[1]) &&
           match_query(match, product->input[0]);
}

static bool match_mean_query(struct match *match, int value) {
    const struct kvmill_flow_step *mean = step_of(match, value, KVMILL_FLOW_MEAN);
    match->atom.mean_query = mean != NULL;
    match->atom.heads = 1;
    return mean != NULL && mean->dims == 1u << 1 &&
           (value_at(match, mean->input[0])->source == KVMILL_FLOW_QUERY ||
            match_masked_query(match, mean->input[0]));
}

/* The query, some of its channels, or its mean. */
static bool match_query(struct match *match, int value) {
    if (value_at(match, value)->source != KVMILL_FLOW_QUERY)
        return match_masked_query(match, value) || match_mean_query(match, value);
    match->atom.heads = match->problem->group;
    return true;
}

/* Numbers that are the same for all pages, or inputs. */
static bool match_constant(struct match *match, int value) {
    const struct kvmill_flow_value *constant = value_at(match, value);
    match->atom.heads = constant->shape.rows;
    match->atom.last = constant->shape.columns;
    return constant->source == KVMILL_FLOW_CONSTANT && constant->shape.taps == 1;
}

/* Rows as long as those of the query. */
static bool match_field(struct match *match, int value, int which) {
    const struct kvmill_flow_value *field = value_at(match, value);
    const struct kvmill_flow_value *query = value_at(match, match->atom.query);
    match->atom.field[which] = field->number;
    match->atom.blocks = field->shape.rows;
    return field->source == KVMILL_FLOW_FIELD && field->shape.columns == query->shape.columns &&
           !match->problem->fields[field->number].saved;
}

/* ---- Kinds ---- */

static bool match_dot(struct match *match, int value) {
    const struct kvmill_flow_step *dot = step_of(match, value, KVMILL_FLOW_GEMM);
    match->atom.kind = KVMILL_ATOM_DOT;
    match->along[1] = KVMILL_OVER_BLOCKS;
    match->along[2] = KVMILL_OVER_HEADS;
    match->atom.query = dot != NULL ? dot->input[0] : -1;
    return dot != NULL &&
           (match_query(match, dot->input[0]) || match_constant(match, dot->input[0])) &&
           match_field(match, dot->input[1], 0);
}

/* A dot product, or 0 if it is negative. */
static bool match_positive(struct match *match, int value) {
    const struct kvmill_flow_step *relu = step_of(match, value, KVMILL_FLOW_RELU);
    match->atom.positive = relu != NULL;
    return relu != NULL && relu->alpha == 0 && relu->beta == 0 && match_dot(match, relu->input[0]);
}

static bool match_dots(struct match *match, int value) {
    const struct match fresh = *match;
    if (match_positive(match, value))
        return true;
    *match = fresh;
    return match_dot(match, value);
}

/* A row with a weight for each head, on either side. */
static bool match_weighted(struct match *match, int value) {
    const struct kvmill_flow_step *product = step_of(match, value, KVMILL_FLOW_MULTIPLY);
    const struct match fresh = *match;
    for (int side = 0; product != NULL && side < 2; side++) {
        const struct kvmill_flow_value *weight = value_at(match, product->input[side]);
        *match = fresh;
        match->atom.weight = product->input[side];
        if (weight->source == KVMILL_FLOW_CONSTANT && weight->shape.rows == 1 &&
            weight->shape.taps == 1 && match_dots(match, product->input[1 - side]))
            return weight->shape.columns == match->atom.heads;
    }
    return false;
}

/* Query times a field, channel by channel; rows are heads, in them blocks. */
static bool match_product(struct match *match, int value, int which) {
    const struct kvmill_flow_step *product = step_of(match, value, KVMILL_FLOW_MULTIPLY);
    const struct kvmill_flow_step *kron = step_of(match, value, KVMILL_FLOW_KRON);
    const struct kvmill_flow_step *step = product != NULL ? product : kron;
    match->atom.query = step != NULL ? step->input[0] : -1;
    if (step == NULL || !match_query(match, step->input[0]) ||
        !match_field(match, step->input[1], which))
        return false;
    return kron != NULL ? kron->dims == 1u << 1 : match->atom.heads == 1 || match->atom.blocks == 1;
}

static int query_of(const struct match *match, int product) {
    return match->program->steps[value_at(match, product)->number].input[0];
}

static bool match_bound(struct match *match, int value) {
    const struct kvmill_flow_step *sum = step_of(match, value, KVMILL_FLOW_SUM);
    const struct kvmill_flow_step *larger = sum != NULL && sum->dims == 1u << 2
                                                ? step_of(match, sum->input[0], KVMILL_FLOW_MAXIMUM)
                                                : NULL;
    match->atom.kind = KVMILL_ATOM_BOUND;
    match->along[1] = KVMILL_OVER_HEADS | KVMILL_OVER_BLOCKS;
    return larger != NULL && match_product(match, larger->input[0], 0) &&
           match_product(match, larger->input[1], 1) &&
           query_of(match, larger->input[0]) == query_of(match, larger->input[1]);
}

/* ---- Folds ---- */

static const struct kvmill_flow_step *fold_of(const struct match *match, int value) {
    static const int codes[] = {KVMILL_FLOW_MAX, KVMILL_FLOW_MEAN, KVMILL_FLOW_SUM};
    const struct kvmill_flow_step *step = NULL;
    for (int i = 0; step == NULL && i < 3; i++)
        step = step_of(match, value, codes[i]);
    return step != NULL && !(step->dims & 1) ? step : NULL;
}

/* Add a fold over the dims that the step folds, if they still have more than one element. */
static void add_fold(struct match *match, const struct kvmill_flow_step *step) {
    struct kvmill_flow_atom *atom = &match->atom;
    unsigned there =
        (atom->heads > 1 ? KVMILL_OVER_HEADS : 0) | (atom->blocks > 1 ? KVMILL_OVER_BLOCKS : 0);
    unsigned *along = &match->along[step->dims >> 1 & 1 ? 1 : 2];
    if (*along & there)
        atom->fold[atom->folds++] = (struct kvmill_atom_fold){*along & there, step->code};
    *along = 0;
}

static bool match_kind(struct match *match, int value) {
    const struct match fresh = *match;
    if (match_weighted(match, value))
        return true;
    *match = fresh;
    if (match_dots(match, value))
        return true;
    *match = fresh;
    return match_bound(match, value);
}

/* A bound ends with a sum, which could also be a fold. */
static bool match_folded(struct match *match, int value, int depth) {
    const struct match fresh = *match;
    if (match_kind(match, value))
        return true;
    *match = fresh;
    const struct kvmill_flow_step *fold = depth < 2 ? fold_of(match, value) : NULL;
    if (fold == NULL || !match_folded(match, fold->input[0], depth + 1))
        return false;
    add_fold(match, fold);
    return true;
}

/* Kernels do not round intermediate results, so if results are rounded, an atom is a single op. */
static bool match_whole(struct match *match, int value) {
    return match->problem->rounds ? match_dot(match, value) : match_folded(match, value, 0);
}

/* Fields with the same type and number of rows, and a query that is the same for all pages. */
static bool is_uniform(const struct match *match) {
    const struct kvmill_flow_atom *atom = &match->atom;
    const struct kvmill_flow_field_data *fields = match->problem->fields;
    const struct kvmill_flow_field_data *a = &fields[atom->field[0]], *b = &fields[atom->field[1]];
    const struct kvmill_flow_shape *query = &value_at(match, atom->query)->shape;
    bool alike = a->element == b->element && a->rows == b->rows && a->heads == b->heads;
    return (atom->kind == KVMILL_ATOM_DOT || alike) && !query->ragged && query->rows == atom->heads;
}

bool kvmill_flow_match_atom(const struct kvmill_flow_problem *problem, int value,
                            struct kvmill_flow_atom *atom) {
    struct match match = {
        .problem = problem,
        .program = &problem->programs[KVMILL_INDEX_PROGRAM],
        .atom = {.last = problem->geometry.key.dim, .weight = -1, .value = value}};
    bool matches = match_whole(&match, value) && is_uniform(&match);
    *atom = matches ? match.atom : (struct kvmill_flow_atom){.kind = KVMILL_ATOM_NONE};
    return matches;
}

/* ---- Shapes ---- */

static int32_t fold_by(int code) {
    static const int32_t by[KVMILL_FLOW_CODES] = {[KVMILL_FLOW_MAX] = KVMILL_FOLD_MAX,
                                                  [KVMILL_FLOW_MEAN] = KVMILL_FOLD_MEAN,
                                                  [KVMILL_FLOW_SUM] = KVMILL_FOLD_SUM};
    return by[code];
}

static int32_t shape_kind(const struct kvmill_flow_atom *atom) {
    if (atom->kind == KVMILL_ATOM_BOUND)
        return KVMILL_SCORE_BOUND;
    if (atom->weight >= 0)
        return atom->positive ? KVMILL_SCORE_INDEXER : KVMILL_SCORE_WEIGHTED;
    return atom->positive ? KVMILL_SCORE_POSITIVE : KVMILL_SCORE_DOT;
}

struct kvmill_score_shape kvmill_flow_atom_shape(const struct kvmill_flow_problem *problem,
                                                 const struct kvmill_flow_atom *atom) {
    struct kvmill_score_shape shape = {
        .kind = shape_kind(atom),
        .element = problem->fields[atom->field[0]].element,
        .dim = (int32_t)problem->fields[atom->field[0]].columns,
        .heads = (int32_t)atom->heads,
        .blocks = (int32_t)atom->blocks,
        .folds = atom->folds,
    };
    for (int i = 0; i < atom->folds; i++)
        shape.fold[i] =
            (struct kvmill_score_fold){(int32_t)atom->fold[i].over, fold_by(atom->fold[i].code)};
    return shape;
}

/* ---- All of a program ---- */

/* The scores of an indexer's heads are folded as they are computed. */
static bool has_kernels(const struct kvmill_flow_problem *problem,
                        const struct kvmill_flow_atom *atom) {
    const struct kvmill_flow_value *query =
        &problem->programs[KVMILL_INDEX_PROGRAM].values[atom->query];
    bool of_query = query->source != KVMILL_FLOW_CONSTANT && !atom->positive && atom->weight < 0;
    bool folds_heads = atom->folds > 0 && atom->fold[0].over == KVMILL_OVER_HEADS;
    return atom->heads * atom->blocks <= KVMILL_MOST_PAGE_SCORES &&
           (of_query || atom->heads == 1 || folds_heads);
}

static bool take_atom(const struct kvmill_flow_problem *problem, int value,
                      struct kvmill_flow_atoms *atoms) {
    struct kvmill_flow_atom atom;
    if (value < 0 || atoms->count == KVMILL_MOST_FLOW_ATOMS ||
        !kvmill_flow_match_atom(problem, value, &atom) || !has_kernels(problem, &atom))
        return false;
    atoms->atom[atoms->count++] = atom;
    if (problem->programs[KVMILL_INDEX_PROGRAM].values[atom.query].source != KVMILL_FLOW_CONSTANT)
        atoms->needed[atom.query] = true;
    return true;
}

/* Steps are examined from the last one: whatever needs a result comes after it. */
static void take_step(const struct kvmill_flow_problem *problem, int number,
                      struct kvmill_flow_atoms *atoms) {
    const struct kvmill_flow_step *step = &problem->programs[KVMILL_INDEX_PROGRAM].steps[number];
    bool needed = step->output < 0 || atoms->needed[step->output];
    atoms->elsewhere[number] = !needed || take_atom(problem, step->output, atoms);
    for (int i = 0; !atoms->elsewhere[number] && i < 2 && step->input[i] >= 0; i++)
        atoms->needed[step->input[i]] = true;
}

void kvmill_flow_find_atoms(const struct kvmill_flow_problem *problem,
                            struct kvmill_flow_atoms *atoms) {
    *atoms = (struct kvmill_flow_atoms){.count = 0};
    for (int i = problem->programs[KVMILL_INDEX_PROGRAM].step_count - 1; i >= 0; i--)
        take_step(problem, i, atoms);
}
