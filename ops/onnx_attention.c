/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_attention.h"

#include <inttypes.h>
#include <math.h>

#include "../defs/dtype.h"
#include "attributes.h"
#include "extent.h"
#include "fail.h"
#include "refuse.h"
#include "tensor_scatter.h"

enum { OPSET_OF_NONPAD = 24, OPSET_OF_WINDOWS = 25 };

/* TensorProto's numbers of element types. */
enum { PRECISION_FLOAT = 1, PRECISION_HALF = 10, PRECISION_DOUBLE = 11, PRECISION_BFLOAT16 = 16 };

enum { ALL_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

/* ---- Tensors ---- */

/* A problem while it is checked. */
struct checked {
    const kvmill_attention *op;
    const char *mode; /* of a step */
    const DLTensor *tensor[KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS];
    struct kvmill_attention_geometry geometry;
    kvmill_error *error;
};

static kvmill_status check_presence(const struct checked *checked) {
    for (int i = KVMILL_ATTENTION_Q; i <= KVMILL_ATTENTION_V; i++)
        if (checked->tensor[i] == NULL)
            return kvmill_refuse_null(kvmill_attention_name(i), checked->error);
    bool key = checked->op->past_key != NULL, value = checked->op->past_value != NULL;
    if (key != value || (checked->geometry.step && !key))
        return kvmill_fail(
            checked->error, KVMILL_E_NULL, "%s is NULL; accepted: past_key and past_value%s",
            key ? "past_value" : "past_key", checked->geometry.step ? "" : ", or none of them");
    return KVMILL_OK;
}

/* nonpad_kv_seqlen counts the valid rows of K; with a past, invalid rows would be in the middle. */
static kvmill_status check_nonpad(const struct checked *checked) {
    const kvmill_attention *op = checked->op;
    if (op->nonpad_kv_seqlen == NULL)
        return KVMILL_OK;
    if (op->opset < OPSET_OF_NONPAD)
        return kvmill_fail(checked->error, KVMILL_E_ATTRIBUTE,
                           "nonpad_kv_seqlen is given; accepted: NULL in opset %" PRId64,
                           op->opset);
    if (op->past_key != NULL && !checked->geometry.step)
        return kvmill_fail(
            checked->error, KVMILL_E_ATTRIBUTE,
            "nonpad_kv_seqlen is given; accepted: NULL, with past_key and past_value");
    return KVMILL_OK;
}

/* ---- Attributes ---- */

static kvmill_status check_precision(const struct checked *checked) {
    switch (checked->op->softmax_precision) {
    case 0:
    case PRECISION_FLOAT:
    case PRECISION_HALF:
    case PRECISION_DOUBLE:
    case PRECISION_BFLOAT16:
        return KVMILL_OK;
    default:
        return kvmill_fail(checked->error, KVMILL_E_ATTRIBUTE,
                           "softmax_precision is %" PRId64
                           "; accepted: 1 (float), 10 (float16), 11 (double), 16 (bfloat16)",
                           checked->op->softmax_precision);
    }
}

static kvmill_status check_attributes(const struct checked *checked) {
    kvmill_status status =
        kvmill_check_members(OP_ATTENTION, checked->geometry.step, checked->op, checked->error);
    return status == KVMILL_OK ? check_precision(checked) : status;
}

/* ---- Types ---- */

bool kvmill_is_attention_type(DLDataType type) {
    return kvmill_dtype_equal(type, kvmill_float64) ||
           kvmill_is_activation(kvmill_element_of(type));
}

/* bool, and all numbers but complex ones, of whole bytes. */
static bool is_mask_type(DLDataType type) {
    bool integer = (type.code == kDLInt || type.code == kDLUInt) && type.bits >= 8;
    return kvmill_dtype_known(type) &&
           (integer || type.code == KVMILL_DL_BOOL || kvmill_is_attention_type(type));
}

static kvmill_status refuse_type(const struct checked *checked, int which, const char *accepted) {
    return kvmill_refuse_type(kvmill_attention_name(which), checked->tensor[which]->dtype, NULL,
                              accepted, checked->error);
}

/* The type of a tensor is that of another tensor, or its own. */
static DLDataType wanted_type(const struct checked *checked, int which) {
    switch (which) {
    case KVMILL_ATTENTION_V:
    case KVMILL_ATTENTION_PAST_VALUE:
    case KVMILL_ATTENTION_PRESENT_VALUE:
        return checked->op->V->dtype;
    case KVMILL_ATTENTION_ATTN_MASK:
        return checked->op->attn_mask->dtype;
    case KVMILL_ATTENTION_NONPAD_KV_SEQLEN:
    case KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES:
        return kvmill_int64;
    default:
        return checked->op->Q->dtype;
    }
}

static kvmill_status check_types(const struct checked *checked) {
    const char *floats = "float16, bfloat16, float32, float64";
    if (!kvmill_is_attention_type(checked->op->Q->dtype))
        return refuse_type(checked, KVMILL_ATTENTION_Q, floats);
    if (!kvmill_is_attention_type(checked->op->V->dtype))
        return refuse_type(checked, KVMILL_ATTENTION_V, floats);
    if (checked->op->attn_mask != NULL && !is_mask_type(checked->op->attn_mask->dtype))
        return refuse_type(checked, KVMILL_ATTENTION_ATTN_MASK,
                           "bool, integers of 8 to 64 bits, float16, bfloat16, float32, float64");
    for (int i = 0; i < ALL_TENSORS; i++)
        if (checked->tensor[i] != NULL &&
            !kvmill_dtype_equal(checked->tensor[i]->dtype, wanted_type(checked, i)))
            return refuse_type(checked, i, kvmill_dtype_name(wanted_type(checked, i)));
    return KVMILL_OK;
}

/* ---- Sizes ---- */

static kvmill_status check_size(const struct checked *checked, int which) {
    const char *name = kvmill_attention_name(which);
    const DLTensor *tensor = checked->tensor[which];
    kvmill_status status = kvmill_check_form(name, tensor, checked->error);
    return status == KVMILL_OK ? kvmill_check_dims(name, tensor, KVMILL_DYNAMIC, checked->error)
                               : status;
}

static kvmill_status check_sizes(const struct checked *checked) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < ALL_TENSORS; i++)
        if (checked->tensor[i] != NULL)
            status = check_size(checked, i);
    return status;
}

