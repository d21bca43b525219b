/* A plan of kvmill as a handler of XLA's FFI, which jitted JAX programs call.  It is only a header,
   which the files of `kvmill generate --ffi` include; they need libkvmill.

   It declares the part of XLA's binary interface that it uses, which has not changed since version
   0.1, so compiling and running need no files of jaxlib.  Targets have 64 bits.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef KVMILL_FFI_H
#define KVMILL_FFI_H

#include <kvmill.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- XLA's interface ----------------------------------------------------------------------- */

typedef struct kvmill_ffi_error kvmill_ffi_error; /* XLA's own */

typedef struct kvmill_ffi_extension {
    size_t struct_size;
    int32_t type;
    struct kvmill_ffi_extension *next;
} kvmill_ffi_extension;

typedef struct kvmill_ffi_version {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    int32_t major_version, minor_version;
} kvmill_ffi_version;

/* What a handler states when it is registered: an extension of an otherwise empty frame. */
enum { KVMILL_FFI_METADATA = 1, KVMILL_FFI_MAJOR = 0, KVMILL_FFI_MINOR = 1 };

typedef struct kvmill_ffi_metadata {
    size_t struct_size;
    kvmill_ffi_version version;
    uint32_t traits;
} kvmill_ffi_metadata;

typedef struct kvmill_ffi_metadata_extension {
    kvmill_ffi_extension base;
    kvmill_ffi_metadata *metadata;
} kvmill_ffi_metadata_extension;

enum { KVMILL_FFI_INVALID_ARGUMENT = 3, KVMILL_FFI_RESOURCE_EXHAUSTED = 8 };

typedef struct kvmill_ffi_error_args {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    const char *message; /* copied */
    int32_t code;
} kvmill_ffi_error_args;

typedef struct kvmill_ffi_destroy_args {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    kvmill_ffi_error *error;
} kvmill_ffi_destroy_args;

/* A task for XLA's threads: it may run at once, later, or on this thread. */
typedef struct kvmill_ffi_schedule_args {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    void *context;
    void (*task)(void *data);
    void *data;
} kvmill_ffi_schedule_args;

/* The rest of the table differs from version to version; early versions state that they end before
   `schedule`. */
typedef struct kvmill_ffi_api {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    kvmill_ffi_version version;
    const void *internal;
    kvmill_ffi_error *(*error_create)(kvmill_ffi_error_args *args);
    void (*error_get_message)(void *args);
    void (*error_destroy)(kvmill_ffi_destroy_args *args);
    void (*not_used[8])(void);
    kvmill_ffi_error *(*schedule)(kvmill_ffi_schedule_args *args);
} kvmill_ffi_api;

typedef struct kvmill_ffi_buffer {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    int32_t dtype;
    void *data; /* row-major without gaps */
    int64_t rank;
    int64_t *dims;
} kvmill_ffi_buffer;

/* Arguments or results. */
enum { KVMILL_FFI_BUFFER = 1 };

typedef struct kvmill_ffi_list {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    int64_t size;
    const int32_t *types;
    void *const *items;
} kvmill_ffi_list;

/* Attributes: handlers of specs take none; those of kvmill_ffi_named.h do. */
enum { KVMILL_FFI_SCALAR = 3, KVMILL_FFI_STRING = 4 };

typedef struct kvmill_ffi_span {
    const char *text; /* without a NUL */
    size_t length;
} kvmill_ffi_span;

typedef struct kvmill_ffi_scalar {
    int32_t dtype;
    const void *value;
} kvmill_ffi_scalar;

typedef struct kvmill_ffi_attributes {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    int64_t size;
    const int32_t *types;
    const kvmill_ffi_span *const *names; /* sorted */
    const void *const *items;            /* a kvmill_ffi_scalar or a kvmill_ffi_span */
} kvmill_ffi_attributes;

enum { KVMILL_FFI_EXECUTE = 3 }; /* the stage that runs */

typedef struct kvmill_ffi_frame {
    size_t struct_size;
    kvmill_ffi_extension *extensions;
    const kvmill_ffi_api *api;
    void *context;
    int32_t stage;
    kvmill_ffi_list arguments, results;
    kvmill_ffi_attributes attributes;
    void *future;
} kvmill_ffi_frame;

/* ---- Handlers ------------------------------------------------------------------------------ */

