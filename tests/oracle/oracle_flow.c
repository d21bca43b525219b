/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_flow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle_cache_attention.h"

/* ---- Values ---- */

struct oracle_matrix *oracle_add_value(struct oracle_values *values, const char *name,
                                       int64_t pages, int64_t rows, int64_t columns,
                                       const double *data) {
    size_t count = (size_t)(pages * rows * columns);
    struct oracle_value *value = &values->items[values->count++];
    *value = (struct oracle_value){name, {pages, rows, columns, calloc(count + 1, sizeof *data)}};
    if (value->matrix.data == NULL || values->count == ORACLE_MOST_VALUES)
        abort();
    if (data != NULL)
        memcpy(value->matrix.data, data, count * sizeof *data);
    return &value->matrix;
}

struct oracle_matrix *oracle_find_value(struct oracle_values *values, const char *name) {
    for (int i = values->count - 1; name != NULL && i >= 0; i--)
        if (strcmp(values->items[i].name, name) == 0)
            return &values->items[i].matrix;
    return NULL;
}

void oracle_free_values(struct oracle_values *values) {
    for (int i = 0; i < values->count; i++)
        free(values->items[i].matrix.data);
    values->count = 0;
}

/* Returns an element; a dim of 1 broadcasts. */
static double at(const struct oracle_matrix *x, int64_t s, int64_t i, int64_t j) {
    s = x->pages == 1 ? 0 : s;
    i = x->rows == 1 ? 0 : i;
    j = x->columns == 1 ? 0 : j;
    return x->data[(s * x->rows + i) * x->columns + j];
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Ops: an element by its page, row and column ---- */

struct op {
    const kvmill_flow_op *given;
    const struct oracle_matrix *x, *y;
    struct oracle_matrix out;
    int64_t pages;
};

static bool is(const struct op *op, const char *name) {
    return strcmp(op->given->op, name) == 0;
}

static bool is_over(const struct op *op, int dim) {
    return op->given->dims >> dim & 1;
}

static double binary(const struct op *op, int64_t s, int64_t i, int64_t j) {
    static const struct {
        const char *name;
        bool less, equal, greater;
    } masks[] = {
        {"WhereEqual", false, true, false},   {"WhereNotEqual", true, false, true},
        {"WhereGreater", false, false, true}, {"WhereGreaterEqual", false, true, true},
        {"WhereLess", true, false, false},    {"WhereLessEqual", true, true, false},
    };
    double x = at(op->x, s, i, j), y = at(op->y, s, i, j);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        if (is(op, masks[m].name)) {
            bool holds = x < y ? masks[m].less : x > y ? masks[m].greater : masks[m].equal;
            return holds ? 0 : -1e30;
        }
    if (is(op, "Multiply"))
        return x * y;
    if (is(op, "Maximum"))
        return x > y ? x : y;
    if (is(op, "Minimum"))
        return x < y ? x : y;
    return op->given->alpha * x + op->given->beta * y; /* Add */
}

static double unary(const struct op *op, int64_t s, int64_t i, int64_t j) {
    double alpha = op->given->alpha, beta = op->given->beta, x = at(op->x, s, i, j);
    double affine = beta * x + alpha;
    if (is(op, "Relu"))
        return x >= alpha ? x : beta;
    if (is(op, "Sigmoid"))
        return 1 / (1 + exp(affine));
    if (is(op, "Silu"))
        return x / (1 + exp(affine));
    if (is(op, "Abs"))
        return fabs(affine);
    if (is(op, "Log"))
        return log(affine);
    if (is(op, "Exp"))
        return exp(affine);
    return affine; /* Add_Mul */
}

/* Reduces groups of neighbours along a dim. */
static double reduction(const struct op *op, int64_t s, int64_t i, int64_t j) {
    int dim = is_over(op, 0) ? 0 : is_over(op, 1) ? 1 : 2;
    int64_t size = dim == 0 ? op->pages : dim == 1 ? op->x->rows : op->x->columns;
    int64_t count = size / (dim == 0 ? 1 : dim == 1 ? op->out.rows : op->out.columns);
    double sum = 0, squares = 0, high = 0, low = 0;
    for (int64_t g = 0; g < count; g++) {
        double x = dim == 0   ? at(op->x, g, i, j)
                   : dim == 1 ? at(op->x, s, i * count + g, j)
                              : at(op->x, s, i, j * count + g);
        sum += x;
        squares += x * x;
        high = g == 0 || x > high ? x : high;
        low = g == 0 || x < low ? x : low;
    }
    switch (op->given->op[1]) {
    case 'u':
        return sum;
    case 'e':
        return count ? sum / (double)count : 0;
    case 'a':
        return high;
    case 'i':
        return low;
    default:
        return sqrt(squares);
    }
}

static double softmax(const struct op *op, int64_t s, int64_t i, int64_t j) {
    double high = -INFINITY, sum = 0, scale = op->given->scale;
    for (int64_t p = 0; p < op->pages; p++)
        high = fmax(high, scale * at(op->x, p, i, j));
    for (int64_t p = 0; p < op->pages; p++)
        sum += exp(scale * at(op->x, p, i, j) - high);
    return exp(scale * at(op->x, s, i, j) - high) / sum;
}

static double normalize(const struct op *op, int64_t s, int64_t i, int64_t j) {
    double squares = 0;
    for (int64_t p = 0; p < op->pages; p++)
        squares += at(op->x, p, i, j) * at(op->x, p, i, j);
    return at(op->x, s, i, j) / sqrt(squares);
}

static double conv(const struct op *op, int64_t s, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t t = 0; t < op->y->pages; t++) {
        int64_t page = s + t - op->y->pages / 2;
        if (page >= 0 && page < op->pages)
            sum += at(op->y, t, i, j) * at(op->x, page, i, j);
    }
    return sum;
}