/* ---- Heads ---- */

static kvmill_status check_ranks(struct checked *checked) {
    int rank = checked->op->Q->ndim;
    checked->geometry.packed = rank == 3;
    if (rank != 3 && rank != 4)
        return kvmill_fail(checked->error, KVMILL_E_SHAPE, "Q has rank %d; accepted: 3 or 4", rank);
    for (int i = KVMILL_ATTENTION_K; i <= KVMILL_ATTENTION_V; i++)
        if (checked->tensor[i]->ndim != rank)
            return kvmill_fail(checked->error, KVMILL_E_SHAPE, "%s has rank %d; accepted: Q's, %d",
                               kvmill_attention_name(i), checked->tensor[i]->ndim, rank);
    return KVMILL_OK;
}

/* A tensor of rank 4 has heads as a dim; the attribute must agree. */
static kvmill_status find_heads(const struct checked *checked, int which, const char *name,
                                int64_t attribute, int64_t *heads) {
    const DLTensor *tensor = checked->tensor[which];
    bool packed = checked->geometry.packed, given = attribute != 0;
    *heads = packed ? attribute : tensor->shape[1];
    if (packed && !given)
        return kvmill_fail(checked->error, KVMILL_E_ATTRIBUTE,
                           "%s is 0; accepted: 1 or more, with tensors of rank 3", name);
    if (!packed && given && checked->op->opset >= OPSET_OF_WINDOWS)
        return kvmill_fail(checked->error, KVMILL_E_ATTRIBUTE,
                           "%s is %" PRId64 "; accepted in opset %" PRId64
                           " with tensors of rank 4: none",
                           name, attribute, checked->op->opset);
    if (*heads < 1 || *heads > OP_MOST_HEADS || (given && attribute != *heads))
        return kvmill_fail(checked->error, given ? KVMILL_E_ATTRIBUTE : KVMILL_E_SHAPE,
                           "dim 1 of %s is %" PRId64 " and %s %" PRId64
                           "; accepted: a known number of heads, 1 to %d",
                           kvmill_attention_name(which), *heads, name, attribute,
                           (int)OP_MOST_HEADS);
    return KVMILL_OK;
}

/* The elements of one head in the last dim. */
static kvmill_status find_dim(const struct checked *checked, int which, int64_t heads,
                              int64_t *dim) {
    const DLTensor *tensor = checked->tensor[which];
    int last = tensor->ndim - 1;
    int64_t together = checked->geometry.packed ? heads : 1;
    *dim = tensor->shape[last] / together;
    if (*dim >= 1 && *dim <= OP_MOST_DIM && tensor->shape[last] % together == 0)
        return KVMILL_OK;
    return kvmill_fail(
        checked->error, KVMILL_E_SHAPE,
        "dim %d of %s is %" PRId64 "; accepted: a known number, %" PRId64 " times 1 to %d", last,
        kvmill_attention_name(which), tensor->shape[last], together, (int)OP_MOST_DIM);
}