/* A handler's data, one for each handler, for the life of the process. */
typedef struct kvmill_ffi_op {
    const char *name; /* begins messages */
    /* Numbers of buffers.  A plan's tensors are the arguments in order, with the results inserted
       before argument number results_at. */
    int arguments, results, results_at;
    int in_place; /* not 0: a result may have the memory of the argument with its number */
    kvmill_status (*make)(kvmill_plan **plan, kvmill_error *error);
    kvmill_plan *plan; /* NULL; created by the first call that runs, and kept */
} kvmill_ffi_op;

enum { KVMILL_FFI_MOST_TENSORS = 80, KVMILL_FFI_MOST_RANK = 32 };

static inline kvmill_ffi_error *kvmill_ffi_fail(const char *name, const kvmill_ffi_frame *frame,
                                                kvmill_status status, const kvmill_error *error) {
    char message[sizeof error->message + 160];
    kvmill_ffi_error_args args = {sizeof args, NULL, message, KVMILL_FFI_INVALID_ARGUMENT};
    if (status == KVMILL_E_MEMORY)
        args.code = KVMILL_FFI_RESOURCE_EXHAUSTED;
    snprintf(message, sizeof message, "%.150s: %s", name, error->message);
    return frame->api->error_create(&args);
}

/* Answer the query at registration; 0 if there is none. */
static inline int kvmill_ffi_answer(const kvmill_ffi_frame *frame) {
    for (kvmill_ffi_extension *e = frame->extensions; e != NULL; e = e->next)
        if (e->type == KVMILL_FFI_METADATA) {
            kvmill_ffi_metadata *metadata = ((kvmill_ffi_metadata_extension *)(void *)e)->metadata;
            metadata->version.major_version = KVMILL_FFI_MAJOR;
            metadata->version.minor_version = KVMILL_FFI_MINOR;
            metadata->traits = 0;
            return 1;
        }
    return 0;
}

/* XLA's number of an element type as DLPack's; types of less than a byte are not supported. */
static inline int kvmill_ffi_dtype(int32_t number, DLDataType *dtype) {
    static const struct {
        uint8_t number, code, bits;
    } types[] = {
        {1, KVMILL_DL_BOOL, 8},
        {2, kDLInt, 8},
        {3, kDLInt, 16},
        {4, kDLInt, 32},
        {5, kDLInt, 64},
        {6, kDLUInt, 8},
        {7, kDLUInt, 16},
        {8, kDLUInt, 32},
        {9, kDLUInt, 64},
        {10, kDLFloat, 16},
        {11, kDLFloat, 32},
        {12, kDLFloat, 64},
        {15, kDLComplex, 64},
        {16, kDLBfloat, 16},
        {18, kDLComplex, 128},
        {19, KVMILL_DL_FLOAT8_E5M2, 8},
        {20, KVMILL_DL_FLOAT8_E4M3FN, 8},
        {23, KVMILL_DL_FLOAT8_E4M3B11FNUZ, 8},
        {24, KVMILL_DL_FLOAT8_E5M2FNUZ, 8},
        {25, KVMILL_DL_FLOAT8_E4M3FNUZ, 8},
        {28, KVMILL_DL_FLOAT8_E4M3, 8},
        {29, KVMILL_DL_FLOAT8_E3M4, 8},
        {33, KVMILL_DL_FLOAT8_E8M0FNU, 8},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].number == number) {
            dtype->code = types[i].code;
            dtype->bits = types[i].bits;
            dtype->lanes = 1;
            return 1;
        }
    return 0;
}

/* A buffer as a tensor; the plan checks its type and shape. */
static inline kvmill_status kvmill_ffi_tensor(const kvmill_ffi_list *list, int at, const char *what,
                                              DLTensor *tensor, kvmill_error *error) {
    const kvmill_ffi_buffer *buffer = (const kvmill_ffi_buffer *)list->items[at];
    if (list->types[at] != KVMILL_FFI_BUFFER) {
        snprintf(error->message, sizeof error->message, "%s %d is of kind %d; accepted: a buffer",
                 what, at, (int)list->types[at]);
        return KVMILL_E_DTYPE;
    }
    memset(tensor, 0, sizeof *tensor);
    tensor->device.device_type = kDLCPU;
    tensor->data = buffer->data;
    tensor->shape = buffer->dims;
    tensor->ndim = (int32_t)buffer->rank;
    if (buffer->rank < 0 || buffer->rank > KVMILL_FFI_MOST_RANK) {
        snprintf(error->message, sizeof error->message, "%s %d has rank %lld; accepted: 0 to %d",
                 what, at, (long long)buffer->rank, KVMILL_FFI_MOST_RANK);
        return KVMILL_E_SHAPE;
    }
    if (kvmill_ffi_dtype(buffer->dtype, &tensor->dtype))
        return KVMILL_OK;
    snprintf(error->message, sizeof error->message,
             "%s %d has XLA's element type number %d; accepted: types of 8 bits and more", what, at,
             (int)buffer->dtype);
    return KVMILL_E_DTYPE;
}