/* Returns an element of a matrix; only pages may broadcast. */
static double exactly(const struct oracle_matrix *x, int64_t s, int64_t i, int64_t j) {
    return x->data[((x->pages == 1 ? 0 : s) * x->rows + i) * x->columns + j];
}

static double gemm(const struct op *op, int64_t s, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t d = 0; d < op->x->columns; d++)
        sum += exactly(op->x, s, j, d) * exactly(op->y, s, i, d);
    return sum;
}

static double kron(const struct op *op, int64_t s, int64_t i, int64_t j) {
    int64_t rows = is_over(op, 1) ? op->y->rows : 0, columns = is_over(op, 2) ? op->y->columns : 0;
    return at(op->x, s, rows ? i / rows : i, columns ? j / columns : j) *
           at(op->y, s, rows ? i % rows : i, columns ? j % columns : j);
}

static double slice(const struct op *op, int64_t s, int64_t i, int64_t j) {
    (void)s;
    int64_t number = is_over(op, 1) ? i : j;
    bool inside = op->given->start <= number && number < op->given->end;
    return inside ? op->given->alpha : op->given->beta;
}

static double transpose(const struct op *op, int64_t s, int64_t i, int64_t j) {
    return exactly(op->x, s, j, i);
}

static double copy(const struct op *op, int64_t s, int64_t i, int64_t j) {
    return op->x->data[(s * op->out.rows + i) * op->out.columns + j];
}

/* ---- Ops: shapes of results ---- */

static struct oracle_matrix shape_of_reduction(const struct op *op) {
    bool interleaved = strstr(op->given->op, "Interleave") != NULL;
    int64_t group = op->given->group;
    struct oracle_matrix shape = *op->x;
    if (is_over(op, 0))
        shape.pages = 1;
    if (is_over(op, 1))
        shape.rows = interleaved ? shape.rows / group : 1;
    if (is_over(op, 2))
        shape.columns = interleaved ? shape.columns / group : 1;
    return shape;
}

static int64_t pages_of(const struct op *op) {
    return op->x->pages == 1 && op->y->pages == 1 ? 1 : op->pages;
}

static struct oracle_matrix same_shape(const struct op *op) {
    return *op->x;
}

static struct oracle_matrix shape_of_binary(const struct op *op) {
    return (struct oracle_matrix){pages_of(op), larger(op->x->rows, op->y->rows),
                                  larger(op->x->columns, op->y->columns), NULL};
}

static struct oracle_matrix shape_of_gemm(const struct op *op) {
    return (struct oracle_matrix){pages_of(op), op->y->rows, op->x->rows, NULL};
}