static kvmill_status check_heads(struct checked *checked) {
    struct kvmill_attention_geometry *geometry = &checked->geometry;
    const kvmill_attention *op = checked->op;
    kvmill_status status =
        find_heads(checked, KVMILL_ATTENTION_Q, "q_num_heads", op->q_num_heads, &geometry->heads);
    if (status == KVMILL_OK)
        status = find_heads(checked, KVMILL_ATTENTION_K, "kv_num_heads", op->kv_num_heads,
                            &geometry->kv_heads);
    if (status == KVMILL_OK)
        status = find_dim(checked, KVMILL_ATTENTION_Q, geometry->heads, &geometry->key_dim);
    if (status == KVMILL_OK)
        status = find_dim(checked, KVMILL_ATTENTION_V, geometry->kv_heads, &geometry->value_dim);
    if (status != KVMILL_OK)
        return status;
    geometry->ratio = geometry->heads / geometry->kv_heads;
    if (geometry->heads % geometry->kv_heads != 0)
        return kvmill_fail(checked->error, KVMILL_E_SHAPE,
                           "K has %" PRId64 " heads; accepted: a divisor of the %" PRId64
                           " heads of Q",
                           geometry->kv_heads, geometry->heads);
    return KVMILL_OK;
}

/* ---- Shapes ---- */

enum { MOST_RANK = 4 };

struct shape {
    int rank;
    int64_t dims[MOST_RANK];
};

static struct shape of_heads(const struct kvmill_attention_geometry *g, int64_t heads, int64_t rows,
                             int64_t dim) {
    if (g->packed)
        return (struct shape){3, {g->batch, rows, heads * dim}};
    return (struct shape){4, {g->batch, heads, rows, dim}};
}

/* Only tensors without elements can have so many rows that the sum is too large. */
static int64_t sum(int64_t a, int64_t b) {
    int64_t total;
    if (a == KVMILL_DYNAMIC || b == KVMILL_DYNAMIC)
        return KVMILL_DYNAMIC;
    return __builtin_add_overflow(a, b, &total) ? INT64_MAX : total;
}

int64_t kvmill_attention_keys(const struct kvmill_attention_geometry *geometry) {
    return geometry->step ? geometry->past : sum(geometry->past, geometry->keys);
}

/* Caches have Q's rank; past and present always have rank 4. */
static struct shape of_cache(const struct kvmill_attention_geometry *g, int64_t rows, int64_t dim) {
    return g->step ? of_heads(g, g->kv_heads, rows, dim)
                   : (struct shape){4, {g->batch, g->kv_heads, rows, dim}};
}

static struct shape shape_of(const struct kvmill_attention_geometry *g, int which) {
    int64_t all = kvmill_attention_keys(g);
    switch (which) {
    case KVMILL_ATTENTION_Q:
        return of_heads(g, g->heads, g->queries, g->key_dim);
    case KVMILL_ATTENTION_K:
        return of_heads(g, g->kv_heads, g->keys, g->key_dim);
    case KVMILL_ATTENTION_V:
        return of_heads(g, g->kv_heads, g->keys, g->value_dim);
    case KVMILL_ATTENTION_PAST_KEY:
        return of_cache(g, g->past, g->key_dim);
    case KVMILL_ATTENTION_PAST_VALUE:
        return of_cache(g, g->past, g->value_dim);
    case KVMILL_ATTENTION_NONPAD_KV_SEQLEN:
    case KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES:
        return (struct shape){1, {g->batch}};
    case KVMILL_ATTENTION_Y:
        return of_heads(g, g->heads, g->queries, g->value_dim);
    case KVMILL_ATTENTION_PRESENT_KEY:
        return of_cache(g, all, g->key_dim);
    case KVMILL_ATTENTION_PRESENT_VALUE:
        return of_cache(g, all, g->value_dim);
    default: /* qk_matmul_output, and the largest attn_mask */
        return (struct shape){4, {g->batch, g->heads, g->queries, all}};
    }
}

int kvmill_attention_shape(const struct kvmill_attention_geometry *geometry, int tensor,
                           int64_t dims[4]) {
    struct shape shape = shape_of(geometry, tensor);
    memcpy(dims, shape.dims, sizeof shape.dims);
    return shape.rank;
}

