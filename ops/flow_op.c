/* The ops of flows: the programs that may use them, their operands, and the shapes of their
   results.

   SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"

const char *kvmill_flow_shape_words(const struct kvmill_flow_shape *shape,
                                    struct kvmill_flow_shape_text *words) {
    const char *pages = shape->ragged ? "S, " : "";
    if (shape->taps != 1)
        snprintf(words->text, sizeof words->text, "[%" PRId64 ", %" PRId64 ", %" PRId64 "]",
                 shape->taps, shape->rows, shape->columns);
    else
        snprintf(words->text, sizeof words->text, "[%s%" PRId64 ", %" PRId64 "]", pages,
                 shape->rows, shape->columns);
    return words->text;
}

static kvmill_status refuse_pair(struct kvmill_flow_typing *typing, const char *accepted) {
    struct kvmill_flow_shape_text x, y;
    return kvmill_fail(typing->error, KVMILL_E_SHAPE, "%s of %s and %s; accepted: %s",
                       typing->kind->name, kvmill_flow_shape_words(&typing->in[0], &x),
                       kvmill_flow_shape_words(&typing->in[1], &y), accepted);
}

static kvmill_status refuse(struct kvmill_flow_typing *typing, const char *accepted) {
    struct kvmill_flow_shape_text x;
    return kvmill_fail(typing->error, KVMILL_E_SHAPE, "%s of %s; accepted: %s", typing->kind->name,
                       kvmill_flow_shape_words(&typing->in[0], &x), accepted);
}

/* Ops on growing pages may only reduce rows, or compute with them one by one. */
static kvmill_status check_whole(struct kvmill_flow_typing *typing) {
    if (!typing->incremental || !typing->in[0].tokens)
        return KVMILL_OK;
    return refuse(typing, "with \"incremental\" summaries no op that needs a page's last row");
}

static bool is_over(const struct kvmill_flow_typing *typing, int dim) {
    return typing->op->dims >> dim & 1;
}

/* ---- Two inputs ---- */

static kvmill_status infer_gemm(struct kvmill_flow_typing *typing) {
    const struct kvmill_flow_shape *x = &typing->in[0], *y = &typing->in[1];
    if (x->columns != y->columns)
        return refuse_pair(typing, "equal columns");
    typing->out =
        (struct kvmill_flow_shape){x->ragged || y->ragged, y->tokens, 1, y->rows, x->rows};
    return check_whole(typing);
}

/* 0 if the dims do not fit. */
static int64_t broadcast(int64_t a, int64_t b) {
    return a == b || b == 1 ? a : a == 1 ? b : 0;
}

static kvmill_status infer_binary(struct kvmill_flow_typing *typing) {
    const struct kvmill_flow_shape *x = &typing->in[0], *y = &typing->in[1];
    typing->out =
        (struct kvmill_flow_shape){x->ragged || y->ragged, x->tokens || y->tokens, 1,
                                   broadcast(x->rows, y->rows), broadcast(x->columns, y->columns)};
    if (typing->out.rows == 0 || typing->out.columns == 0)
        return refuse_pair(typing, "equal dims, or 1");
    bool differ = x->tokens != y->tokens && (x->tokens ? y : x)->rows != 1;
    return typing->incremental && differ
               ? refuse_pair(typing, "with \"incremental\" summaries one row, or the page's")
               : KVMILL_OK;
}

static kvmill_status infer_kron(struct kvmill_flow_typing *typing) {
    const struct kvmill_flow_shape *x = &typing->in[0], *y = &typing->in[1];
    int64_t rows = is_over(typing, 1) ? x->rows * y->rows : broadcast(x->rows, y->rows);
    int64_t columns =
        is_over(typing, 2) ? x->columns * y->columns : broadcast(x->columns, y->columns);
    typing->out = (struct kvmill_flow_shape){x->ragged || y->ragged, false, 1, rows, columns};
    return rows > 0 && columns > 0 ? KVMILL_OK
                                   : refuse_pair(typing, "equal dims, or 1, except for its dims");
}

