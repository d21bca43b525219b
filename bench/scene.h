/* A run of an op with memory for it: tensors from a spec and a size, in memory that is not in the
   processor's caches when a run begins.  Code for single ops is in scene_op.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_H
#define KVMILL_BENCH_SCENE_H

#include "../gen/flow.h"
#include "../gen/stablehlo.h"
#include "../ops/tensor_scatter.h"
#include "owned_plan.h"
#include "pool.h"

/* Tensors of any op. */
enum { SCENE_TENSORS = KVMILL_FLOW_FIELDS + KVMILL_MOST_FLOW_OWN };

/* New tokens of every sequence, and positions there are with them; an op has what it needs. */
struct run_size {
    int64_t batch, tokens, positions;
};

/* What is run: all of an op (of a flow: decode), or a step of it. */
enum scene_step { STEP_RUN, STEP_STORE, STEP_APPEND, STEP_INDEX, STEP_ATTEND, SCENE_STEPS };

/* How the kernels are found, and how much memory is walked through. */
struct scene_setting {
    const kvmill_pack *pack;
    int threads; /* measured with one and with so many */
    bool all;    /* every size there is a bar for, and AVX2 beside the best; else one of a kind */
    int64_t rotation; /* bytes of caches before the first is used again */
};
enum { ATTENTION_ROTATION = 1536 << 20 }; /* more than any cache of a processor's */

/* What becomes of a tensor's memory from run to run. */
enum scene_use {
    USE_NONE,  /* the op points to it */
    USE_CACHE, /* the next of so many sets that no processor's cache holds them */
    USE_INPUT, /* the next of a few sets */
    USE_SAME
};

struct scene_memory {
    unsigned char *data;
    int64_t bytes;     /* that are there */
    int64_t set, sets; /* what a run uses, and how many of these */
};

/* Elements of an output. */
struct scene_span {
    int64_t first, count;
};

struct scene {
    const struct scene_op *op;
    const struct spec *spec;
    struct run_size size; /* the largest of a run */
    int64_t rotation, turn;
    bool in_place;
    enum scene_use use[SCENE_TENSORS];
    int share[SCENE_TENSORS]; /* in whose memory a tensor lies */
    int read;                 /* the tensor that readings read */
    struct scene_memory memory[SCENE_TENSORS];
    /* The output at turn 0, by a portable plan; none known: no spans. */
    struct scene_memory expected;
    struct run_size expected_size;
    struct scene_span spans[2];
    int span_count;
    union { /* the op's own */
        struct {
            kvmill_cache_attention op;
            struct kvmill_cache_geometry geometry;
        } attention;
        struct kvmill_cache_geometry attend;
        struct {
            struct kvmill_attention_geometry geometry;
            int64_t strides[2][4]; /* of caches of K and V */
        } onnx;
        struct kvmill_row_geometry rows;
        struct {
            struct gather_view view;
            struct kvmill_windows windows;
            int64_t result[KVMILL_MOST_RANK];
        } gather;
        struct {
            struct scatter_view view;
            struct kvmill_windows windows;
            _Alignas(16) unsigned char captured[KVMILL_MOST_CAPTURES][16];
            DLDataType capture_type[KVMILL_MOST_CAPTURES];
            int64_t *lines, line_count; /* of the input, those that updates touch */
        } scatter;
        struct {
            kvmill_cache_attention attention;
            kvmill_flow bound; /* the flow with one layer */
            struct kvmill_flow_problem problem;
            int64_t pages, requests; /* of a request, and how many there are */
            int32_t *ids;            /* of all requests, shuffled */
            int64_t *slots;          /* of the positions in their pages */
        } flow;
    };
};

/* Which specs have scenes, by commas. */
enum { SCENE_WORDS = 256 };
void scene_op_words(char words[SCENE_WORDS]);

/* So many bytes, or fewer if KVMILL_BENCH_ROTATION asks for fewer MiB, as tests do: they look at no
   times. */
int64_t scene_rotation(int64_t bytes);

/* The tensors of a spec's runs of that size, without memory: enough to plan.  Release with
   scene_close, also after a failure. */
bool scene_begin(struct scene *scene, const struct spec *spec, const struct run_size *size,
                 int64_t rotation, bool in_place, struct error *error);

/* With memory. */
bool scene_open(struct scene *scene, const struct spec *spec, const struct run_size *size,
                int64_t rotation, bool in_place, struct error *error);
void scene_close(struct scene *scene);

/* Make room for runs of that size; what is there stays if it is enough. */
bool scene_resize(struct scene *scene, const struct run_size *size, struct error *error);

/* A plan for a step of the scene's op; close it in any case. */
bool scene_plan(const struct scene *scene, enum scene_step step, const kvmill_plan_options *options,
                struct owned_plan *plan, struct error *error);

/* The next `bytes` of a tensor's memory that runs have not used lately, or all of it if that is
   less.  Sets *bytes. */
unsigned char *scene_next_bytes(struct scene *scene, int tensor, int64_t *bytes);

/* Bytes of one set of a tensor. */
int64_t scene_tensor_bytes(const struct scene *scene, int tensor);

/* ---- Calls: the tensors of a run, by a plan and the threads of a pool ---- */

struct scene_call {
    struct scene *scene;
    const struct owned_plan *plan;
    kvmill_pool *pool;
    enum scene_step step;
    bool in_place;
    struct run_size size;
    int moving[SCENE_TENSORS], moving_count; /* tensors that turns move */
    int64_t numbers[5];                      /* the op's own, as tensors of one element */
    int64_t dims[SCENE_TENSORS][6];
    int64_t strides[KVMILL_MOST_FLOW_FIELDS][4]; /* of fields that lie beside each other */
    DLTensor tensors[SCENE_TENSORS];
    const DLTensor *given[SCENE_TENSORS]; /* NULL: there is none */
};

void scene_call_open(struct scene_call *call, struct scene *scene, enum scene_step step,
                     const struct run_size *size, const struct owned_plan *plan, kvmill_pool *pool);

/* To the memory of a turn; to the next. */
void scene_call_set(struct scene_call *call, int64_t turn);
void scene_call_move(struct scene_call *call);

/* In place, or not. */
void scene_call_use(struct scene_call *call, bool in_place);

/* Where it is; on the next memory. */
kvmill_status scene_call_run(struct scene_call *call, kvmill_error *reason);
kvmill_status scene_call_next(struct scene_call *call, kvmill_error *reason);

/* By a plan, on the calling thread. */
kvmill_status scene_call_alone(const struct scene_call *call, const struct owned_plan *plan,
                               kvmill_error *reason);

/* Bytes that a run has to move, each once; floating-point operations, two to a multiply-add. */
double scene_call_bytes(const struct scene_call *call);
double scene_call_flops(const struct scene_call *call);

/* ---- Checks ---- */

/* Compute what the portable kernels give at turn 0, where results are compared with that. */
bool scene_expect(struct scene_call *call, struct error *error);

/* Whether a call's plan gives, at turn 0, what the portable kernels give: the same bytes, or as
   near as the arithmetic allows; and the same by its pool and by one thread. */
bool scene_check(struct scene_call *call, struct error *error);

/* The same bits by its pool and by the calling thread alone, where it is. */
bool scene_check_threads(struct scene_call *call, struct error *error);

#endif