static kvmill_status refuse_shape(const struct checked *checked, int which,
                                  const struct shape *wanted, const char *more) {
    return kvmill_refuse_shape(kvmill_attention_name(which), checked->tensor[which], wanted->rank,
                               wanted->dims, more, checked->error);
}

static kvmill_status check_shape(const struct checked *checked, int which) {
    const DLTensor *tensor = checked->tensor[which];
    struct shape wanted = shape_of(&checked->geometry, which);
    bool same = tensor->ndim == wanted.rank;
    for (int d = 0; same && d < wanted.rank; d++)
        same = kvmill_may_be_equal(tensor->shape[d], wanted.dims[d]);
    return same ? KVMILL_OK : refuse_shape(checked, which, &wanted, "");
}

/* Dims are those of (batch, heads, queries, keys), the last ones first; 1 serves all.  Until opset
   24 the last dim is that of keys; then it may be shorter, and 1 is no exception. */
static kvmill_status check_mask(const struct checked *checked) {
    const DLTensor *mask = checked->op->attn_mask;
    struct shape all = shape_of(&checked->geometry, KVMILL_ATTENTION_ATTN_MASK);
    bool same = mask->ndim >= 1 && mask->ndim <= MOST_RANK;
    for (int d = 0; same && d + 1 < mask->ndim; d++)
        same = mask->shape[d] == 1 ||
               kvmill_may_be_equal(mask->shape[d], all.dims[4 - mask->ndim + d]);
    int64_t last = same ? mask->shape[mask->ndim - 1] : 0, keys = all.dims[3];
    bool may_be_short = checked->op->opset >= OPSET_OF_NONPAD;
    if (same && (kvmill_may_be_equal(last, keys) || (may_be_short && last < keys)))
        return KVMILL_OK;
    return refuse_shape(checked, KVMILL_ATTENTION_ATTN_MASK, &all,
                        may_be_short ? ", or its last dims, the last or any 1, or the last less"
                                     : ", or its last dims, any but the last 1");
}

/* What one tensor leaves open, another may determine. */
static int64_t known(int64_t a, int64_t b) {
    return a == KVMILL_DYNAMIC ? b : a;
}

/* A tensor of another rank is refused later, and determines nothing. */
static int64_t past_rows(const DLTensor *past, int rank) {
    if (past == NULL)
        return 0;
    return past->ndim == rank ? past->shape[rank - 2] : KVMILL_DYNAMIC;
}

static void find_counts(struct checked *checked) {
    struct kvmill_attention_geometry *geometry = &checked->geometry;
    const kvmill_attention *op = checked->op;
    int rows = geometry->packed ? 1 : 2, rank = geometry->step ? op->Q->ndim : 4;
    geometry->batch = known(op->Q->shape[0], known(op->K->shape[0], op->V->shape[0]));
    geometry->queries = op->Q->shape[rows];
    geometry->keys = known(op->K->shape[rows], op->V->shape[rows]);
    geometry->past = known(past_rows(op->past_key, rank), past_rows(op->past_value, rank));
}

static kvmill_status check_shapes(struct checked *checked) {
    kvmill_status status = KVMILL_OK;
    find_counts(checked);
    for (int i = 0; status == KVMILL_OK && i < ALL_TENSORS; i++)
        if (checked->tensor[i] != NULL)
            status =
                i == KVMILL_ATTENTION_ATTN_MASK ? check_mask(checked) : check_shape(checked, i);
    return status;
}

/* ---- All of it ---- */

static bool is_double(const DLTensor *tensor) {
    return tensor->dtype.bits == 64;
}

/* Causality is a right window of 0. */
static void set_scores(struct checked *checked) {
    struct kvmill_attention_geometry *geometry = &checked->geometry;
    const kvmill_attention *op = checked->op;
    geometry->scale = op->scale == 0 ? 1 / sqrt((double)geometry->key_dim) : op->scale;
    geometry->left = op->left_window_size;
    geometry->right = op->is_causal ? 0 : op->right_window_size;
    geometry->is_wide =
        is_double(op->Q) || is_double(op->V) || op->softmax_precision == PRECISION_DOUBLE;
}

static kvmill_status check(struct checked *checked) {
    kvmill_status status = check_presence(checked);
    if (status == KVMILL_OK)
        status = check_attributes(checked);
    if (status == KVMILL_OK)
        status = check_nonpad(checked);
    if (status == KVMILL_OK)
        status = check_types(checked);
    if (status == KVMILL_OK)
        status = check_ranks(checked);
    if (status == KVMILL_OK)
        status = check_sizes(checked);
    if (status == KVMILL_OK)
        status = check_heads(checked);
    return status == KVMILL_OK ? check_shapes(checked) : status;
}