static inline kvmill_status kvmill_ffi_check(const kvmill_ffi_op *op, const kvmill_ffi_frame *frame,
                                             kvmill_error *error) {
    const struct {
        const char *what;
        int64_t given, accepted;
    } counts[] = {{"arguments", frame->arguments.size, op->arguments},
                  {"results", frame->results.size, op->results},
                  {"attributes", frame->attributes.size, 0}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].given != counts[i].accepted) {
            snprintf(error->message, sizeof error->message, "number of %s: %lld; accepted: %lld",
                     counts[i].what, (long long)counts[i].given, (long long)counts[i].accepted);
            return KVMILL_E_SHAPE;
        }
    return KVMILL_OK;
}

/* The tensors of a plan, in its order. */
static inline kvmill_status kvmill_ffi_tensors(const kvmill_ffi_op *op,
                                               const kvmill_ffi_frame *frame, DLTensor *tensors,
                                               const DLTensor **list, kvmill_error *error) {
    kvmill_status status = kvmill_ffi_check(op, frame, error);
    for (int i = 0; status == KVMILL_OK && i < op->arguments + op->results; i++) {
        int result = i - op->results_at;
        list[i] = &tensors[i];
        if (result >= 0 && result < op->results)
            status = kvmill_ffi_tensor(&frame->results, result, "result", &tensors[i], error);
        else
            status = kvmill_ffi_tensor(&frame->arguments, result < 0 ? i : i - op->results,
                                       "argument", &tensors[i], error);
    }
    return status;
}