/* Weights [taps, rows, columns] for x. */
static kvmill_status infer_conv(struct kvmill_flow_typing *typing) {
    const struct kvmill_flow_shape *x = &typing->in[0], *w = &typing->in[1];
    typing->out = *x;
    if (x->ragged && !w->ragged && w->rows == x->rows && w->columns == x->columns)
        return KVMILL_OK;
    return refuse_pair(typing, "a matrix for each page, and a constant with as many rows and "
                               "columns");
}

/* ---- One input ---- */

static kvmill_status infer_same(struct kvmill_flow_typing *typing) {
    typing->out = typing->in[0];
    return KVMILL_OK;
}

static kvmill_status infer_over_pages(struct kvmill_flow_typing *typing) {
    typing->out = typing->in[0];
    return typing->out.ragged ? KVMILL_OK : refuse(typing, "over dim 0: a matrix for each page");
}

static kvmill_status infer_reduction(struct kvmill_flow_typing *typing) {
    if (is_over(typing, 0)) {
        kvmill_status status = infer_over_pages(typing);
        typing->out.ragged = false;
        return status;
    }
    typing->out = typing->in[0];
    *(is_over(typing, 1) ? &typing->out.rows : &typing->out.columns) = 1;
    typing->out.tokens = typing->in[0].tokens && !is_over(typing, 1);
    return KVMILL_OK;
}

static kvmill_status infer_interleave(struct kvmill_flow_typing *typing) {
    typing->out = typing->in[0];
    int64_t *dim = is_over(typing, 1) ? &typing->out.rows : &typing->out.columns;
    int64_t group = typing->op->group;
    if (group < 1 || *dim % group != 0)
        return kvmill_fail(typing->error, KVMILL_E_SHAPE,
                           "group is %" PRId64 "; accepted: divisors of %" PRId64, group, *dim);
    *dim /= group;
    typing->out.tokens = typing->in[0].tokens && !is_over(typing, 1);
    return is_over(typing, 1) ? check_whole(typing) : KVMILL_OK;
}

static kvmill_status infer_transpose(struct kvmill_flow_typing *typing) {
    typing->out = typing->in[0];
    typing->out.rows = typing->in[0].columns;
    typing->out.columns = typing->in[0].rows;
    return KVMILL_OK;
}

static kvmill_status infer_reshape(struct kvmill_flow_typing *typing) {
    const struct kvmill_flow_shape *x = &typing->in[0];
    int64_t rows = typing->op->rows, columns = typing->op->columns;
    typing->out = (struct kvmill_flow_shape){x->ragged, false, 1, rows, columns};
    bool fits = rows > 0 && rows <= KVMILL_MOST_FLOW_ELEMENTS && columns > 0 &&
                columns <= KVMILL_MOST_FLOW_ELEMENTS && rows * columns == x->rows * x->columns;
    if (!fits)
        return kvmill_fail(typing->error, KVMILL_E_SHAPE,
                           "Reshape to [%" PRId64 ", %" PRId64 "]; accepted: dims of %" PRId64
                           " elements",
                           rows, columns, x->rows * x->columns);
    return check_whole(typing);
}

static kvmill_status infer_slice(struct kvmill_flow_typing *typing) {
    int64_t start = typing->op->start, end = typing->op->end;
    int64_t size = is_over(typing, 1) ? typing->in[0].rows : typing->in[0].columns;
    typing->out = typing->in[0];
    if (0 <= start && start <= end && end <= size)
        return KVMILL_OK;
    return kvmill_fail(typing->error, KVMILL_E_SHAPE,
                       "MaskSlice from %" PRId64 " to %" PRId64 "; accepted: 0 <= start <= end <= "
                       "%" PRId64,
                       start, end, size);
}

static bool is_score(const struct kvmill_flow_shape *x) {
    return x->ragged && x->rows == 1 && x->columns == 1;
}

