/* Specs: one op with its attributes and shapes, as a user writes it.  The source of everything that
   is generated.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_GEN_SPEC_H
#define KVMILL_GEN_SPEC_H

#include <kvmill.h>

#include "../ops/cache_attention.h"
#include "../ops/onnx_attention.h"
#include "config.h"
#include "json.h"
#include "kernel.h"
#include "text.h"

struct spec;

/* An op that specs can name. */
struct spec_op {
    const char *name;
    /* `purpose` is read and written for all ops alike; `name` is read, where it is a known key. */
    bool (*read)(const struct json_place *place, struct spec *spec, struct error *error);
    /* Check everything that is known. */
    bool (*check)(const struct spec *spec, struct error *error);
    bool (*kernels)(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error);
    const char *without_kernels; /* why there may be none, for a note */
    /* Why there are none, where that is not always the same; or NULL. */
    void (*why_none)(const struct spec *spec, char *words, size_t size);
    void (*write)(const struct spec *spec, json_t *object);
    void (*free)(struct spec *spec); /* what the op's part of the spec owns; or NULL */
    /* The function of a pack's header that plans it, as a call for templates/pack/plan.h.m4; or
     * NULL. */
    bool (*define_plan)(const struct spec *spec, struct text *text);
};

/* A TensorScatter spec.  A tensor that the spec does not mention has no shape (NULL). */
struct scatter_spec {
    int64_t axis;
    char mode[16];
    DLDataType dtype;
    DLTensor past_cache, update, write_indices;
};

/* A spec of one of the six ops of cache attention. */
struct attention_spec {
    kvmill_cache_attention op; /* its words are constants */
    bool layers_open;          /* num_layer was not given: the cache of a run tells it */
    bool masked;               /* kernels for an attn_mask, too */
    char layers[160];          /* which layers of the model it serves, in words; "" when not said */
    int first_layer;           /* of a model's spec: the first of these */
};

/* A spec of Attention, or of TensorScatterAttention.  A tensor that it does not mention has no
 * shape. */
struct onnx_attention_spec {
    kvmill_attention op; /* without tensors */
    char mode[16];
    DLTensor tensor[KVMILL_TENSOR_SCATTER_ATTENTION_TENSORS];
};

struct gather_problem;
struct scatter_problem;
struct flow_spec;

struct spec {
    const struct spec_op *op;
    char where[320];  /* "file: /kernels/0", for messages; a model's pack: the purpose */
    char purpose[64]; /* what the kernels are for, in words; "" when not said */
    char name[48];    /* of its function in the pack's header or its handler; "" when not said */
    union {           /* the op tells which */
        struct scatter_spec scatter;
        struct attention_spec attention;
        struct onnx_attention_spec onnx_attention;
        struct gather_problem *gather;          /* gen/stablehlo.h */
        struct scatter_problem *window_scatter; /* of StableHLO */
        struct flow_spec *flow;                 /* gen/flow.h */
    };
};

struct spec_list {
    struct spec *items;
    size_t count;
    struct text notes; /* lines on what was not taken from a file, for standard error */
};

/* The op of that name, or NULL. */
const struct spec_op *spec_op_by_name(const char *name);

/* Read a spec file: {"kernels": [...]} or a single spec; or the gathers and scatters of StableHLO
   text, where the file's name ends with .mlir; or the nodes of an ONNX model, where it ends with
   .onnx.  Release with spec_list_free, also after a failure. */
bool specs_read(const char *file, struct spec_list *list, struct error *error);

/* Append the spec that a JSON object says. */
bool spec_read(const struct json_place *place, struct spec_list *list, struct error *error);

/* What the elements of a cache are, as `--cache` names them. */
struct cache_type {
    const char *name;
    const char *dtype;  /* of the tensor */
    int quant_bit;      /* 8, 4: with scales in a tensor of their own */
    const char *format; /* llama.cpp's blocks; or NULL */
};

/* NULL when there is none of that name. */
const struct cache_type *cache_type_by_name(const char *name);

/* "float32, float16, ..."; the text is constant. */
extern const char cache_type_words[];

/* The specs of a model's pack. */
struct cache_choice {
    const struct cache_type *type; /* NULL: the model's */
    int layout;                    /* 0 and 2 token-major, 1 and 3 head-major; 2 and 3 are those of
                                      dynamic batching; -1: rows in both, attention in 0 */
    int64_t quant_group;           /* 0: 8 */
    bool fast;                     /* math "fast" */
};
bool specs_of_model(const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error);

/* Why a model's pack has no attention for it, for a note; NULL when it has. */
const char *model_without_attention(const struct model *model);

/* The kernels of all specs for all instruction sets. */
bool specs_kernels(const struct spec_list *list, const struct isa_list *isas,
                   struct kernel_list *kernels, struct error *error);

