/* Shared by all ops: errors, tensors, plans, running.  Also TensorScatter.  Included by kvmill.h.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_CORE_H
#define KVMILL_CORE_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVMILL_VERSION_MAJOR 0
#define KVMILL_VERSION_MINOR 2
#define KVMILL_VERSION_PATCH 0
#define KVMILL_VERSION       "0.2.0"

/* Version of the library that is linked, as text.  Any thread. */
const char *kvmill_version(void);

/* A number of the calibration (kvmill(3), KVMILL_CALIBRATION): the measured one, or the preset of
   the processor's class.  Names: "asleep", "around", "copy_streams", "fetch_level",
   "gather_streams", "ggml_split".  0 if name is NULL or there is no such number.  Any thread. */
int64_t kvmill_calibrated(const char *name);

/* ---- Errors ------------------------------------------------------------------------------- */

/* Numbers are stable; new codes are added at the end. */
typedef enum kvmill_status {
    KVMILL_OK = 0,
    KVMILL_E_NULL = 1,           /* a required pointer is NULL */
    KVMILL_E_ALIAS = 2,          /* tensors overlap in a way the op does not allow */
    KVMILL_E_INDEX_NEGATIVE = 3, /* an index is negative */
    KVMILL_E_INDEX_RANGE = 4,    /* an index points outside the tensor */
    KVMILL_E_SHAPE = 5,          /* ranks or dims do not fit the op, the plan or each other */
    KVMILL_E_OVERFLOW = 6,       /* a size in bytes exceeds PTRDIFF_MAX */
    KVMILL_E_DTYPE = 7,          /* an element type the op or the plan does not take */
    KVMILL_E_ATTRIBUTE = 8,      /* an attribute outside its range */
    KVMILL_E_STRIDE = 9,         /* strides the planned kernel cannot walk */
    KVMILL_E_DEVICE = 10,        /* not in CPU memory */
    KVMILL_E_WORKSPACE = 11,     /* workspace missing, or not aligned; too small, if its size is
                                    given */
    KVMILL_E_MEMORY = 12,        /* out of memory; plan creation only */
    KVMILL_E_ISA = 13,           /* an instruction set this build or CPU does not know */
    KVMILL_E_PACK = 14,          /* a pack of another version, to be generated again */
    KVMILL_E_VERSION = 15,       /* a struct says more than this version of the library knows */
    KVMILL_E_KERNEL = 16         /* no pack has a kernel that options.least_isa asks for */
} kvmill_status;

/* "KVMILL_E_SHAPE" etc.; never NULL.  Any thread. */
const char *kvmill_status_name(kvmill_status status);

/* Message buffer of the caller; every function that takes one also takes NULL. */
typedef struct kvmill_error {
    char message[512]; /* which argument, its value, what is accepted; "" on success */
} kvmill_error;

/* ---- Structs ------------------------------------------------------------------------------ */

/* Structs that may grow begin with struct_size, the size that the program was compiled with, so
   that programs and libraries of different versions work together:

   - A smaller struct, of an older program: members that it lacks have their defaults.
   - A larger struct, of a newer program: accepted if all bytes after those that this library knows
   are 0, else KVMILL_E_VERSION.  Members are only ever added at the end.
   - Any other size (0, above 4096, not a multiple of sizeof (size_t)) is KVMILL_E_ATTRIBUTE.

   kvmill_NAME_init (&op, sizeof op) sets struct_size and every default; plan functions, specs and
   bindings have the same defaults.  Unless a comment says otherwise, a default is 0 or NULL.  If
   you do not call the init function, set members with other defaults yourself.  The function writes
   struct_size bytes, does nothing if the pointer is NULL or no struct has the size, and may be
   called on any thread.  The library reads a struct, and what it points to, during the call to
   which it is passed, and keeps nothing of it unless a comment says so. */

/* ---- Windows ------------------------------------------------------------------------------ */

/* Windows have the same meaning everywhere, that of ONNX and flash attention: a query at position p
   sees the positions j with p - left_window_size <= j <= p + right_window_size, unless something
   else hides them. -1, the default, means no bound; 0 means no position on that side.  So a model's
   sliding window of n positions, the query's own included, is left_window_size n - 1. */

/* ---- Tensors ------------------------------------------------------------------------------ */