static kvmill_status infer_topk(struct kvmill_flow_typing *typing) {
    typing->out = typing->in[0];
    return is_score(&typing->in[0]) ? KVMILL_OK
                                    : refuse(typing, "a score for each page, [S, 1, 1]");
}

static kvmill_status infer_approximate(struct kvmill_flow_typing *typing) {
    double tolerance = typing->op->alpha;
    if (tolerance >= 0 && tolerance < 1)
        return infer_topk(typing);
    return kvmill_fail(typing->error, KVMILL_E_ATTRIBUTE,
                       "tolerance is %g; accepted: 0 to less than 1", tolerance);
}

static kvmill_status infer_union(struct kvmill_flow_typing *typing) {
    int64_t second = typing->op->group;
    if (second < 1 || second > INT32_MAX)
        return kvmill_fail(typing->error, KVMILL_E_ATTRIBUTE,
                           "second is %" PRId64 "; accepted: 1 to %" PRId32, second, INT32_MAX);
    typing->out = typing->in[0];
    return is_score(&typing->in[0]) && is_score(&typing->in[1])
               ? KVMILL_OK
               : refuse_pair(typing, "two scores for each page, [S, 1, 1]");
}

/* ---- The table ---- */

enum {
    IN_CACHE = 1 << KVMILL_CACHE_PROGRAM,
    IN_INDEX = 1 << KVMILL_INDEX_PROGRAM,
    IN_BOTH = IN_CACHE | IN_INDEX,
    AFFINE = KVMILL_FLOW_ALPHA | KVMILL_FLOW_BETA,
    WITHIN = 1 << 1 | 1 << 2, /* dims of a matrix */
    ANY_DIM = 1 << 0 | WITHIN,
    PAGES = 1 << 0
};

#define REDUCTION(NAME, PROGRAMS)                                                                  \
    { NAME, 1, PROGRAMS, KVMILL_FLOW_DIMS, ANY_DIM, 0, 0, infer_reduction }
#define INTERLEAVE(NAME)                                                                           \
    { NAME, 1, IN_CACHE, KVMILL_FLOW_DIMS | KVMILL_FLOW_GROUP, WITHIN, 0, 0, infer_interleave }
#define BINARY(NAME)                                                                               \
    { NAME, 2, IN_BOTH, 0, 0, 0, 0, infer_binary }
#define UNARY(NAME, ALPHA, BETA)                                                                   \
    { NAME, 1, IN_BOTH, AFFINE, 0, ALPHA, BETA, infer_same }