/* As a spec file; release with json_decref. */
json_t *specs_write(const struct spec_list *list);

/* A spec as JSON; release with json_decref. */
json_t *spec_write(const struct spec *spec);

/* An optional text for the pack's header, of what `good` lets pass, in words `accepted`. */
bool spec_read_label(const struct json_place *place, const char *key, bool (*good)(const char *),
                     const char *accepted, char *label, size_t size, struct error *error);

struct spec *spec_list_append(struct spec_list *list, struct error *error);
void spec_list_drop(struct spec_list *list); /* the last one */
void spec_list_free(struct spec_list *list);

/* ---- TensorScatter ---- */

extern const struct spec_op tensor_scatter_spec;

/* Make a new spec a TensorScatter of that mode and type, along the default axis, without shapes. */
void scatter_spec_begin(struct spec *spec, const char *mode, DLDataType dtype);

/* Give `tensor` a shape of its own; spec_list_free releases it. */
bool spec_set_shape(DLTensor *tensor, const int64_t *dims, int rank, struct error *error);

/* An array of dims, with "?" for one that only the run knows.  An absent shape is left for the
   inputs of a run to tell. */
bool spec_read_shape(const struct json_place *place, DLTensor *tensor, struct error *error);
json_t *spec_write_shape(const DLTensor *tensor);

/* The op as the library takes it; points into spec. */
kvmill_tensor_scatter scatter_op_of(const struct spec *spec);

/* ---- StableHLO ---- */

extern const struct spec_op gather_spec, window_scatter_spec;

/* Whether the spec is one of them, and a gather. */
bool is_window_spec(const struct spec *spec);
bool is_gather_spec(const struct spec *spec);

/* The name ends with ".mlir". */
bool is_mlir_name(const char *name);

/* The gathers and scatters of a file. */
bool specs_of_mlir(const char *name, struct spec_list *list, struct error *error);

/* ---- ONNX models ---- */

/* The nodes that kvmill has an op for; the same op on the same types once.  Nodes that are left alone
   are in the list's notes. */
bool specs_of_onnx(const char *name, struct spec_list *list, struct error *error);

/* ---- Sparse flows ---- */

extern const struct spec_op flow_spec_op;

bool is_flow_spec(const struct spec *spec);

/* For every spec of a model that attends to all that it stores: the flow of a file with that spec's
   attention, in pages of the file's page_size and, where none was chosen, its cache_layout. */
bool specs_add_flow(const char *file, const struct model *model, const struct cache_choice *choice,
                    struct spec_list *list, struct error *error);

/* ---- Cache attention ---- */

/* By enum kvmill_cache_op; then the same with dynamic batching. */
enum { ATTENTION_OPS = 6 };
extern const struct spec_op attention_spec_ops[ATTENTION_OPS];

/* Whether the spec is one of them, and which. */
bool is_attention_spec(const struct spec *spec);
enum kvmill_cache_op attention_op_of(const struct spec *spec);

/* Make a new spec one of that op, with the documented defaults; types are not set. */
void attention_spec_begin(struct spec *spec, enum kvmill_cache_op which, bool dynamic);
enum { UNSET_QUANT_BIT = -1 }; /* value_quant_bit: as K's, with all that goes with it */

/* Types that are not given follow from those that are, V's from K's. */
void attention_spec_complete(struct spec *spec);

/* For the functions of a pack's header: what kvmill_cache_attention_init has not set, as calls of
   km_set; and heads and window in words. */
bool attention_define_members(const struct spec *spec, struct text *text);
bool attention_define_comment(const struct spec *spec, struct text *text);

/* Whether only the arrays of a run tell all there is to know. */
bool attention_spec_is_open(const struct spec *spec);

/* A number; one of `words`, which end with NULL: *word is the constant among them. */
bool spec_read_real(const struct json_place *place, double *value, struct error *error);
bool spec_read_word(const struct json_place *place, const char *const *words, const char *what,
                    const char **word, struct error *error);

/* ---- ONNX Attention ---- */

extern const struct spec_op onnx_attention_spec, onnx_attention_step_spec;

/* Whether the spec is one of them, and of TensorScatterAttention. */
bool is_onnx_attention_spec(const struct spec *spec);
bool is_onnx_attention_step(const struct spec *spec);

/* Check everything that is known; geometry is set on success. */
bool onnx_attention_geometry(const struct spec *spec, struct kvmill_attention_geometry *geometry,
                             struct error *error);

/* The ops as the library takes them; they point into spec, the second into `attention`. */
kvmill_attention onnx_attention_op_of(const struct spec *spec);
kvmill_tensor_scatter_attention onnx_attention_step_of(const struct spec *spec,
                                                       const kvmill_attention *attention);

#endif