static struct oracle_matrix shape_of_kron(const struct op *op) {
    struct oracle_matrix shape = shape_of_binary(op);
    if (is_over(op, 1))
        shape.rows = op->x->rows * op->y->rows;
    if (is_over(op, 2))
        shape.columns = op->x->columns * op->y->columns;
    return shape;
}

static struct oracle_matrix shape_of_transpose(const struct op *op) {
    return (struct oracle_matrix){op->x->pages, op->x->columns, op->x->rows, NULL};
}

static struct oracle_matrix shape_of_reshape(const struct op *op) {
    return (struct oracle_matrix){op->x->pages, op->given->rows, op->given->columns, NULL};
}

struct kind {
    const char *name;
    struct oracle_matrix (*shape)(const struct op *op);
    double (*element)(const struct op *op, int64_t s, int64_t i, int64_t j);
};

/* Ops that are not in the table are element by element. */
static const struct kind *kind_of(const struct op *op) {
    static const struct kind kinds[] = {
        {"GeMM", shape_of_gemm, gemm},       {"Kron", shape_of_kron, kron},
        {"Softmax", same_shape, softmax},    {"Normalize", same_shape, normalize},
        {"Conv1d", same_shape, conv},        {"Transpose", shape_of_transpose, transpose},
        {"Reshape", shape_of_reshape, copy}, {"MaskSlice", same_shape, slice},
        {"Load", same_shape, copy},
    };
    static const char reductions[] = " Sum Mean Max Min L2Norm ";
    static const struct kind of_two = {"", shape_of_binary, binary},
                             of_one = {"", same_shape, unary},
                             of_groups = {"", shape_of_reduction, reduction};
    char word[24];
    snprintf(word, sizeof word, " %.*s ", (int)strcspn(op->given->op, "I"), op->given->op);
    if (strstr(reductions, word) != NULL) /* reductions of neighbours end in "Interleave" */
        return &of_groups;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is(op, kinds[i].name))
            return &kinds[i];
    return op->y != NULL ? &of_two : &of_one;
}

/* ---- Programs ---- */

static void run_op(const kvmill_flow_op *given, int64_t pages, struct oracle_values *values,
                   struct oracle_values *saved) {
    struct op op = {given,
                    oracle_find_value(values, given->inputs[0]),
                    oracle_find_value(values, given->inputs[1]),
                    {0},
                    pages};
    bool saves = is(&op, "Save"), unites = is(&op, "Union");
    bool selects = unites || is(&op, "topK") || is(&op, "approxTopK");
    if (is(&op, "Fill")) {
        const struct oracle_matrix *field = oracle_find_value(values, given->output);
        for (int64_t i = 0; i < field->pages * field->rows * field->columns; i++)
            field->data[i] = given->alpha;
        return;
    }
    if (saves || selects) {
        oracle_add_value(saves ? saved : values, saves ? given->output : "topK", op.x->pages,
                         op.x->rows, op.x->columns, op.x->data);
        if (unites)
            oracle_add_value(values, "second", op.y->pages, 1, 1, op.y->data);
        return;
    }
    const struct kind *kind = kind_of(&op);
    bool rounds = values->rounds && oracle_find_value(values, given->output) == NULL;
    op.out = kind->shape(&op);
    double *next =
        oracle_add_value(values, given->output, op.out.pages, op.out.rows, op.out.columns, NULL)
            ->data;
    for (int64_t s = 0; s < op.out.pages; s++)
        for (int64_t i = 0; i < op.out.rows; i++)
            for (int64_t j = 0; j < op.out.columns; j++)
                *next++ = oracle_result(rounds, kind->element(&op, s, i, j));
}

void oracle_run_ops(const kvmill_flow_op *ops, size_t count, int64_t pages,
                    struct oracle_values *values, struct oracle_values *saved) {
    for (size_t i = 0; i < count; i++)
        run_op(&ops[i], pages, values, saved);
}

/* ---- Fields ---- */

static enum oracle_type type_of(DLDataType type) {
    return type.code == kDLBfloat ? ORACLE_BF16 : type.bits == 16 ? ORACLE_F16 : ORACLE_F32;
}