static const struct kvmill_flow_kind kinds[KVMILL_FLOW_CODES] = {
    [KVMILL_FLOW_GEMM] = {"GeMM", 2, IN_BOTH, 0, 0, 0, 0, infer_gemm},
    [KVMILL_FLOW_SUM] = REDUCTION("Sum", IN_INDEX),
    [KVMILL_FLOW_MEAN] = REDUCTION("Mean", IN_BOTH),
    [KVMILL_FLOW_MAX] = REDUCTION("Max", IN_BOTH),
    [KVMILL_FLOW_MIN] = REDUCTION("Min", IN_BOTH),
    [KVMILL_FLOW_L2NORM] = REDUCTION("L2Norm", IN_BOTH),
    [KVMILL_FLOW_MEAN_INTERLEAVE] = INTERLEAVE("MeanInterleave"),
    [KVMILL_FLOW_MAX_INTERLEAVE] = INTERLEAVE("MaxInterleave"),
    [KVMILL_FLOW_MIN_INTERLEAVE] = INTERLEAVE("MinInterleave"),
    [KVMILL_FLOW_L2NORM_INTERLEAVE] = INTERLEAVE("L2NormInterleave"),
    [KVMILL_FLOW_MULTIPLY] = BINARY("Multiply"),
    [KVMILL_FLOW_MAXIMUM] = BINARY("Maximum"),
    [KVMILL_FLOW_MINIMUM] = BINARY("Minimum"),
    [KVMILL_FLOW_ADD] = {"Add", 2, IN_BOTH, AFFINE, 0, 1, 1, infer_binary},
    [KVMILL_FLOW_WHERE_EQUAL] = BINARY("WhereEqual"),
    [KVMILL_FLOW_WHERE_NOT_EQUAL] = BINARY("WhereNotEqual"),
    [KVMILL_FLOW_WHERE_GREATER] = BINARY("WhereGreater"),
    [KVMILL_FLOW_WHERE_GREATER_EQUAL] = BINARY("WhereGreaterEqual"),
    [KVMILL_FLOW_WHERE_LESS] = BINARY("WhereLess"),
    [KVMILL_FLOW_WHERE_LESS_EQUAL] = BINARY("WhereLessEqual"),
    [KVMILL_FLOW_KRON] = {"Kron", 2, IN_INDEX, KVMILL_FLOW_DIMS, WITHIN, 0, 0, infer_kron},
    [KVMILL_FLOW_RELU] = UNARY("Relu", 0, 0),
    [KVMILL_FLOW_SIGMOID] = UNARY("Sigmoid", 0, NAN),
    [KVMILL_FLOW_SILU] = UNARY("Silu", 0, NAN),
    [KVMILL_FLOW_ADD_MUL] = UNARY("Add_Mul", 0, 1),
    [KVMILL_FLOW_ABS] = UNARY("Abs", 0, 1),
    [KVMILL_FLOW_LOG] = UNARY("Log", 0, 1),
    [KVMILL_FLOW_EXP] = UNARY("Exp", 0, 1),
    [KVMILL_FLOW_SOFTMAX] = {"Softmax", 1, IN_INDEX, KVMILL_FLOW_DIMS | KVMILL_FLOW_SCALE, PAGES, 0,
                             0, infer_over_pages},
    [KVMILL_FLOW_NORMALIZE] = {"Normalize", 1, IN_INDEX, KVMILL_FLOW_DIMS, PAGES, 0, 0,
                               infer_over_pages},
    [KVMILL_FLOW_CONV1D] = {"Conv1d", 2, IN_INDEX, KVMILL_FLOW_DIMS, PAGES, 0, 0, infer_conv},
    [KVMILL_FLOW_TRANSPOSE] = {"Transpose", 1, IN_INDEX, 0, 0, 0, 0, infer_transpose},
    [KVMILL_FLOW_RESHAPE] = {"Reshape", 1, IN_BOTH, KVMILL_FLOW_SHAPE, 0, 0, 0, infer_reshape},
    [KVMILL_FLOW_MASK_SLICE] = {"MaskSlice", 1, IN_BOTH,
                                AFFINE | KVMILL_FLOW_DIMS | KVMILL_FLOW_SLICE, WITHIN, NAN, NAN,
                                infer_slice},
    [KVMILL_FLOW_FILL] = {"Fill", 0, IN_CACHE, KVMILL_FLOW_ALPHA, 0, 0, 0, NULL},
    [KVMILL_FLOW_LOAD] = {"Load", 1, IN_INDEX, 0, 0, 0, 0, infer_same},
    [KVMILL_FLOW_SAVE] = {"Save", 1, IN_INDEX, 0, 0, 0, 0, infer_same},
    [KVMILL_FLOW_TOPK] = {"topK", 1, IN_INDEX, 0, 0, 0, 0, infer_topk},
    [KVMILL_FLOW_APPROX_TOPK] = {"approxTopK", 1, IN_INDEX, KVMILL_FLOW_TOLERANCE, 0, NAN, 0,
                                 infer_approximate},
    [KVMILL_FLOW_UNION] = {"Union", 2, IN_INDEX, KVMILL_FLOW_SECOND, 0, 0, 0, infer_union},
};

const struct kvmill_flow_kind *kvmill_flow_kind_at(int code) {
    return code >= 0 && code < KVMILL_FLOW_CODES ? &kinds[code] : NULL;
}

int kvmill_flow_code_by_name(const char *name) {
    int code = KVMILL_FLOW_CODES - 1;
    while (code >= 0 && strcmp(kinds[code].name, name) != 0)
        code--;
    return code;
}
