/* The functions of an op that scenes need: one row per op.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_OP_H
#define KVMILL_BENCH_SCENE_OP_H

#include "../defs/op.h"
#include "scene.h"

enum { SAID_SIZE = 120, SCENE_WRITTEN = 6 };

struct scene_op {
    const char *words; /* which specs, in messages */
    bool (*knows)(const struct spec *spec);
    void (*say)(const struct scene *scene, char words[SAID_SIZE]); /* heads and types; or NULL */
    /* Check the spec, and set the op's own part of the scene; use, share, read, where they are not
       those below. */
    bool (*open)(struct scene *scene, struct error *error);
    /* Set tensors, and which are given, of calls of call->size to a scene of scene->size. */
    void (*shape)(struct scene_call *call);
    /* Numbers for a tensor's memory; NULL or false: those that all ops have. */
    bool (*fill)(struct scene *scene, int tensor);
    /* What else goes with a size, once there is memory; or NULL. */
    bool (*finish)(struct scene *scene, struct error *error);
    void (*close)(struct scene *scene); /* or NULL */
    /* Bytes that a run moves through, to count sets; NULL: of its caches. */
    int64_t (*walked)(const struct scene *scene);
    kvmill_status (*plan)(const struct scene_call *call, const kvmill_plan_options *options,
                          kvmill_plan **plan, kvmill_error *reason);
    void (*move)(struct scene_call *call, int64_t turn); /* what else a turn changes; or NULL */
    double (*bytes)(const struct scene_call *call);
    double (*flops)(const struct scene_call *call); /* NULL: it only moves bytes */
    /* Before and after a check; or NULL. */
    void (*prepare)(struct scene_call *call, bool begin);
    /* Arithmetic of results that are not the portable kernels' bytes, and `output`; NULL: they are.
     */
    struct kvmill_cache_geometry (*arithmetic)(const struct scene *scene);
    /* Outputs that the portable kernels give for some tokens; NULL: for all. */
    bool (*expect)(struct scene_call *call, const struct owned_plan *portable, struct error *error);
    int64_t rotation; /* bytes that tuning walks through */
    int count;        /* of tensors */
    bool unpacked;    /* elements of fewer than 8 bits take a byte */
    enum scene_use use[SCENE_TENSORS];
    int output, read;
    int past, present;  /* the same tensor in place; both 0: it never is */
    bool keeps_present; /* a scene has memory for both, to check runs that are not in place */
    /* Tensors that have the portable kernels' bytes; ends with 0 if there are fewer. */
    int written[SCENE_WRITTEN];
    int appended[SCENE_WRITTEN]; /* likewise, of calls that append */
};

extern const struct scene_op attention_scene_op, batching_scene_op, given_scene_op,
    read_back_scene_op, attend_scene_op, write_rows_scene_op, onnx_scene_op, flow_scene_op,
    rows_scene_op, gather_scene_op, scatter_scene_op;

/* NULL: its runs are not timed. */
const struct scene_op *scene_op_of(const struct spec *spec);

void scene_set_tensor(struct scene_call *call, int which, DLDataType type, int rank,
                      const int64_t *dims);

/* What the op's description requires, and its words give a shape. */
void scene_set_described(struct scene_call *call, const struct op *op, const void *attributes,
                         const struct op_dim *words);

/* Bytes of a tensor's elements, side by side. */
int64_t scene_bytes_of(const struct scene *scene, const DLTensor *tensor);

bool scene_demand(kvmill_status status, const kvmill_error *reason, struct error *error);

/* ---- Tensors of a cache of attention: cache, scale, value_cache, value_scale ---- */

enum { SIDES = 4 };

/* Bytes of a row of one head; 0: there is no such side. */
int64_t side_row_bytes(const struct kvmill_cache_geometry *geometry, int side);

/* Sets a side of a cache of one layer: of a static batch, with `slots` for each sequence; of
   dynamic batching, with `slots` for all. */
void side_shape(struct scene_call *call, const kvmill_cache_attention *op,
                const struct kvmill_cache_geometry *geometry, int side, int64_t slots);

/* "32/8 x 128 int8 g32 near", "16/1 x 576/512 float16" */
void side_say(const struct kvmill_cache_geometry *geometry, char words[SAID_SIZE]);

void side_fill(struct scene *scene, const struct kvmill_cache_geometry *geometry, int side);

/* The same op with one layer, whichever it is, and results that are done. */
kvmill_cache_attention one_layer_of(const kvmill_cache_attention *op);

/* ---- What the ops of cache attention have in common, by scene->attention ---- */

bool attention_scene_open(struct scene *scene, struct error *error);
bool attention_scene_fill(struct scene *scene, int tensor);
kvmill_status attention_scene_plan(const struct scene_call *call,
                                   const kvmill_plan_options *options, kvmill_plan **plan,
                                   kvmill_error *reason);
struct kvmill_cache_geometry attention_scene_arithmetic(const struct scene *scene);

#endif
