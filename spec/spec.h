/* Specs: an op with its attributes and shapes, as a user writes it.  Everything is generated from
   specs: gen/generator.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_SPEC_SPEC_H
#define KVMILL_SPEC_SPEC_H

#include <kvmill.h>

#include "../base/json.h"
#include "../base/text.h"
#include "../defs/op.h"
#include "../ops/cache_attention.h"
#include "../ops/onnx_attention.h"

struct spec;
struct axes;

/* The hooks for the specs of a family of ops.  NULL hooks have nothing to do. */
struct spec_family {
    /* Allocate the op's part of a new spec, and call spec_init_parts, if that alone is not enough;
     * release it. */
    bool (*begin)(struct spec *spec, struct error *error);
    void (*free)(struct spec *spec);
    /* Where the spec keeps the op's struct `number`; its lists, of all structs in order; and the
       shape of a tensor (NULL if it has none). */
    void *(*part)(struct spec *spec, int number);
    struct axes *(*axes)(struct spec *spec);
    DLTensor *(*tensor)(struct spec *spec, int index);
    /* Read tensors that are not arrays of dims, before everything else; read a member of kind
       OP_POINTER or OP_OWN; and, at the end, read the rest, derive what follows from it, and check
       it (NULL: only check). */
    bool (*read_tensors)(const struct json_place *place, struct spec *spec, struct error *error);
    bool (*read_own)(const struct json_place *place, struct spec *spec,
                     const struct op_member *member, struct error *error);
    bool (*complete)(const struct json_place *place, struct spec *spec, struct error *error);
    const char *more_key; /* a key that `complete` reads */
    bool null_is_absent;
    /* Write all of it, if that is more than attributes, shapes and name; the value of such a
       member; which members to omit. */
    void (*write)(const struct spec *spec, json_t *object);
    json_t *(*write_own)(const struct spec *spec, const struct op_member *member);
    bool (*is_left_out)(const struct spec *spec, const struct op_member *member);
    /* Check everything that is known. */
    bool (*check)(const struct spec *spec, struct error *error);
    bool specialises; /* whether its kernels can have numbers of their problems as constants */
};

/* A TensorScatter spec.  A tensor that the spec does not mention has no shape (NULL). */
struct scatter_spec {
    kvmill_tensor_scatter op; /* only axis and mode */
    DLDataType dtype;
    DLTensor past_cache, update, write_indices;
};

/* A spec of one of the six ops of cache attention. */
struct attention_spec {
    kvmill_cache_attention op; /* its words are constants */
    bool layers_open;          /* num_layer was not given, and follows from the cache of a run */
    bool masked;               /* whether to make kernels for an attn_mask, too */
    char layers[160]; /* the layers of the model that it serves, as text; "" if not given */
    int first_layer;  /* for a model's spec: the first of these */
};

/* A spec of Attention, or of TensorScatterAttention.  Tensors that it does not mention have no
 * shape. */
struct onnx_attention_spec {
    kvmill_attention op;                  /* without tensors */
    DLDataType types[3];                  /* T1, T2, U */
    kvmill_tensor_scatter_attention step; /* only mode */
    DLTensor tensor[KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS];
};

struct gather_problem;
struct scatter_problem;
struct flow_spec;
struct plain_spec;

/* What its kernels have as constants; specialise_words[n - 1] is the word for n. */
enum specialise { SPECIALISE_HEADS = 1, SPECIALISE_LAYOUT = 2 };
extern const char *const specialise_words[]; /* ends with NULL */

struct spec {
    const struct op *op;
    const struct spec_family *family; /* of the op; NULL until spec_begin */
    char where[320];  /* "file: /kernels/0", for messages; for a model's pack, the purpose */
    char purpose[64]; /* what the kernels are for; "" if not given */
    char name[48];    /* of its function in the pack's header, or of its handler; "" if not given */
    unsigned specialise;
    union { /* by the op's family */
        struct scatter_spec scatter;
        struct attention_spec attention;
        kvmill_cache_attend cache_attend; /* its words are constants */
        kvmill_write_rows write_rows;     /* its words are constants */
        struct onnx_attention_spec onnx_attention;
        struct gather_problem *gather;          /* stablehlo.h */
        struct scatter_problem *window_scatter; /* of StableHLO */
        struct flow_spec *flow;                 /* flow_spec.h */
        struct plain_spec *plain;               /* spec_plain.c */
    };
};