/* Tensors are DLPack DLTensors in CPU memory; strides (in elements, NULL = row-major) and
   byte_offset are honoured. kvmill borrows them for the duration of a call.  A tensor is not
   trusted.  It is checked in this order: rank 0 to 64 (KVMILL_E_SHAPE), then a shape that is not
   NULL, then dims, strides, a byte_offset of at most PTRDIFF_MAX (KVMILL_E_OVERFLOW), and data that
   is not NULL unless it is empty. kvmill cannot check that the memory exists, that it is as large
   as shape and strides require, that nobody else changes it during a call, that strings are
   terminated, and that pointers that are not NULL point to objects of their type. 4-bit types are
   packed two per byte, low nibble first, over the whole tensor, and must be row-major without gaps.
   Type codes that DLPack 0.6 lacks, with the values later versions gave them: */
#define KVMILL_DL_BOOL               6
#define KVMILL_DL_FLOAT8_E3M4        7
#define KVMILL_DL_FLOAT8_E4M3        8
#define KVMILL_DL_FLOAT8_E4M3B11FNUZ 9
#define KVMILL_DL_FLOAT8_E4M3FN      10
#define KVMILL_DL_FLOAT8_E4M3FNUZ    11
#define KVMILL_DL_FLOAT8_E5M2        12
#define KVMILL_DL_FLOAT8_E5M2FNUZ    13
#define KVMILL_DL_FLOAT8_E8M0FNU     14
#define KVMILL_DL_FLOAT6_E2M3FN      15
#define KVMILL_DL_FLOAT6_E3M2FN      16
#define KVMILL_DL_FLOAT4_E2M1FN      17

/* In the shape of a tensor that is passed to a plan: the dim is known only when the plan runs. */
#define KVMILL_DYNAMIC (-1)

/* ---- Plans -------------------------------------------------------------------------------- */

typedef struct kvmill_plan kvmill_plan;

/* A pack of generated kernels, as the pack's own header declares it: kvmill_pack_NAME. Immutable,
   for any thread.  Its contents are for the library only (kvmill_kernel.h). */
typedef struct kvmill_pack kvmill_pack;

typedef struct kvmill_plan_options {
    size_t struct_size;              /* sizeof (kvmill_plan_options) */
    const kvmill_pack *const *packs; /* searched for the best kernel; borrowed by the plan */
    size_t pack_count;
    const char *isa; /* best instruction set to use, NULL = all this CPU has */
    int portable;    /* not 0: use the portable kernels */
    int threads; /* the most threads that run parts of one call at a time, for which the workspace
                    has room; 0 = 1.  If more threads run, they wait for each other */
    const char *least_isa; /* the worst instruction set whose kernels are accepted; an extension
                              counts as the set that it extends; "scalar" = any generated kernel;
                              NULL = portable kernels, too.  See below */
} kvmill_plan_options;

/* If packs lack kernels, portable ones do the work, which may take ten times as long or more.  To
   find out, set least_isa.  KVMILL_E_KERNEL then refuses

   - a plan, if every run of it needs a kernel that no pack has;
   - a run, if it needs a missing kernel which other runs of the plan do not need: attention with a
   mask that the plan's op does not announce, TensorScatter and scatter out of place.  Nothing has
   been written then.

   Kernels in a plan's description that no run needs do not matter.  `kvmill generate` creates the
   kernels from a spec of the op, or from a model. */

/* No packs, one thread. */
void kvmill_plan_options_init(kvmill_plan_options *options, size_t struct_size);

/* ONNX TensorScatter (opset 24): present = past with `rows` new rows of update written along
   `axis`, from slot write_indices[b] of batch entry b on; circular mode wraps around.

   The tensors are prototypes: only shape, dtype and strides are read, not data.  A dim may be
   KVMILL_DYNAMIC. past_cache and present_cache: equal shapes, rank >= 2. update: the same except
   dim `axis`, which may be smaller. write_indices: int64 [batch], or NULL for all zero.
   present_cache NULL = laid out as past_cache. */
