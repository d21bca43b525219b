/* The functions of an op that scenes need: one row per op.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_OP_H
#define KVMILL_BENCH_SCENE_OP_H

#include "../defs/op.h"
#include "scene.h"

enum { SAID_SIZE = 120, SCENE_WRITTEN = 6 };

struct scene_op {
    const char *words; /* the specs, in messages */
    bool (*knows)(const struct spec *spec);
    void (*say)(const struct scene *scene, char words[SAID_SIZE]); /* heads and types; or NULL */
    /* Checks the spec, and sets the op's members of the scene; also use, share and read, if they
       differ from those below. */
    bool (*open)(struct scene *scene, struct error *error);
    /* Sets tensors, and gives those of call->step, for calls of call->size in a scene of
       scene->size. */
    void (*shape)(struct scene_call *call);
    /* Fills a tensor's memory.  NULL or false: scene_call.c fills it. */
    bool (*fill)(struct scene *scene, int tensor);
    /* Sets what else depends on the size, after memory is allocated; or NULL. */
    bool (*finish)(struct scene *scene, struct error *error);
    void (*close)(struct scene *scene); /* or NULL */
    /* Returns the bytes that a run moves through, to count sets; NULL: bytes of caches. */
    int64_t (*walked)(const struct scene *scene);
    kvmill_status (*plan)(const struct scene_call *call, const kvmill_plan_options *options,
                          kvmill_plan **plan, kvmill_error *reason);
    /* Sets what else a turn changes; or NULL. */
    void (*move)(struct scene_call *call, int64_t turn);
    double (*bytes)(const struct scene_call *call);
    double (*flops)(const struct scene_call *call); /* NULL: the op only moves bytes */
    /* Called before and after a check; or NULL. */
    void (*prepare)(struct scene_call *call, bool begin);
    /* Returns the arithmetic of `output`, if that differs from the portable kernels' bytes; NULL:
       it does not. */
    struct kvmill_cache_geometry (*arithmetic)(const struct scene *scene);
    /* Computes the portable kernels' output for some tokens; NULL: for all. */
    bool (*expect)(struct scene_call *call, const struct owned_plan *portable, struct error *error);
    int64_t rotation; /* bytes that tuning rotates through */
    int count;        /* of tensors */
    bool unpacked;    /* elements of fewer than 8 bits take a byte */
    enum scene_use use[SCENE_TENSORS];
    int output, read;
    int past, present;  /* the same tensor in place; both 0: the op never runs in place */
    bool keeps_present; /* the scene has memory for both, to check runs that are not in place */
    /* Tensors that must equal the portable kernels' bytes; a 0 ends the list. */
    int written[SCENE_WRITTEN];
    int appended[SCENE_WRITTEN]; /* the same, for calls that append */
};

extern const struct scene_op attention_scene_op, batching_scene_op, given_scene_op,
    read_back_scene_op, attend_scene_op, write_rows_scene_op, onnx_scene_op, flow_scene_op,
    rows_scene_op, gather_scene_op, scatter_scene_op;

/* Returns NULL if the spec's runs are not timed. */
const struct scene_op *scene_op_of(const struct spec *spec);

void scene_set_tensor(struct scene_call *call, int which, DLDataType type, int rank,
                      const int64_t *dims);

/* Sets the tensors that the op's description requires, with shapes from `words`. */
void scene_set_described(struct scene_call *call, const struct op *op, const void *attributes,
                         const struct op_dim *words);

/* Returns the bytes of a tensor's elements without gaps. */
int64_t scene_bytes_of(const struct scene *scene, const DLTensor *tensor);

bool scene_demand(kvmill_status status, const kvmill_error *reason, struct error *error);

/* ---- Tensors of a cache of attention: cache, scale, value_cache, value_scale ---- */

enum { SIDES = 4 };

/* Sets a side of a cache with one layer: `slots` for each sequence of a static batch, or for all
   sequences of dynamic batching. */
void side_shape(struct scene_call *call, const kvmill_cache_attention *op,
                const struct kvmill_cache_geometry *geometry, int side, int64_t slots);

/* Writes a format's name, such as "int8 g32". */
void side_format_name(const struct kvmill_format *format, char name[24]);

/* Writes heads and formats, such as "32/8 x 128 int8 g32 near" or "16/1 x 576/512 float16". */
void side_describe(const struct kvmill_cache_geometry *geometry, char words[SAID_SIZE]);

void side_fill(struct scene *scene, const struct kvmill_cache_geometry *geometry, int side);

/* Returns the op with one layer and with final results, not partial ones. */
kvmill_cache_attention one_layer_of(const kvmill_cache_attention *op);

/* ---- Functions that the ops of cache attention share, on scene->attention ---- */

bool attention_scene_open(struct scene *scene, struct error *error);
bool attention_scene_fill(struct scene *scene, int tensor);
kvmill_status attention_scene_plan(const struct scene_call *call,
                                   const kvmill_plan_options *options, kvmill_plan **plan,
                                   kvmill_error *reason);
struct kvmill_cache_geometry attention_scene_arithmetic(const struct scene *scene);

#endif