/* Returns the least number of the type that is not less than x. */
static double round_up(enum oracle_type type, double x) {
    double nearest = oracle_round(type, x);
    if (!(nearest < x))
        return nearest;
    uint32_t bits = oracle_encode(type, nearest), sign = type == ORACLE_F32 ? 1u << 31 : 1u << 15;
    return oracle_decode(type, bits & sign ? bits - 1 : bits + 1);
}

double oracle_round_field(DLDataType dtype, const char *op, double x) {
    enum oracle_type type = type_of(dtype);
    if (strncmp(op, "Max", 3) == 0)
        return round_up(type, x);
    return strncmp(op, "Min", 3) == 0 ? -round_up(type, -x) : oracle_round(type, x);
}

static const kvmill_flow_field *field_named(const kvmill_flow *flow, const char *name) {
    for (size_t i = 0; i < flow->field_count; i++)
        if (strcmp(flow->fields[i].name, name) == 0)
            return &flow->fields[i];
    return NULL;
}

/* Rounds the latest value of an op's output to its field's type. */
static void round_output(const kvmill_flow *flow, const kvmill_flow_op *op,
                         struct oracle_values *values) {
    const kvmill_flow_field *field = field_named(flow, op->output);
    if (field == NULL)
        return;
    struct oracle_matrix *matrix = oracle_find_value(values, op->output);
    for (int64_t i = 0; i < matrix->rows * matrix->columns; i++)
        matrix->data[i] = oracle_round_field(field->dtype, op->op, matrix->data[i]);
}

static int64_t value_dim(const kvmill_cache_attention *attention) {
    return attention->value_differs && attention->value_head_dim ? attention->value_head_dim
                                                                 : attention->head_dim;
}

void oracle_summarise(const kvmill_flow *flow, int64_t rows, const double *k, const double *v,
                      double *const *fields, const struct oracle_keeper *keeper) {
    struct oracle_values values = {.rounds = oracle_rounds(flow)};
    oracle_add_value(&values, "k", 1, rows, flow->attention->head_dim, k);
    oracle_add_value(&values, "v", 1, rows, value_dim(flow->attention), v);
    for (size_t i = 0; i < flow->field_count; i++) {
        bool comes = oracle_grows(flow, i);
        oracle_add_value(&values, flow->fields[i].name, 1, comes ? rows : flow->fields[i].rows,
                         flow->fields[i].columns, comes ? fields[i] : NULL);
    }
    for (size_t i = 0; i < flow->cache_count; i++) {
        oracle_run_ops(&flow->cache[i], 1, 1, &values, NULL);
        round_output(flow, &flow->cache[i], &values);
        const char *name = flow->cache[i].output;
        if (strcmp(name, "k") == 0 || strcmp(name, "v") == 0)
            keeper->keep(keeper, name[0] == 'v', oracle_find_value(&values, name)->data);
    }
    for (size_t i = 0; i < flow->field_count; i++)
        if (!oracle_grows(flow, i))
            memcpy(fields[i], oracle_find_value(&values, flow->fields[i].name)->data,
                   (size_t)(flow->fields[i].rows * flow->fields[i].columns) * sizeof **fields);
    oracle_free_values(&values);
}

/* ---- Scores ---- */

static void add_inputs(const kvmill_flow *flow, int64_t group, int64_t pages, const double *q,
                       const double *k, const double *v, double *const *fields,
                       struct oracle_values *values) {
    const kvmill_cache_attention *attention = flow->attention;
    int64_t rows = flow->block_size > 0 ? flow->block_size : attention->page_size;
    oracle_add_value(values, "q", 1, group, attention->head_dim, q);
    oracle_add_value(values, "k", pages, rows, attention->head_dim, k);
    oracle_add_value(values, "v", pages, rows, value_dim(attention), v);
    for (size_t i = 0; i < flow->field_count; i++)
        oracle_add_value(values, flow->fields[i].name, pages, flow->fields[i].rows,
                         flow->fields[i].columns, fields[i]);
    for (size_t i = 0; i < flow->constant_count; i++) {
        const kvmill_flow_constant *constant = &flow->constants[i];
        struct oracle_matrix *matrix = oracle_add_value(values, constant->name, constant->taps,
                                                        constant->rows, constant->columns, NULL);
        for (int64_t e = 0; e < constant->taps * constant->rows * constant->columns; e++)
            matrix->data[e] = constant->values[e];
    }
}

