/* A run of an op with memory for it: tensors from a spec and a size, in memory that is not in the
   processor's caches when a run begins.  Code for single ops is in scene_op.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_BENCH_SCENE_H
#define KVMILL_BENCH_SCENE_H

#include "../ops/tensor_scatter.h"
#include "../spec/flow_spec.h"
#include "../spec/stablehlo.h"
#include "bench_pool.h"
#include "owned_plan.h"

/* Enough for the tensors of any op. */
enum { SCENE_TENSORS = KVMILL_FLOW_FIELDS + KVMILL_MOST_FLOW_OWN };

/* New tokens per sequence, and positions including them; each op uses the members that it needs. */
struct run_size {
    int64_t batch, tokens, positions;
};

/* What a call runs: the whole op (of a flow: decode), or one step. */
enum scene_step { STEP_RUN, STEP_STORE, STEP_APPEND, STEP_INDEX, STEP_ATTEND, SCENE_STEPS };

/* The packs for plans, the threads, and the memory that runs rotate through. */
struct scene_setting {
    const kvmill_pack *pack;
    int threads; /* a bench runs with one thread, and with this number */
    bool all; /* measures every size that has a bar, and AVX2 in addition; else one case per kind */
    int64_t rotation; /* bytes of caches that are used before the first is used again */
};
enum { ATTENTION_ROTATION = 1536 << 20 }; /* larger than any processor's cache */

/* How a tensor uses memory from run to run. */
enum scene_use {
    USE_NONE,  /* the op points to the tensor */
    USE_CACHE, /* the next of many sets, more than a processor's cache holds */
    USE_INPUT, /* the next of a few sets */
    USE_SAME
};

struct scene_memory {
    unsigned char *data;
    int64_t bytes;     /* allocated */
    int64_t set, sets; /* bytes of one run's set, and the number of sets */
};

/* A range of elements of an output. */
struct scene_span {
    int64_t first, count;
};

struct scene {
    const struct scene_op *op;
    const struct spec *spec;
    struct run_size size; /* of the largest run */
    int64_t rotation, turn;
    bool in_place;
    enum scene_use use[SCENE_TENSORS];
    int share[SCENE_TENSORS]; /* the tensor that a tensor shares memory with */
    int read;                 /* the tensor that rivals read */
    struct scene_memory memory[SCENE_TENSORS];
    /* The output at turn 0 by a portable plan; no spans: not computed yet. */
    struct scene_memory expected;
    struct run_size expected_size;
    struct scene_span spans[2];
    int span_count;
    union { /* members of one op */
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
            int64_t *lines, line_count; /* lines of the input that updates touch */
        } scatter;
        struct {
            kvmill_cache_attention attention;
            kvmill_flow bound; /* the flow with one layer */
            struct kvmill_flow_problem problem;
            int64_t pages, requests; /* pages of a request; number of requests */
            int32_t *ids;            /* page ids of all requests, shuffled */
            int64_t *slots;          /* slots of the positions in these pages */
        } flow;
    };
};

/* Lists the specs that have scenes, separated by commas. */
enum { SCENE_WORDS = 256 };
void scene_op_words(char words[SCENE_WORDS]);

/* Returns `bytes`, or the MiB of KVMILL_BENCH_ROTATION if that is less; tests set it, as they
   compare no times. */
int64_t scene_rotation(int64_t bytes);

/* Sets the tensors for runs of this size, without memory; this is enough to plan.  Release with
   scene_close, also after a failure. */
bool scene_begin(struct scene *scene, const struct spec *spec, const struct run_size *size,
                 int64_t rotation, bool in_place, struct error *error);

/* The same with memory. */
bool scene_open(struct scene *scene, const struct spec *spec, const struct run_size *size,
                int64_t rotation, bool in_place, struct error *error);
void scene_close(struct scene *scene);

/* Makes room for runs of this size; keeps memory that is large enough. */
bool scene_resize(struct scene *scene, const struct run_size *size, struct error *error);

/* Makes a plan for a step of the scene's op.  Close the plan also after a failure. */
bool scene_plan(const struct scene *scene, enum scene_step step, const kvmill_plan_options *options,
                struct owned_plan *plan, struct error *error);

/* Returns the next `bytes` of a tensor's memory, which runs have not used lately, or all of it if
   that is less.  Sets *bytes. */
unsigned char *scene_next_bytes(struct scene *scene, int tensor, int64_t *bytes);

/* Returns the bytes of one set of a tensor. */
int64_t scene_tensor_bytes(const struct scene *scene, int tensor);

/* ---- Calls: the tensors of a run, with a plan and a pool ---- */

struct scene_call {
    struct scene *scene;
    const struct owned_plan *plan;
    kvmill_pool *pool;
    enum scene_step step;
    bool in_place;
    struct run_size size;
    int moving[SCENE_TENSORS], moving_count; /* tensors that rotate through sets */
    int64_t numbers[5];                      /* the op's own numbers, as tensors of one element */
    int64_t dims[SCENE_TENSORS][6];
    int64_t strides[KVMILL_MOST_FLOW_FIELDS][4]; /* of fields that are not apart */
    DLTensor tensors[SCENE_TENSORS];
    const DLTensor *given[SCENE_TENSORS]; /* NULL: absent */
};

void scene_call_open(struct scene_call *call, struct scene *scene, enum scene_step step,
                     const struct run_size *size, const struct owned_plan *plan, kvmill_pool *pool);

/* Move the call to the memory of a turn; to the next turn. */
void scene_call_set(struct scene_call *call, int64_t turn);
void scene_call_move(struct scene_call *call);

/* Sets whether the call runs in place. */
void scene_call_use(struct scene_call *call, bool in_place);

/* Run the call on its current memory; on the next memory. */
kvmill_status scene_call_run(struct scene_call *call, kvmill_error *reason);
kvmill_status scene_call_next(struct scene_call *call, kvmill_error *reason);

/* Runs a plan on the calling thread. */
kvmill_status scene_call_alone(const struct scene_call *call, const struct owned_plan *plan,
                               kvmill_error *reason);

/* The bytes that a run has to move, each once; the floating-point operations, where a multiply-add
   is two. */
double scene_call_bytes(const struct scene_call *call);
double scene_call_flops(const struct scene_call *call);

/* ---- Checks ---- */

/* Computes the output of the portable kernels at turn 0, if results are compared with it. */
bool scene_expect(struct scene_call *call, struct error *error);

/* Whether a call's plan gives the portable kernels' result at turn 0 (the same bytes, or as near as
   the arithmetic allows), and the same result with its pool as with one thread. */
bool scene_check(struct scene_call *call, struct error *error);

/* Whether the pool and the calling thread alone give the same bits, on the current memory. */
bool scene_check_threads(struct scene_call *call, struct error *error);

#endif