typedef struct kvmill_tensor_scatter {
    size_t struct_size; /* sizeof (kvmill_tensor_scatter) */
    int64_t axis;       /* [-rank + 1, -1] or [1, rank - 1]; the specification's default is -2 */
    const char *mode;   /* "linear" or "circular"; NULL = linear */
    const DLTensor *past_cache, *update, *write_indices, *present_cache;
    /* The meaning of a negative write index of a ring: "refused", with KVMILL_E_INDEX_NEGATIVE, as
       the standard requires; or "floored", write_indices[b] modulo the capacity, as np.mod and the
       standard's reference implementation compute it.  NULL = refused; linear: refused. */
    const char *negative_indices;
} kvmill_tensor_scatter;

/* axis -2. */
void kvmill_tensor_scatter_init(kvmill_tensor_scatter *op, size_t struct_size);

/* Order of the tensors a TensorScatter plan runs on. */
enum {
    KVMILL_TENSOR_SCATTER_PAST_CACHE = 0,
    KVMILL_TENSOR_SCATTER_UPDATE = 1,
    KVMILL_TENSOR_SCATTER_WRITE_INDICES = 2,
    KVMILL_TENSOR_SCATTER_PRESENT_CACHE = 3,
    KVMILL_TENSOR_SCATTER_TENSORS = 4
};

/* Create a plan; *plan is NULL on error. options NULL = no packs, portable kernels.  The plan is
   immutable and may be shared by threads; release it with kvmill_plan_destroy.  The environment
   variable KVMILL_ISA limits the instruction set like options->isa.  With KVMILL_VERBOSE set, the
   choice is written to standard error; the library prints nothing else. */
kvmill_status kvmill_plan_tensor_scatter(const kvmill_tensor_scatter *op,
                                         const kvmill_plan_options *options, kvmill_plan **plan,
                                         kvmill_error *error);

/* An attribute of an op by its name in specs.  The value is the one that fits the attribute's kind.
 */
typedef struct kvmill_named_attribute {
    const char *name;
    const char *word; /* for words, and for element types by their names; else NULL */
    int64_t integer;
    double real;
    int is_real; /* not 0: the number is `real`, which no integer attribute takes */
} kvmill_named_attribute;

/* A tensor of an op by its name in specs: a prototype. */
typedef struct kvmill_named_tensor {
    const char *name;
    const DLTensor *tensor;
} kvmill_named_tensor;

/* The plan of an op by its name, for callers that have ops as data: TensorScatter, cache attention
   (also dynamic_batching.MultiHeadCacheAttention and so on), Attention, TensorScatterAttention,
   CacheAttend.  It is the same plan that the op's own function creates.  Attributes that are not
   named have their defaults; element types that are not named are those of the tensors.  tensors:
   those that runs will have; kvmill_named_place gives their order for kvmill_run.
   KVMILL_E_ATTRIBUTE for an unknown name.  Everything is read only during the call; options as for
   kvmill_plan_tensor_scatter.  Any thread. */
kvmill_status kvmill_plan_named(const char *op, const kvmill_named_attribute *attributes,
                                size_t attribute_count, const kvmill_named_tensor *tensors,
                                size_t tensor_count, const kvmill_plan_options *options,
                                kvmill_plan **plan, kvmill_error *error);

/* The place of a tensor in the list of an op's plans. */
typedef struct kvmill_named_tensor_place {
    int32_t index;      /* in the list that kvmill_run takes */
    int32_t in, out;    /* read; written.  Both: updated in place */
    int32_t only_int64; /* no other type is accepted */
} kvmill_named_tensor_place;

/* Sets *place; KVMILL_E_ATTRIBUTE if there is no such op or tensor.  Any thread. */
kvmill_status kvmill_named_place(const char *op, const char *tensor,
                                 kvmill_named_tensor_place *place, kvmill_error *error);

/* Release a plan that no call uses any more; NULL is allowed.  Any thread. */
void kvmill_plan_destroy(kvmill_plan *plan);

/* Write what was planned, and which kernels were selected and why: at most `size` bytes including
   the final NUL, or none if text is NULL.  Returns the length of the whole text, like snprintf; 0
   and "" if plan is NULL.  Any thread. */
size_t kvmill_plan_describe(const kvmill_plan *plan, char *text, size_t size);

/* Bytes of workspace a run of the plan needs, 64-byte aligned; 0 for TensorScatter.  It does not
   grow with the length of the cache.  Simultaneous runs need a workspace each. 0 if plan is NULL.
   Any thread. */