void oracle_score(const kvmill_flow *flow, int64_t group, int64_t pages, const double *q,
                  const double *k, const double *v, double *const *fields, double *scores,
                  double *const *saved) {
    struct oracle_values values = {.rounds = oracle_rounds(flow)}, states = {.count = 0};
    add_inputs(flow, group, pages, q, k, v, fields, &values);
    oracle_run_ops(flow->index, flow->index_count, pages, &values, &states);
    const struct oracle_matrix *score = oracle_find_value(&values, "topK");
    const struct oracle_matrix *second = oracle_find_value(&values, "second");
    for (int64_t s = 0; s < pages; s++)
        scores[s] = at(score, s, 0, 0);
    for (int64_t s = 0; second != NULL && s < pages; s++)
        scores[pages + s] = at(second, s, 0, 0);
    for (size_t i = 0; i < flow->field_count; i++) {
        const struct oracle_matrix *state = oracle_find_value(&states, flow->fields[i].name);
        for (int64_t e = 0; state != NULL && e < pages * state->rows * state->columns; e++)
            saved[i][e] = oracle_round_field(flow->fields[i].dtype, "Save", state->data[e]);
    }
    oracle_free_values(&values);
    oracle_free_values(&states);
}

/* ---- Selection ---- */

int64_t oracle_selected(const kvmill_flow_select *select, int64_t pages) {
    int64_t reserved = select->reserved_bos + select->reserved_eos, share = 0;
    int64_t budget = reserved + select->topk_val;
    while (select->ratio_denominator > 0 &&
           (share + 1) * select->ratio_denominator <= pages * select->ratio_numerator)
        share++;
    budget = larger(budget, share);
    if (select->cap > 0 && budget > larger(select->cap, reserved))
        budget = larger(select->cap, reserved);
    return pages < budget ? pages : budget;
}

struct scored {
    int32_t page;
    float score;
};

/* Orders by score, best first, then by page. */
static int by_score(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    float first = isnan(x->score) ? -INFINITY : x->score;
    float second = isnan(y->score) ? -INFINITY : y->score;
    return first != second ? (first < second) - (first > second) : x->page - y->page;
}

static int by_page(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    return x->page - y->page;
}

int64_t oracle_second(const kvmill_flow *flow) {
    for (size_t i = 0; i < flow->index_count; i++)
        if (strcmp(flow->index[i].op, "Union") == 0)
            return flow->index[i].group;
    return 0;
}

int64_t oracle_unite(const kvmill_flow_select *select, int64_t second, int64_t pages,
                     const float *score, const float *second_score, int32_t *list) {
    int64_t count = oracle_selected(select, pages), bos = select->reserved_bos, at = 0;
    bool ascending = select->order == NULL || strcmp(select->order, "logical") == 0;
    if (count == pages) {
        for (; at < pages; at++)
            list[at] = (int32_t)at;
        return count;
    }
    int64_t candidates = pages - bos - select->reserved_eos;
    int64_t wanted = count - bos - select->reserved_eos;
    struct scored *scored = calloc((size_t)candidates + 1, sizeof *scored);
    for (int64_t i = 0; i < candidates; i++)
        scored[i] = (struct scored){(int32_t)(bos + i), wanted > 0 ? score[bos + i] : 0};
    qsort(scored, (size_t)candidates, sizeof *scored, by_score);
    second = second < wanted ? second : wanted;
    for (int64_t i = wanted - second; second > 0 && i < candidates; i++)
        scored[i].score = second_score[scored[i].page];
    if (second > 0)
        qsort(scored + wanted - second, (size_t)(candidates - wanted + second), sizeof *scored,
              by_score);
    if (ascending)
        qsort(scored, (size_t)wanted, sizeof *scored, by_page);
    for (int64_t i = 0; i < bos; i++)
        list[at++] = (int32_t)i;
    for (int64_t i = 0; i < wanted; i++)
        list[at++] = scored[i].page;
    for (int64_t page = pages - select->reserved_eos; page < pages; page++)
        list[at++] = (int32_t)page;
    free(scored);
    return count;
}
