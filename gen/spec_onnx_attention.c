/* ONNX Attention in spec files, and TensorScatter and Attention in one: TensorScatterAttention.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/onnx_attention.h"
#include "attend_family.h"
#include "rows_family.h"
#include "spec.h"

enum { ALL_TENSORS = KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS };

bool is_onnx_attention_step(const struct spec *spec) {
    return spec->op == &onnx_attention_step_spec;
}

bool is_onnx_attention_spec(const struct spec *spec) {
    return spec->op == &onnx_attention_spec || is_onnx_attention_step(spec);
}

/* ---- Attributes ---- */

struct attribute {
    const char *name;
    bool real;
    size_t offset;
};

#define COUNT(NAME)                                                                                \
    { #NAME, false, offsetof(kvmill_attention, NAME) }
#define REAL(NAME)                                                                                 \
    { #NAME, true, offsetof(kvmill_attention, NAME) }
static const struct attribute attributes[] = {
    COUNT(opset),
    COUNT(is_causal),
    COUNT(q_num_heads),
    COUNT(kv_num_heads),
    REAL(scale),
    REAL(softcap),
    COUNT(softmax_precision),
    COUNT(qk_matmul_output_mode),
    COUNT(left_window_size),
    COUNT(right_window_size),
};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

static bool read_attribute(const struct json_place *place, const struct attribute *attribute,
                           kvmill_attention *op, struct error *error) {
    struct json_place member = json_member(place, attribute->name);
    void *value = (char *)op + attribute->offset;
    if (member.value == NULL)
        return true;
    return attribute->real ? spec_read_real(&member, value, error)
                           : json_get_integer(&member, INT64_MIN, INT64_MAX, value, error);
}

/* In C 0 is the default; who writes it into a file means it. */
static bool check_scale(const struct json_place *place, const kvmill_attention *op,
                        struct error *error) {
    struct json_place member = json_member(place, "scale");
    return member.value == NULL || op->scale != 0 ||
           json_fail(error, &member, "is 0; accepted: more than 0");
}

static bool read_attributes(const struct json_place *place, struct spec *spec,
                            struct error *error) {
    static const char *const modes[] = {"linear", "circular", NULL};
    kvmill_attention *op = &spec->onnx_attention.op;
    const char *mode = modes[0];
    struct json_place member = json_member(place, "mode");
    kvmill_attention_init(op);
    for (int i = 0; i < ATTRIBUTES; i++)
        if (!read_attribute(place, &attributes[i], op, error))
            return false;
    if (member.value != NULL && !spec_read_word(&member, modes, "a mode", &mode, error))
        return false;
    strcpy(spec->onnx_attention.mode, mode);
    return check_scale(place, op, error);
}

/* ---- Types ---- */

/* Those of T1, T2 and U; the others' are fixed. */
struct type_key {
    const char *name;
    int tensors[6]; /* the rest are Q's */
};

static const struct type_key type_keys[] = {
    {"T1",
     {KVMILL_ATTENTION_Q, KVMILL_ATTENTION_K, KVMILL_ATTENTION_PAST_KEY, KVMILL_ATTENTION_Y,
      KVMILL_ATTENTION_PRESENT_KEY, KVMILL_ATTENTION_QK_MATMUL_OUTPUT}},
    {"T2",
     {KVMILL_ATTENTION_V, KVMILL_ATTENTION_PAST_VALUE, KVMILL_ATTENTION_PRESENT_VALUE,
      KVMILL_ATTENTION_V, KVMILL_ATTENTION_V, KVMILL_ATTENTION_V}},
    {"U",
     {KVMILL_ATTENTION_MASK, KVMILL_ATTENTION_MASK, KVMILL_ATTENTION_MASK, KVMILL_ATTENTION_MASK,
      KVMILL_ATTENTION_MASK, KVMILL_ATTENTION_MASK}},
};
enum { TYPE_KEYS = sizeof type_keys / sizeof *type_keys };

static void set_type(struct onnx_attention_spec *onnx, const struct type_key *key,
                     DLDataType type) {
    for (size_t i = 0; i < sizeof key->tensors / sizeof *key->tensors; i++)
        onnx->tensor[key->tensors[i]].dtype = type;
}

static bool read_type(const struct json_place *place, DLDataType *type, struct error *error) {
    static const char *const words[] = {"float32", "float16", "bfloat16", "float64", "bool",
                                        "int8",    "int16",   "int32",    "int64",   "uint8",
                                        "uint16",  "uint32",  "uint64",   NULL};
    const char *word;
    if (!spec_read_word(place, words, "an element type of Attention", &word, error))
        return false;
    *type = kvmill_dtype_by_name(word)->dl;
    return true;
}

/* T2 is T1 where nothing is said; U then is what a run's mask has. */
static bool read_types(const struct json_place *place, struct spec *spec, struct error *error) {
    DLDataType types[TYPE_KEYS] = {{0}};
    for (int i = 0; i < TYPE_KEYS; i++) {
        struct json_place member = json_member(place, type_keys[i].name);
        if (i == 1)
            types[i] = types[0];
        if ((i == 0 || member.value != NULL) && !read_type(&member, &types[i], error))
            return false;
        set_type(&spec->onnx_attention, &type_keys[i], types[i]);
    }
    spec->onnx_attention.tensor[KVMILL_ATTENTION_NONPAD_KV_SEQLEN].dtype =
        spec->onnx_attention.tensor[KVMILL_ATTENTION_WRITE_INDICES].dtype =
            (DLDataType){kDLInt, 64, 1};
    return true;
}

/* ---- The op ---- */

kvmill_attention onnx_attention_op_of(const struct spec *spec) {
    const DLTensor *tensors[KVMILL_ATTENTION_TENSORS];
    kvmill_attention op = spec->onnx_attention.op;
    for (int i = 0; i < KVMILL_ATTENTION_TENSORS; i++) {
        const DLTensor *tensor = &spec->onnx_attention.tensor[i];
        tensors[i] = tensor->shape != NULL ? tensor : NULL;
    }
    kvmill_attention_set_tensors(tensors, &op);
    return op;
}

kvmill_tensor_scatter_attention onnx_attention_step_of(const struct spec *spec,
                                                       const kvmill_attention *attention) {
    const DLTensor *indices = &spec->onnx_attention.tensor[KVMILL_ATTENTION_WRITE_INDICES];
    return (kvmill_tensor_scatter_attention){
        .struct_size = sizeof(kvmill_tensor_scatter_attention),
        .attention = attention,
        .mode = spec->onnx_attention.mode,
        .write_indices = indices->shape != NULL ? indices : NULL,
    };
}

bool onnx_attention_geometry(const struct spec *spec, struct kvmill_attention_geometry *geometry,
                             struct error *error) {
    kvmill_error reason;
    kvmill_attention op = onnx_attention_op_of(spec);
    kvmill_tensor_scatter_attention step = onnx_attention_step_of(spec, &op);
    kvmill_status status = is_onnx_attention_step(spec)
                               ? kvmill_attention_step_check(&step, geometry, &reason)
                               : kvmill_attention_check(&op, geometry, &reason);
    return status == KVMILL_OK || fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

/* Only the arrays of a run tell the others. */
static bool is_complete(const struct spec *spec) {
    const DLTensor *tensor = spec->onnx_attention.tensor;
    return tensor[KVMILL_ATTENTION_Q].shape && tensor[KVMILL_ATTENTION_K].shape &&
           tensor[KVMILL_ATTENTION_V].shape &&
           (!is_onnx_attention_step(spec) || tensor[KVMILL_ATTENTION_PAST_KEY].shape);
}

static bool check(const struct spec *spec, struct error *error) {
    struct kvmill_attention_geometry geometry;
    return !is_complete(spec) || onnx_attention_geometry(spec, &geometry, error);
}

/* ---- Reading ---- */

/* Tensors of Attention, and one of a step. */
static int tensor_count(const struct spec *spec) {
    return is_onnx_attention_step(spec) ? ALL_TENSORS : (int)KVMILL_ATTENTION_TENSORS;
}

static bool check_keys(const struct json_place *place, const struct spec *spec,
                       struct error *error) {
    const char *known[ATTRIBUTES + TYPE_KEYS + ALL_TENSORS + 4] = {"op", "purpose"};
    int count = 2;
    for (int i = 0; i < ATTRIBUTES; i++)
        known[count++] = attributes[i].name;
    for (int i = 0; i < TYPE_KEYS; i++)
        known[count++] = type_keys[i].name;
    for (int i = 0; i < tensor_count(spec); i++)
        known[count++] = kvmill_attention_names[i];
    if (is_onnx_attention_step(spec))
        known[count++] = "mode";
    return json_only_keys(place, known, error);
}

static bool read_shapes(const struct json_place *place, struct spec *spec, struct error *error) {
    for (int i = 0; i < tensor_count(spec); i++) {
        struct json_place member = json_member(place, kvmill_attention_names[i]);
        if (!spec_read_shape(&member, &spec->onnx_attention.tensor[i], error))
            return false;
    }
    return true;
}

/* A mask without a type is of T1. */
static void complete_mask(struct onnx_attention_spec *onnx) {
    DLTensor *mask = &onnx->tensor[KVMILL_ATTENTION_MASK];
    if (mask->shape != NULL && mask->dtype.bits == 0)
        mask->dtype = onnx->tensor[KVMILL_ATTENTION_Q].dtype;
}

static bool read(const struct json_place *place, struct spec *spec, struct error *error) {
    if (!check_keys(place, spec, error) || !read_attributes(place, spec, error) ||
        !read_types(place, spec, error) || !read_shapes(place, spec, error))
        return false;
    complete_mask(&spec->onnx_attention);
    return check(spec, error);
}

/* ---- Writing ---- */

static void write_attribute(const struct attribute *attribute, const kvmill_attention *op,
                            json_t *object) {
    kvmill_attention fresh;
    kvmill_attention_init(&fresh);
    const char *value = (const char *)op + attribute->offset;
    bool is_default = memcmp(value, (const char *)&fresh + attribute->offset, 8) == 0;
    if (is_default && attribute != attributes)
        return;
    json_object_set_new(object, attribute->name,
                        attribute->real ? json_real(*(const double *)(const void *)value)
                                        : json_integer(*(const int64_t *)(const void *)value));
}

static void write(const struct spec *spec, json_t *object) {
    const struct onnx_attention_spec *onnx = &spec->onnx_attention;
    for (int i = 0; i < ATTRIBUTES; i++)
        write_attribute(&attributes[i], &onnx->op, object);
    for (int i = 0; i < TYPE_KEYS; i++) {
        DLDataType type = onnx->tensor[type_keys[i].tensors[0]].dtype;
        if (type.bits != 0)
            json_object_set_new(object, type_keys[i].name, json_string(kvmill_dtype_name(type)));
    }
    if (is_onnx_attention_step(spec))
        json_object_set_new(object, "mode", json_string(onnx->mode));
    for (int i = 0; i < tensor_count(spec); i++)
        if (onnx->tensor[i].shape != NULL)
            json_object_set_new(object, kvmill_attention_names[i],
                                spec_write_shape(&onnx->tensor[i]));
}

static void free_shapes(struct spec *spec) {
    for (int i = 0; i < ALL_TENSORS; i++)
        free(spec->onnx_attention.tensor[i].shape);
}

/* ---- Kernels ---- */

static bool store_kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                          struct error *error) {
    kvmill_attention op = onnx_attention_op_of(spec);
    kvmill_tensor_scatter_attention step = onnx_attention_step_of(spec, &op);
    for (int v = 0; v < 2; v++) {
        struct kvmill_row_geometry geometry;
        kvmill_error reason;
        kvmill_tensor_scatter scatter = kvmill_attention_scatter(&step, v);
        if (kvmill_tensor_scatter_check(&scatter, &geometry, &reason) != KVMILL_OK)
            return fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
        struct kvmill_rows_shape shape = kvmill_rows_shape_of(&geometry, scatter.past_cache->dtype);
        if (!rows_kernels(&shape, isa, list, error))
            return false;
    }
    return true;
}

/* Padding is left out of rings, which no kernel of TensorScatter does. */
static bool stores(const kvmill_attention *op, const struct kvmill_attention_geometry *geometry) {
    return geometry->step && !(geometry->circular && op->nonpad_kv_seqlen != NULL);
}

static bool kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error) {
    struct kvmill_attention_geometry geometry;
    kvmill_attention op = onnx_attention_op_of(spec);
    if (!is_complete(spec))
        return fail(error, EXIT_USER,
                    "%s: a shape is missing; accepted here: Q, K and V%s, with \"?\" for a dim "
                    "that only the run knows",
                    spec->where, is_onnx_attention_step(spec) ? ", past_key and past_value" : "");
    if (!onnx_attention_geometry(spec, &geometry, error) ||
        (stores(&op, &geometry) && !store_kernels(spec, isa, list, error)))
        return false;
    if (geometry.is_wide)
        return true;
    struct kvmill_cache_geometry scores = kvmill_attention_cache_geometry(&op, &geometry);
    struct kvmill_attend_shape shape = kvmill_attend_shape_of(&scores, op.attn_mask != NULL);
    return attend_kernels(&shape, geometry.ratio, isa, list, error);
}

#define ONNX_ATTENTION(NAME)                                                                       \
    {                                                                                              \
        .name = NAME, .read = read, .check = check, .kernels = kernels,                            \
        .without_kernels = "float64, which a portable function computes", .write = write,          \
        .free = free_shapes                                                                        \
    }
const struct spec_op onnx_attention_spec = ONNX_ATTENTION("Attention");
const struct spec_op onnx_attention_step_spec = ONNX_ATTENTION("TensorScatterAttention");