/* ---- Steps ---- */

static kvmill_status check_mode(struct checked *checked) {
    checked->geometry.circular = kvmill_is_circular(checked->mode);
    if (checked->op->qk_matmul_output != NULL)
        return kvmill_fail(checked->error, KVMILL_E_ATTRIBUTE,
                           "qk_matmul_output is given; accepted: NULL, a step has none");
    if (checked->geometry.circular && checked->op->attn_mask != NULL)
        return kvmill_fail(checked->error, KVMILL_E_ATTRIBUTE,
                           "attn_mask is given; accepted: NULL, with mode \"circular\"");
    return KVMILL_OK;
}

/* There must be a query for each new row, and room for all. */
static kvmill_status check_rows(const struct checked *checked) {
    const struct kvmill_attention_geometry *g = &checked->geometry;
    if (!kvmill_may_be_equal(g->keys, g->queries))
        return kvmill_fail(checked->error, KVMILL_E_SHAPE,
                           "K has %" PRId64 " rows; accepted: Q's, %" PRId64, g->keys, g->queries);
    if (g->keys > g->past && g->past != KVMILL_DYNAMIC)
        return kvmill_fail(checked->error, KVMILL_E_SHAPE,
                           "K has %" PRId64 " rows; accepted: at most the %" PRId64 " of past_key",
                           g->keys, g->past);
    return KVMILL_OK;
}

kvmill_tensor_scatter kvmill_attention_scatter(const kvmill_tensor_scatter_attention *op, int v) {
    const kvmill_attention *attention = op->attention;
    return (kvmill_tensor_scatter){
        .struct_size = sizeof(kvmill_tensor_scatter),
        .axis = -2,
        .mode = op->mode,
        .past_cache = v ? attention->past_value : attention->past_key,
        .update = v ? attention->V : attention->K,
        .write_indices = op->write_indices,
        .present_cache = v ? attention->present_value : attention->present_key,
    };
}

kvmill_status kvmill_attention_step_check(const kvmill_tensor_scatter_attention *op,
                                          struct kvmill_attention_geometry *geometry,
                                          kvmill_error *error) {
    struct checked checked = {
        .op = op->attention, .mode = op->mode, .geometry = {.step = true}, .error = error};
    kvmill_attention_tensors(op->attention, checked.tensor);
    checked.tensor[KVMILL_TENSOR_SCATTER_ATTENTION_WRITE_INDICES] = op->write_indices;
    const struct op *own = kvmill_op_of(OP_ATTENTION, 1);
    kvmill_status status = kvmill_check_attributes(own, own->parts[2], op, error);
    if (status == KVMILL_OK)
        status = check_mode(&checked);
    if (status == KVMILL_OK)
        status = check(&checked);
    if (status == KVMILL_OK)
        status = check_rows(&checked);
    if (status != KVMILL_OK)
        return status;
    set_scores(&checked);
    *geometry = checked.geometry;
    return KVMILL_OK;
}

kvmill_status kvmill_attention_check(const kvmill_attention *op,
                                     struct kvmill_attention_geometry *geometry,
                                     kvmill_error *error) {
    struct checked checked = {.op = op, .error = error};
    kvmill_attention_tensors(op, checked.tensor);
    kvmill_status status = check(&checked);
    if (status != KVMILL_OK)
        return status;
    set_scores(&checked);
    *geometry = checked.geometry;
    return KVMILL_OK;
}

struct kvmill_cache_geometry kvmill_attention_cache_geometry(
    const kvmill_attention *op, const struct kvmill_attention_geometry *geometry) {
    int key = kvmill_element_of(op->Q->dtype), value = kvmill_element_of(op->V->dtype);
    return (struct kvmill_cache_geometry){
        .which = KVMILL_MULTI_HEAD_ATTENTION,
        .heads = geometry->heads,
        .kv_heads = geometry->kv_heads,
        .ratio = geometry->ratio,
        .layers = 1,
        .page_size = 1,
        .repeat = 1,
        .activation = key,
        .key = {key, (int32_t)geometry->key_dim, 0, 0},
        .value = {value, (int32_t)geometry->value_dim, 0, 0},
        .scale = geometry->scale,
        .softcap = op->softcap,
        .alibi_scale = 1,
    };
}