static inline int kvmill_ffi_alike(const DLTensor *a, const DLTensor *b) {
    return a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits && a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

static inline void kvmill_ffi_copy(DLTensor *from, const DLTensor *to) {
    size_t bytes = to->dtype.bits / 8;
    for (int d = 0; d < to->ndim; d++)
        bytes *= (size_t)to->shape[d];
    if (bytes > 0 && from->data != to->data)
        memcpy(to->data, from->data, bytes);
    from->data = to->data;
}

/* XLA may give some results the memory of their arguments and others not; a plan takes all or none.
 */
static inline void kvmill_ffi_settle(const kvmill_ffi_op *op, DLTensor *tensors) {
    const DLTensor *results = tensors + op->results_at;
    int shared = 0;
    for (int i = 0; op->in_place && i < op->results; i++)
        shared |= tensors[i].data == results[i].data;
    for (int i = 0; shared && i < op->results; i++)
        if (kvmill_ffi_alike(&tensors[i], &results[i]))
            kvmill_ffi_copy(&tensors[i], &results[i]);
}

/* Several threads may call at the same time; the plan of one of them is kept. */
static inline kvmill_status kvmill_ffi_plan(kvmill_ffi_op *op, const kvmill_plan **plan,
                                            kvmill_error *error) {
    kvmill_plan *made, *kept = __atomic_load_n(&op->plan, __ATOMIC_ACQUIRE);
    *plan = kept;
    if (kept != NULL)
        return KVMILL_OK;
    kvmill_status status = op->make(&made, error);
    if (status != KVMILL_OK)
        return status;
    if (__atomic_compare_exchange_n(&op->plan, &kept, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        kept = made;
    else
        kvmill_plan_destroy(made);
    *plan = kept;
    return KVMILL_OK;
}

/* ---- Threads ------------------------------------------------------------------------------- */

/* The parts of a phase, for this thread and for tasks of XLA's.  A task may begin when everything
   is done, so whoever releases this struct last frees it. */
typedef struct kvmill_ffi_work {
    const kvmill_call *call; /* while there are parts */
    int64_t parts, next, done;
    int64_t holders;
} kvmill_ffi_work;

static inline void kvmill_ffi_let_go(kvmill_ffi_work *work) {
    if (__atomic_sub_fetch(&work->holders, 1, __ATOMIC_ACQ_REL) == 0)
        free(work);
}

static inline void kvmill_ffi_take_part(void *data) {
    kvmill_ffi_work *work = (kvmill_ffi_work *)data;
    int64_t part;
    while ((part = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->parts) {
        kvmill_part(work->call, part);
        __atomic_fetch_add(&work->done, 1, __ATOMIC_RELEASE);
    }
    kvmill_ffi_let_go(work);
}

static inline void kvmill_ffi_schedule(const kvmill_ffi_frame *frame, kvmill_ffi_work *work) {
    kvmill_ffi_schedule_args args = {sizeof args, NULL, frame->context, kvmill_ffi_take_part, work};
    __atomic_add_fetch(&work->holders, 1, __ATOMIC_RELAXED);
    kvmill_ffi_error *error = frame->api->schedule(&args);
    if (error == NULL)
        return;
    kvmill_ffi_destroy_args destroy = {sizeof destroy, NULL, error};
    frame->api->error_destroy(&destroy);
    kvmill_ffi_let_go(work);
}

/* Create tasks for as many threads as there are processors, if XLA has threads. */
static inline kvmill_ffi_work *kvmill_ffi_share(const kvmill_ffi_frame *frame,
                                                const kvmill_call *call) {
    int64_t parts = kvmill_parts(call), helpers = sysconf(_SC_NPROCESSORS_ONLN) - 1;
    kvmill_ffi_work *work = NULL;
    if (parts > 1 && frame->api->struct_size >= sizeof *frame->api)
        work = (kvmill_ffi_work *)calloc(1, sizeof *work);
    if (work == NULL)
        return NULL;
    work->call = call;
    work->parts = parts;
    work->holders = 2; /* one to take part, one to wait */
    for (int64_t i = 0; i < helpers && i < parts - 1; i++)
        kvmill_ffi_schedule(frame, work);
    return work;
}

/* Waits for parts that others have taken, never for a task that has not begun. */
static inline void kvmill_ffi_phase(const kvmill_ffi_frame *frame, const kvmill_call *call) {
    kvmill_ffi_work *work = kvmill_ffi_share(frame, call);
    if (work == NULL) {
        for (int64_t part = 0; part < kvmill_parts(call); part++)
            kvmill_part(call, part);
        return;
    }
    kvmill_ffi_take_part(work);
    while (__atomic_load_n(&work->done, __ATOMIC_ACQUIRE) < work->parts)
        sched_yield();
    kvmill_ffi_let_go(work);
}

static inline kvmill_status kvmill_ffi_execute(const kvmill_ffi_frame *frame,
                                               const kvmill_plan *plan,
                                               const DLTensor *const *tensors, void *workspace,
                                               kvmill_error *error) {
    kvmill_call call;
    kvmill_status status =
        kvmill_begin(&call, plan, tensors, kvmill_plan_tensor_count(plan), workspace, error);
    if (status != KVMILL_OK)
        return status;
    do
        kvmill_ffi_phase(frame, &call);
    while (kvmill_next(&call));
    return KVMILL_OK;
}

static inline kvmill_status kvmill_ffi_run(kvmill_ffi_op *op, const kvmill_ffi_frame *frame,
                                           kvmill_error *error) {
    DLTensor tensors[KVMILL_FFI_MOST_TENSORS];
    const DLTensor *list[KVMILL_FFI_MOST_TENSORS];
    const kvmill_plan *plan;
    kvmill_status status = kvmill_ffi_plan(op, &plan, error);
    if (status == KVMILL_OK)
        status = kvmill_ffi_tensors(op, frame, tensors, list, error);
    if (status != KVMILL_OK)
        return status;
    kvmill_ffi_settle(op, tensors);
    return kvmill_ffi_execute(frame, plan, list, NULL, error);
}

/* The handler of an op: NULL when all went well, else an error that XLA owns.  Runs on the calling
   thread, and parts of large problems on XLA's; any number of threads may call at a time. */
static inline kvmill_ffi_error *kvmill_ffi_call(kvmill_ffi_op *op, kvmill_ffi_frame *frame) {
    kvmill_error error;
    if (kvmill_ffi_answer(frame) || frame->stage != KVMILL_FFI_EXECUTE)
        return NULL;
    kvmill_status status = kvmill_ffi_run(op, frame, &error);
    return status == KVMILL_OK ? NULL : kvmill_ffi_fail(op->name, frame, status, &error);
}

#ifdef __cplusplus
}
#endif
#endif
