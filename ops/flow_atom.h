/* Atoms: scores for which kernels exist.  Finds them in an index program.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_FLOW_ATOM_H
#define KVMILL_OPS_FLOW_ATOM_H

#include "flow.h"

enum kvmill_atom_kind {
    KVMILL_ATOM_NONE,
    KVMILL_ATOM_DOT,  /* query, or constants, times a field, whose rows are blocks of a page */
    KVMILL_ATOM_BOUND /* sum over channels of the larger of query times two fields (Quest) */
};

/* What a fold goes over. */
enum { KVMILL_OVER_HEADS = 1, KVMILL_OVER_BLOCKS = 2 };

struct kvmill_atom_fold {
    unsigned over;
    int code; /* KVMILL_FLOW_MAX, MEAN or SUM */
};

struct kvmill_flow_atom {
    enum kvmill_atom_kind kind;
    int field[2];          /* for a bound: first the one in the first input of Maximum */
    bool mean_query;       /* the query is the mean over its heads */
    int64_t heads, blocks; /* before folding; heads 1 with mean_query */
    int64_t first, last;   /* channels of the query that count */
    bool positive;         /* a negative dot product becomes 0, */
    int weight; /* and is then multiplied by this constant with a weight per head; or -1 */
    int folds;  /* the inner one first */
    struct kvmill_atom_fold fold[2];
    int value,
        query; /* of the program: what it is, and its query, [heads, dim], masked, or constant */
};

/* Recognise a value of the index program; false, and KVMILL_ATOM_NONE, if it is no such score.
   Without folds there is a score for each head, or block. */
bool kvmill_flow_match_atom(const struct kvmill_flow_problem *problem, int value,
                            struct kvmill_flow_atom *atom);

/* The shape of the kernels that compute it. */
struct kvmill_score_shape kvmill_flow_atom_shape(const struct kvmill_flow_problem *problem,
                                                 const struct kvmill_flow_atom *atom);

enum { KVMILL_MOST_FLOW_ATOMS = 8 };

/* An index program as atoms and other steps; each atom is as large as possible. */
struct kvmill_flow_atoms {
    int count;
    struct kvmill_flow_atom atom[KVMILL_MOST_FLOW_ATOMS]; /* from the end of the program */
    bool
        elsewhere[KVMILL_MOST_FLOW_OPS]; /* steps that are part of atoms, or needed only by atoms */
    bool needed[KVMILL_MOST_FLOW_VALUES]; /* by other steps, or as the query of an atom */
};

void kvmill_flow_find_atoms(const struct kvmill_flow_problem *problem,
                            struct kvmill_flow_atoms *atoms);

#endif
