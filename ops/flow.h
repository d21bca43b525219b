/* Sparse flows: which are valid, and what a valid one folds to.  The same rules serve the generator
   (flow files) and the library (plans).

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_OPS_FLOW_H
#define KVMILL_OPS_FLOW_H

#include <stdbool.h>

#include "cache_attention.h"

enum kvmill_flow_most {
    KVMILL_MOST_FLOW_FIELDS = 32,
    KVMILL_MOST_FLOW_CONSTANTS = 32,
    KVMILL_MOST_FLOW_OPS = 64,
    KVMILL_MOST_FLOW_APPENDED = 8,
    KVMILL_MOST_FLOW_INPUTS = 8,
    KVMILL_MOST_FLOW_OWN =
        KVMILL_MOST_FLOW_FIELDS + KVMILL_MOST_FLOW_APPENDED + KVMILL_MOST_FLOW_INPUTS,
    KVMILL_MOST_FLOW_TENSORS = KVMILL_FLOW_FIELDS + KVMILL_MOST_FLOW_OWN,
    KVMILL_FLOW_TENSOR_NAME = 56, /* "current_" and the longest name */
    KVMILL_MOST_FLOW_LAYERS = 1024,
    KVMILL_MOST_FLOW_VALUES =
        2 + KVMILL_MOST_FLOW_FIELDS + KVMILL_MOST_FLOW_CONSTANTS + KVMILL_MOST_FLOW_OPS + 1,
    KVMILL_MOST_FLOW_DIM = 1 << 16,
    KVMILL_MOST_FLOW_ELEMENTS = 1 << 24
};

/* ---- Ops ---- */

enum kvmill_flow_code {
    KVMILL_FLOW_GEMM,
    KVMILL_FLOW_SUM,
    KVMILL_FLOW_MEAN,
    KVMILL_FLOW_MAX,
    KVMILL_FLOW_MIN,
    KVMILL_FLOW_L2NORM,
    KVMILL_FLOW_MEAN_INTERLEAVE,
    KVMILL_FLOW_MAX_INTERLEAVE,
    KVMILL_FLOW_MIN_INTERLEAVE,
    KVMILL_FLOW_L2NORM_INTERLEAVE,
    KVMILL_FLOW_MULTIPLY,
    KVMILL_FLOW_MAXIMUM,
    KVMILL_FLOW_MINIMUM,
    KVMILL_FLOW_ADD,
    KVMILL_FLOW_WHERE_EQUAL,
    KVMILL_FLOW_WHERE_NOT_EQUAL,
    KVMILL_FLOW_WHERE_GREATER,
    KVMILL_FLOW_WHERE_GREATER_EQUAL,
    KVMILL_FLOW_WHERE_LESS,
    KVMILL_FLOW_WHERE_LESS_EQUAL,
    KVMILL_FLOW_KRON,
    KVMILL_FLOW_RELU,
    KVMILL_FLOW_SIGMOID,
    KVMILL_FLOW_SILU,
    KVMILL_FLOW_ADD_MUL,
    KVMILL_FLOW_ABS,
    KVMILL_FLOW_LOG,
    KVMILL_FLOW_EXP,
    KVMILL_FLOW_SOFTMAX,
    KVMILL_FLOW_NORMALIZE,
    KVMILL_FLOW_CONV1D,
    KVMILL_FLOW_TRANSPOSE,
    KVMILL_FLOW_RESHAPE,
    KVMILL_FLOW_MASK_SLICE,
    KVMILL_FLOW_FILL,
    KVMILL_FLOW_LOAD,
    KVMILL_FLOW_SAVE,
    KVMILL_FLOW_TOPK,
    KVMILL_FLOW_APPROX_TOPK, /* in programs it becomes topK */
    KVMILL_FLOW_UNION,
    KVMILL_FLOW_CODES
};

enum kvmill_flow_part { KVMILL_CACHE_PROGRAM, KVMILL_INDEX_PROGRAM, KVMILL_FLOW_PROGRAMS };

/* Attributes of an op. */
enum {
    KVMILL_FLOW_ALPHA = 1,
    KVMILL_FLOW_BETA = 2,
    KVMILL_FLOW_SCALE = 4,
    KVMILL_FLOW_DIMS = 8,
    KVMILL_FLOW_GROUP = 16,
    KVMILL_FLOW_SLICE = 32,      /* start, end */
    KVMILL_FLOW_SHAPE = 64,      /* rows, columns */
    KVMILL_FLOW_TOLERANCE = 128, /* alpha */
    KVMILL_FLOW_SECOND = 256     /* group */
};