struct spec_list {
    struct spec *items;
    size_t count;
    struct text notes;      /* lines about what was not taken from a file, for standard error */
    struct text left_alone; /* lines about ops that are not kvmill's, for -v */
};

/* Initialise a new spec for an op, with its defaults. */
bool spec_begin(struct spec *spec, const struct op *op, struct error *error);

/* The spec as JSON, after everything that is known has been checked. */
void spec_write_op(const struct spec *spec, json_t *object);
bool spec_check(const struct spec *spec, struct error *error);

/* The kind of arithmetic that it requests: enum kvmill_math. */
int spec_math(const struct spec *spec);

/* Whether its op is of the family. */
static inline bool spec_is(const struct spec *spec, enum op_family family) {
    return spec->op->family == family;
}

/* Append the spec that a JSON object describes. */
bool spec_read(const struct json_place *place, struct spec_list *list, struct error *error);

/* As a spec file; release with json_decref. */
json_t *specs_write(const struct spec_list *list);

/* A spec as JSON; release with json_decref. */
json_t *spec_write(const struct spec *spec);

struct spec *spec_list_append(struct spec_list *list, struct error *error);
void spec_list_drop(struct spec_list *list); /* the last one */
void spec_list_free(struct spec_list *list);

/* ---- TensorScatter ---- */

/* Make a new spec a TensorScatter with this mode and type, along the default axis, without shapes.
 */
void scatter_spec_begin(struct spec *spec, const char *mode, DLDataType dtype);

/* Give `tensor` its own shape, which spec_list_free releases. */
bool spec_set_shape(DLTensor *tensor, const int64_t *dims, int rank, struct error *error);

/* The op in the library's form; it points into spec. */
kvmill_tensor_scatter scatter_op_of(const struct spec *spec);

/* ---- Cache attention ---- */

/* Which of the ops it is. */
enum kvmill_cache_op attention_op_of(const struct spec *spec);

/* Make a new spec one of this op, with the documented defaults; types are not set. */
void attention_spec_begin(struct spec *spec, enum kvmill_cache_op which, bool dynamic);
enum { UNSET_QUANT_BIT = -1 }; /* value_quant_bit: V's format is K's */

/* Types that are not given follow from those that are; V's from K's. */
void attention_spec_complete(struct spec *spec);

/* Check everything that is known; geometry is set on success. */
bool attention_spec_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                             struct error *error);

/* Whether the arrays of a run are needed to know everything. */
bool attention_spec_is_open(const struct spec *spec);

/* Take from tensors, if their dims are known, what the spec does not state: heads and their sizes,
   from the inputs of KeyValueCache; the number of layers, from the cache. */
void attention_learn_heads(struct spec *spec, const DLTensor *key, const DLTensor *value);
void attention_learn_layers(struct spec *spec, const DLTensor *cache);

/* ---- CacheAttend and WriteRows ---- */

/* Check the spec; the result is set on success. */
bool cache_attend_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                           struct error *error);
bool write_rows_shape(const struct spec *spec, struct kvmill_convert_shape *shape,
                      struct error *error);

/* ---- ONNX Attention ---- */

/* Whether the spec has all the shapes that it needs; the other shapes come with a run. */
bool onnx_attention_is_complete(const struct spec *spec);

/* Whether it is TensorScatterAttention. */
bool is_onnx_attention_step(const struct spec *spec);

/* Check everything that is known; geometry is set on success. */
bool onnx_attention_geometry(const struct spec *spec, struct kvmill_attention_geometry *geometry,
                             struct error *error);

/* The ops in the library's form; they point into spec, the second one into `attention`. */
kvmill_attention onnx_attention_op_of(const struct spec *spec);
kvmill_tensor_scatter_attention onnx_attention_step_of(const struct spec *spec,
                                                       const kvmill_attention *attention);

#endif