size_t kvmill_plan_workspace_size(const kvmill_plan *plan);

/* The number of tensors that a run of the plan takes: the count in the op's enumeration; for a
   scatter, 3 * count + 1 and its captures; for a step of a flow, KVMILL_FLOW_FIELDS and the flow's
   own; 0 if plan is NULL.  Any thread. */
size_t kvmill_plan_tensor_count(const kvmill_plan *plan);

/* ---- Running ------------------------------------------------------------------------------ */

/* Run on the calling thread; any number of threads may run one plan at a time.  workspace: as many
   bytes as kvmill_plan_workspace_size returns, at a multiple of 64; NULL if that is 0.  tensors: in
   the op's order; an absent optional one is NULL.  tensor_count: their number, which must be what
   kvmill_plan_tensor_count returns (KVMILL_E_ATTRIBUTE).  In place: past_cache and present_cache
   are the same memory and strides.  Other overlaps of an output with anything are refused
   (KVMILL_E_ALIAS). */
kvmill_status kvmill_run(const kvmill_plan *plan, const DLTensor *const *tensors,
                         size_t tensor_count, void *workspace, kvmill_error *error);

/* kvmill_run for a workspace of workspace_size bytes.  One that is too small for the plan is
   KVMILL_E_WORKSPACE; kvmill_run cannot know how large the memory is. */
kvmill_status kvmill_run_sized(const kvmill_plan *plan, const DLTensor *const *tensors,
                               size_t tensor_count, void *workspace, size_t workspace_size,
                               kvmill_error *error);

/* One run, split into parts for threads the caller owns, in one phase or several:

       kvmill_call call;                                     // on the stack; no destructor
       // validates everything
       status = kvmill_begin (&call, plan, tensors, tensor_count, workspace, &error);
       do
           each part in [0, kvmill_parts (&call)), any thread, any order: kvmill_part (&call, part);
       while (kvmill_next (&call));                          // when all of these are done

   The result does not depend on which thread runs what.  The tensors and the workspace must stay
   valid until the end.  A call that kvmill_begin has refused, a call that has ended, and a
   kvmill_call of all zeros have 0 parts, and kvmill_next returns 0.  kvmill_part does nothing if
   there is no such part. kvmill cannot detect a kvmill_call that was never begun, or a phase that
   is ended while parts run. */
typedef struct kvmill_call {
    uint64_t opaque[208];
} kvmill_call;

kvmill_status kvmill_begin(kvmill_call *call, const kvmill_plan *plan,
                           const DLTensor *const *tensors, size_t tensor_count, void *workspace,
                           kvmill_error *error);

/* kvmill_begin for a workspace of which the caller says the size in bytes, as kvmill_run_sized. */
kvmill_status kvmill_begin_sized(kvmill_call *call, const kvmill_plan *plan,
                                 const DLTensor *const *tensors, size_t tensor_count,
                                 void *workspace, size_t workspace_size, kvmill_error *error);
int64_t kvmill_parts(const kvmill_call *call);
void kvmill_part(const kvmill_call *call, int64_t part);

/* End a phase: 0 when the run is done, not 0 when there are parts of another phase. */
int kvmill_next(kvmill_call *call);

/* A parallel loop of the caller's: it must call part (context, i) once for every i in [0, parts),
   and then return.  data belongs to the caller. */
typedef void (*kvmill_parallel_for)(void *data, int64_t parts,
                                    void (*part)(void *context, int64_t index), void *context);

/* kvmill_run on a caller's parallel loop.  kvmill_openmp.h has the same for OpenMP. */
kvmill_status kvmill_run_parallel(const kvmill_plan *plan, const DLTensor *const *tensors,
                                  size_t tensor_count, void *workspace,
                                  kvmill_parallel_for parallel_for, void *data,
                                  kvmill_error *error);

/* ---- CPU ---------------------------------------------------------------------------------- */

/* Name of the i-th instruction set that kvmill generates for, worst first, or NULL after the last.
   Any thread; so may the next function. */
const char *kvmill_isa_name(size_t i);

/* Whether this CPU and operating system can run it; 0 for unknown names and NULL. */
int kvmill_isa_usable(const char *isa);

#ifdef __cplusplus
}
#endif
#endif