struct kvmill_flow_typing;

/* What all ops with one name have in common. */
struct kvmill_flow_kind {
    const char *name;
    int inputs;
    unsigned programs;   /* bits by enum kvmill_flow_part */
    unsigned attributes; /* of those above */
    unsigned dims;       /* that `dims` may name, as bits */
    /* Defaults of attributes that a file does not give; NAN: it must. */
    double alpha, beta;
    kvmill_status (*infer)(struct kvmill_flow_typing *typing);
};

/* An op by enum kvmill_flow_code, and by name; NULL if there is none. */
const struct kvmill_flow_kind *kvmill_flow_kind_at(int code);
int kvmill_flow_code_by_name(const char *name); /* -1 when there is none */

/* Whether the op selects blocks by its input. */
static inline bool kvmill_flow_is_selection(int code) {
    return code == KVMILL_FLOW_TOPK || code == KVMILL_FLOW_APPROX_TOPK || code == KVMILL_FLOW_UNION;
}

/* ---- Shapes ---- */

/* A matrix for each block that is scored, or only one.  `tokens`: its rows are the block's rows,
   which may be fewer than block_size. */
struct kvmill_flow_shape {
    bool ragged, tokens;
    int64_t taps, rows, columns;
};

/* The inputs and the result of a rule of shapes. */
struct kvmill_flow_typing {
    const kvmill_flow_op *op;
    const struct kvmill_flow_kind *kind;
    struct kvmill_flow_shape in[2], out;
    bool incremental;
    kvmill_error *error;
};

/* Messages about shapes: which dim; "[4, 128]", as text in `words`. */
struct kvmill_flow_shape_text {
    char text[64];
};
const char *kvmill_flow_shape_words(const struct kvmill_flow_shape *shape,
                                    struct kvmill_flow_shape_text *words);

/* ---- Programs ---- */

/* The source of a value; `number` counts within it. */
enum kvmill_flow_source {
    KVMILL_FLOW_QUERY,
    KVMILL_FLOW_KEY,
    KVMILL_FLOW_VALUE,
    KVMILL_FLOW_FIELD,
    KVMILL_FLOW_CONSTANT,
    KVMILL_FLOW_RESULT /* of step `number` */
};

struct kvmill_flow_value {
    enum kvmill_flow_source source;
    int number, uses;
    int64_t sharers; /* neighbouring kv heads for which it is the same */
    struct kvmill_flow_shape shape;
};

/* One op.  It writes a value, or a field (then `field` is its number, else -1).  side: 0 if the
   value becomes rows of K, 1: of V, else -1; later ops read it as it was stored. */
struct kvmill_flow_step {
    int code;
    int input[2]; /* values, or -1 */
    int output;   /* a value, or -1: topK, Union, Save */
    int field, side;
    float alpha, beta, scale;
    unsigned dims;
    int64_t group, start, end;
};

struct kvmill_flow_program {
    int value_count, step_count;
    struct kvmill_flow_value values[KVMILL_MOST_FLOW_VALUES];
    struct kvmill_flow_step steps[KVMILL_MOST_FLOW_OPS];
};

/* ---- Flows ---- */

enum kvmill_field_layout { KVMILL_FIELDS_APART, KVMILL_FIELDS_BY_PAGE, KVMILL_FIELDS_BY_HEAD };

enum kvmill_flow_scope { KVMILL_SCOPE_KV_HEAD, KVMILL_SCOPE_QUERY_HEAD, KVMILL_SCOPE_REQUEST };

/* How many blocks of a row are selected. */
struct kvmill_flow_budget {
    int64_t k, bos, eos, numerator, denominator, cap;
    int64_t dense_below; /* tokens; INT64_MAX: all rows are read whole */
};

struct kvmill_flow_constant_data {
    const float *values; /* the caller's; NULL: they come with each step, as the input */
    int input;           /* with this number, else -1 */
    struct kvmill_flow_shape shape;
};

struct kvmill_flow_field_data {
    int element; /* KVMILL_F32, F16, BF16; if rows are appended also E4M3, E5M2, I8 */
    int64_t rows, columns;
    int64_t bytes;  /* of one matrix */
    int64_t before; /* bytes of those before it, if fields are adjacent */
    int64_t heads;  /* matrices of a block: kv heads, or a divisor; neighbours share one */
    bool saved;     /* state of the index program */
    int appended;   /* the number of the tensor with its rows of new tokens; -1: none */
    int scales;     /* the field with its scales; -1: none */
    bool powers;    /* the scales are powers of two */
    bool of_codes;  /* it has the scales of another field */
};

/* A flow resolved. */
struct kvmill_flow_problem {
    struct kvmill_cache_geometry geometry;
    /* Tokens of a block, which is scored and selected as a whole, and blocks of a page. */
    int64_t block_size, page_blocks;
    int64_t group; /* rows of "q" */
    int field_count, constant_count, appended_count, input_count;
    enum kvmill_field_layout field_layout;
    int64_t record_bytes; /* of one matrix of every field, if fields are adjacent */
    struct kvmill_flow_field_data fields[KVMILL_MOST_FLOW_FIELDS];
    struct kvmill_flow_constant_data constants[KVMILL_MOST_FLOW_CONSTANTS];
    struct kvmill_flow_program programs[KVMILL_FLOW_PROGRAMS];
    struct kvmill_flow_budget budget;
    int64_t second; /* blocks that are selected by the second score; 0: there is none */
    enum kvmill_flow_scope scope;
    bool by_score, incremental;
    bool rounds;    /* results of ops that are not stored are rounded to bfloat16 */
    bool writes[2]; /* whether the cache program writes rows of K, of V */
    bool skipped;   /* the layer keeps no fields, and all rows are read whole */
};

/* The part of a flow that a message is about: "fields", "constants", "cache" or "index" with a
   number; "select", "attention", "summary", "fields" etc. with number -1; or NULL for the whole
   flow. */
struct kvmill_flow_place {
    const char *list;
    int number;
};

/* Copies of a caller's flow and its attention, in this library's version; kvmill_take_flow makes
 * them. */
struct kvmill_own_flow {
    kvmill_flow flow;
    kvmill_cache_attention attention;
};

kvmill_status kvmill_take_flow(const kvmill_flow *given, struct kvmill_own_flow *own,
                               kvmill_error *error);

/* The copied attention, to which the copied flow refers. */
kvmill_status kvmill_take_flow_attention(struct kvmill_own_flow *own, kvmill_error *error);

/* Check everything.  Messages do not repeat the place. */
kvmill_status kvmill_flow_check(const kvmill_flow *flow, struct kvmill_flow_problem *problem,
                                struct kvmill_flow_place *place, kvmill_error *error);

/* The same, with the place at the beginning of the message. */
kvmill_status kvmill_flow_verify(const kvmill_flow *flow, struct kvmill_flow_problem *problem,
                                 kvmill_error *error);

int64_t kvmill_common_divisor(int64_t a, int64_t b);

/* Where the matrices of a field are: bytes from the beginning of its piece of memory to block 0 and
   head 0; bytes from a block, and from a head, to the next. */
struct kvmill_field_place {
    int64_t first, block, head;
};

struct kvmill_field_place kvmill_flow_field_place(const struct kvmill_flow_problem *problem,
                                                  int field, int64_t blocks);

/* The layout of a checked flow, except struct_size. */
void kvmill_flow_layout_of(const struct kvmill_flow_problem *problem, kvmill_flow_layout *layout);

/* ---- Blocks of a row ---- */

/* How many of a row's `blocks` blocks (fewer than 2^31) are selected, if it has more. */
int64_t kvmill_flow_budget_of(const struct kvmill_flow_budget *budget, int64_t blocks);

/* The rows of a request: kv heads, query heads, or 1. */
int64_t kvmill_flow_rows_of_request(const struct kvmill_flow_problem *problem);

/* Whether a page that may be partial is scored like the others, and may be left out. */
static inline bool kvmill_flow_last_is_scored(const struct kvmill_flow_problem *problem) {
    return problem->budget.eos == 0 && problem->block_size > 1;
}

/* Whether a field's rows are appended. */
static inline bool kvmill_flow_grows(const struct kvmill_flow_field_data *field) {
    return field->appended >= 0 || field->of_codes;
}

/* The number of a kv head's matrix of a field; how many kv heads share it. */
static inline int64_t kvmill_flow_field_head(const struct kvmill_flow_problem *problem, int field,
                                             int64_t kv_head) {
    return kv_head * problem->fields[field].heads / problem->geometry.kv_heads;
}

static inline int64_t kvmill_flow_sharers(const struct kvmill_flow_problem *problem, int field) {
    return problem->geometry.kv_heads / problem->fields[field].heads;
}

/* Whether some row may have more blocks than are selected. */
bool kvmill_flow_scores(const struct kvmill_flow_budget *budget);

/* Whether the index program saves state, which changes even if no block is to be selected. */
bool kvmill_flow_saves(const struct kvmill_flow_problem *problem);

#endif
