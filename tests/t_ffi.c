/* Handlers for XLA's FFI, called as XLA calls them, with frames made here.

   SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include <kvmill_ffi.h>

#include "common.h"

/* The handlers of configs/specs/handlers.json. */
typedef kvmill_ffi_error *handler(kvmill_ffi_frame *frame);
handler kvmill_handlers_ffi_lookup, kvmill_handlers_ffi_filled, kvmill_handlers_ffi_windows,
    kvmill_handlers_ffi_elements, kvmill_handlers_ffi_pair, kvmill_handlers_ffi_promoted,
    kvmill_handlers_ffi_nothing, kvmill_handlers_ffi_7;

/* Numbers of XLA's types, as its interface has them. */
enum { S8 = 2, S16 = 3, S32 = 4, S64 = 5, U8 = 6, F16 = 10, F32 = 11, C128 = 18, S4 = 21 };

/* ---- XLA's side ---- */

struct kvmill_ffi_error {
    char message[512];
    int code;
};
static _Thread_local struct kvmill_ffi_error last_error;

static kvmill_ffi_error *create_error(kvmill_ffi_error_args *args) {
    snprintf(last_error.message, sizeof last_error.message, "%s", args->message);
    last_error.code = args->struct_size >= 28 ? args->code : -1;
    return &last_error;
}

static void destroy_error(kvmill_ffi_destroy_args *args) {
    args->error->code = 0;
}

/* The interface of early versions, without threads. */
static const kvmill_ffi_api api = {.struct_size = 88, .error_create = create_error};

enum { MOST = 12 };

struct call {
    kvmill_ffi_buffer buffers[MOST];
    int64_t dims[MOST][3];
    void *arguments[MOST], *results[MOST];
    int32_t types[MOST];
    kvmill_ffi_frame frame;
};
static struct call call; /* the call of most tests */

static void begin(struct call *call) {
    memset(call, 0, sizeof *call);
    for (int i = 0; i < MOST; i++)
        call->types[i] = KVMILL_FFI_BUFFER;
    call->frame = (kvmill_ffi_frame){
        .struct_size = sizeof call->frame,
        .api = &api,
        .stage = KVMILL_FFI_EXECUTE,
        .arguments = {.types = call->types, .items = call->arguments},
        .results = {.types = call->types, .items = call->results},
    };
}

static int32_t type_of(const char *word) {
    static const char *const words[] = {"S8", "S32", "S64", "U8", "F16", "F32", "C128"};
    static const int32_t types[] = {S8, S32, S64, U8, F16, F32, C128};
    for (size_t i = 0; i < COUNT(types); i++)
        if (strcmp(words[i], word) == 0)
            return types[i];
    bail_out("no type %s", word);
}

static void add_buffer(struct call *call, const char *type, int rank, bool is_result, void *data) {
    kvmill_ffi_list *list = is_result ? &call->frame.results : &call->frame.arguments;
    int64_t at = call->frame.arguments.size + call->frame.results.size;
    call->buffers[at] = (kvmill_ffi_buffer){.struct_size = sizeof call->buffers[at],
                                            .dtype = type_of(type),
                                            .data = data,
                                            .rank = rank,
                                            .dims = call->dims[at]};
    (is_result ? call->results : call->arguments)[list->size++] = &call->buffers[at];
}

/* Makes a call from words, "F32[6,4] S32[3,1] -> F32[3,4]", and the data of each buffer. */
static void make_call(struct call *call, const char *words, void *const *data) {
    char type[8];
    bool is_result = false;
    begin(call);
    for (int n = 0, length; sscanf(words, " %7[A-Z0-9][%n", type, &length) == 1; n++) {
        int64_t *dims = call->dims[n];
        int rank = sscanf(words += length, "%" SCNd64 ",%" SCNd64, &dims[0], &dims[1]);
        add_buffer(call, type, rank > 0 ? rank : 0, is_result, data[n]);
        words = strchr(words, ']') + 1;
        is_result |= strncmp(words, " ->", 3) == 0;
        words += strncmp(words, " ->", 3) == 0 ? 3 : 0;
    }
}

static bool succeeds(handler *run) {
    kvmill_ffi_error *error = run(&call.frame);
    if (error != NULL)
        diag("%s", error->message);
    return error == NULL;
}

/* ---- Metadata ---- */

TEST(metadata) {
    kvmill_ffi_metadata metadata = {.struct_size = sizeof metadata, .traits = 77};
    kvmill_ffi_metadata_extension asked = {.base = {.type = KVMILL_FFI_METADATA},
                                           .metadata = &metadata};
    kvmill_ffi_extension other = {.struct_size = sizeof other, .type = 900, .next = &asked.base};
    kvmill_ffi_frame frame = {.struct_size = sizeof frame, .extensions = &other};
    metadata.version.major_version = metadata.version.minor_version = 99;
    ok(kvmill_handlers_ffi_lookup(&frame) == NULL && metadata.version.major_version == 0 &&
           metadata.version.minor_version == 1 && metadata.traits == 0,
       "metadata: version 0.1, no traits, after an extension of another kind");
}

/* Offsets and sizes that XLA has on 64-bit targets. */
TEST(layout) {
    ok(sizeof(kvmill_ffi_buffer) == 48 && offsetof(kvmill_ffi_buffer, dtype) == 16 &&
           offsetof(kvmill_ffi_buffer, data) == 24 && offsetof(kvmill_ffi_buffer, rank) == 32 &&
           offsetof(kvmill_ffi_buffer, dims) == 40,
       "a buffer");
    ok(sizeof(kvmill_ffi_list) == 40 && sizeof(kvmill_ffi_attributes) == 48 &&
           offsetof(kvmill_ffi_list, types) == 24 && offsetof(kvmill_ffi_list, items) == 32,
       "lists of arguments and results");
    ok(sizeof(kvmill_ffi_frame) == 176 && offsetof(kvmill_ffi_frame, extensions) == 8 &&
           offsetof(kvmill_ffi_frame, api) == 16 && offsetof(kvmill_ffi_frame, stage) == 32 &&
           offsetof(kvmill_ffi_frame, arguments) == 40 &&
           offsetof(kvmill_ffi_frame, results) == 80 &&
           offsetof(kvmill_ffi_frame, attributes) == 120,
       "a frame");
    ok(offsetof(kvmill_ffi_metadata, version) == 8 && offsetof(kvmill_ffi_metadata, traits) == 32 &&
           offsetof(kvmill_ffi_metadata_extension, metadata) == 24 &&
           offsetof(kvmill_ffi_version, major_version) == 16 &&
           offsetof(kvmill_ffi_version, minor_version) == 20,
       "metadata");
    ok(offsetof(kvmill_ffi_api, error_create) == 48 && sizeof(kvmill_ffi_error_args) == 32 &&
           offsetof(kvmill_ffi_error_args, message) == 16 &&
           offsetof(kvmill_ffi_error_args, code) == 24,
       "errors");
    ok(offsetof(kvmill_ffi_api, error_destroy) == 64 && offsetof(kvmill_ffi_api, schedule) == 136 &&
           sizeof(kvmill_ffi_schedule_args) == 40 &&
           offsetof(kvmill_ffi_schedule_args, context) == 16 &&
           offsetof(kvmill_ffi_schedule_args, task) == 24 &&
           offsetof(kvmill_ffi_schedule_args, data) == 32,
       "tasks, and nothing after them");
}

/* ---- Calls of handlers ---- */

enum { MOST_BYTES = 128 };

static void put_numbers(int32_t xla_type, unsigned char *to, const char *cell) {
    double numbers[MOST_BYTES];
    DLDataType type;
    must(kvmill_ffi_dtype(xla_type, &type), cell);
    type = type.code == kDLComplex ? f64 : type; /* two numbers each */
    int64_t count = numbers_in(cell, 10, numbers, MOST_BYTES * 8 / type.bits);
    for (int64_t i = 0; i < count; i++)
        number_put(type, to + i * type.bits / 8, numbers[i]);
}

/* NAME HANDLER CALL, and the numbers of each buffer; for a result, the expected numbers, and "@N"
   before them if it is in the memory of argument N. */
ROWS(call, 4) {
    static const char *const names[] = {"lookup", "filled",   "windows", "elements",
                                        "pair",   "promoted", "nothing", "7"};
    static handler *const handlers[] = {kvmill_handlers_ffi_lookup,  kvmill_handlers_ffi_filled,
                                        kvmill_handlers_ffi_windows, kvmill_handlers_ffi_elements,
                                        kvmill_handlers_ffi_pair,    kvmill_handlers_ffi_promoted,
                                        kvmill_handlers_ffi_nothing, kvmill_handlers_ffi_7};
    _Alignas(16) unsigned char memory[MOST][MOST_BYTES] = {{0}};
    unsigned char wanted[MOST][MOST_BYTES] = {{0}};
    void *data[MOST];
    char *const *cell = cells + 3;
    int place[MOST];
    for (int n = 0; cell[n] != NULL; n++) {
        place[n] = cell[n][0] == '@' ? atoi(cell[n] + 1) : n;
        data[n] = cell[n][0] != '\0' ? memory[place[n]] : NULL;
    }
    make_call(&call, cells[2], data);
    for (int n = 0; cell[n] != NULL; n++) {
        const char *numbers = cell[n] + (cell[n][0] == '@' ? 2 : 0);
        put_numbers(call.buffers[n].dtype, wanted[place[n]], numbers);
        if (n < call.frame.arguments.size)
            put_numbers(call.buffers[n].dtype, memory[n], numbers);
    }
    ok(succeeds(handlers[place_of(cells[1], names, COUNT(names))]) &&
           memcmp(memory, wanted, sizeof memory) == 0,
       "%s", cells[0]);
}

TABLE(ffi);

/* ---- Errors ---- */

#define AT(PLACE) &call.PLACE, sizeof call.PLACE

/* Each row changes the value at one place of a valid call. */
static const struct {
    void *place;
    size_t size;
    int64_t value;
    const char *words;
} refusals[] = {
    {AT(frame.arguments.size), 1, "number of arguments: 1; accepted: 2"},
    {AT(frame.arguments.size), 3, "number of arguments: 3; accepted: 2"},
    {AT(frame.results.size), 0, "number of results: 0; accepted: 1"},
    {AT(frame.attributes.size), 2, "number of attributes: 2; accepted: 0"},
    {AT(types[1]), 2, "argument 1 is of kind 2; accepted: a buffer"},
    {AT(buffers[0].dtype), F16, "operand has type f16; accepted: f32"},
    {AT(buffers[1].dtype), S64, "start_indices has type i64; accepted: i32"},
    {AT(buffers[2].dtype), S4,
     "result 0 has XLA's element type number 21; accepted: types of 8 bits and more"},
    {AT(buffers[0].rank), 1, "operand has shape [6]; accepted: [6, 4]"},
    {AT(buffers[1].rank), 1000, "argument 1 has rank 1000; accepted: 0 to 32"},
    {AT(buffers[1].rank), -1, "argument 1 has rank -1; accepted: 0 to 32"},
    {AT(dims[1][0]), 4, "start_indices has shape [4, 1]; accepted: [3, 1]"},
    {AT(dims[2][1]), 5, "result has shape [3, 5]; accepted: [3, 4]"},
    {AT(buffers[0].data), 0, "the data of operand is NULL"},
};

static float table[6][4], rows[3][4];
static int32_t row_indices[3] = {5, -1, 2};

static void begin_lookup(void) {
    memset(rows, 0x7f, sizeof rows);
    make_call(&call, "F32[6,4] S32[3,1] -> F32[3,4]", (void *[]){table, row_indices, rows});
}

static bool rows_are_untouched(void) {
    unsigned char bytes[sizeof rows];
    memset(bytes, 0x7f, sizeof bytes);
    return memcmp(bytes, rows, sizeof rows) == 0;
}

TEST(refusals) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        begin_lookup();
        memcpy(refusals[i].place, &refusals[i].value, refusals[i].size);
        kvmill_ffi_error *error = kvmill_handlers_ffi_lookup(&call.frame);
        const char *said = error != NULL ? error->message : "no error";
        if (!ok(error != NULL && error->code == KVMILL_FFI_INVALID_ARGUMENT &&
                    strstr(said, refusals[i].words) != NULL &&
                    strncmp(said, "kvmill_handlers_ffi_lookup: ", 28) == 0 && rows_are_untouched(),
                "refused, and nothing was written: %s", refusals[i].words))
            diag("%s", said);
    }
}

TEST(stages) {
    for (int stage = 0; stage < KVMILL_FFI_EXECUTE; stage++) {
        begin_lookup();
        call.frame.stage = stage;
        ok(kvmill_handlers_ffi_lookup(&call.frame) == NULL && rows_are_untouched(),
           "nothing is done at stage %d", stage);
    }
}

static kvmill_status make_none(kvmill_plan **plan, kvmill_error *error) {
    *plan = NULL;
    snprintf(error->message, sizeof error->message, "out of memory");
    return KVMILL_E_MEMORY;
}

TEST(failing_plan) {
    kvmill_ffi_op op = {
        .name = "op", .arguments = 2, .results = 1, .results_at = 2, .make = make_none};
    begin_lookup();
    kvmill_ffi_error *error = kvmill_ffi_call(&op, &call.frame);
    ok(error != NULL && error->code == KVMILL_FFI_RESOURCE_EXHAUSTED &&
           strcmp(error->message, "op: out of memory") == 0 && op.plan == NULL,
       "a plan that cannot be made");
}

/* ---- Threads ---- */

enum { THREADS = 8, ROUNDS = 50 };
static int plans_made;

static kvmill_status make_counted(kvmill_plan **plan, kvmill_error *error) {
    __atomic_fetch_add(&plans_made, 1, __ATOMIC_RELAXED);
    return plan_rows(i32, 4, 1, 1, plan, error);
}

static kvmill_ffi_op shared_op = {
    .name = "shared", .arguments = 2, .results = 1, .results_at = 2, .make = make_counted};

static int good_calls;

static void call_often(void *context, int64_t thread) {
    int32_t numbers[4] = {0, 10, 20, 30}, index = (int32_t)thread % 4, found = 0;
    struct call call;
    (void)context;
    for (int i = 0; i < ROUNDS; i++) {
        make_call(&call, "S32[4,1] S32[1,1] -> S32[1,1]", (void *[]){numbers, &index, &found});
        if (kvmill_ffi_call(&shared_op, &call.frame) == NULL && found == 10 * index)
            __atomic_fetch_add(&good_calls, 1, __ATOMIC_RELAXED);
    }
}

TEST(threads) {
    crew_share(THREADS, THREADS, call_often, NULL);
    ok(good_calls == THREADS * ROUNDS && plans_made >= 1 && plans_made <= THREADS,
       "%d threads, %d plans made at the beginning, one kept", THREADS, plans_made);
    kvmill_plan_destroy(shared_op.plan);
}

/* ---- XLA's threads: a large gather; tasks run at once, on threads, later or never ---- */

enum { ROWS = 256, COLUMNS = 4096, MOST_TASKS = 1024 };

static kvmill_ffi_schedule_args tasks[MOST_TASKS];
static pthread_t task_threads[MOST_TASKS];
static int task_count;

static void *run_task(void *task) {
    const kvmill_ffi_schedule_args *args = task;
    args->task(args->data);
    return NULL;
}

static kvmill_ffi_error *schedule_now(kvmill_ffi_schedule_args *args) {
    task_count++;
    run_task(args);
    return NULL;
}

static kvmill_ffi_error *schedule_later(kvmill_ffi_schedule_args *args) {
    tasks[task_count++] = *args;
    return NULL;
}

static kvmill_ffi_error *schedule_on_thread(kvmill_ffi_schedule_args *args) {
    tasks[task_count] = *args;
    must(pthread_create(&task_threads[task_count], NULL, run_task, &tasks[task_count]) == 0,
         "cannot create a thread");
    task_count++;
    return NULL;
}

static kvmill_ffi_error *schedule_never(kvmill_ffi_schedule_args *args) {
    (void)args;
    task_count++;
    last_error.code = 12;
    return &last_error;
}

static kvmill_status make_large(kvmill_plan **plan, kvmill_error *error) {
    return plan_rows(i32, ROWS, COLUMNS, ROWS, plan, error);
}

static int32_t from[ROWS][COLUMNS], to[ROWS][COLUMNS], backwards[ROWS];

static void begin_large(const kvmill_ffi_api *with) {
    for (int r = 0; r < ROWS; r++) {
        backwards[r] = ROWS - 1 - r;
        for (int c = 0; c < COLUMNS; c++)
            from[r][c] = r * COLUMNS + c;
    }
    memset(to, 0, sizeof to);
    make_call(&call, "S32[256,4096] S32[256,1] -> S32[256,4096]", (void *[]){from, backwards, to});
    call.frame.api = with;
}

static bool is_backwards(void) {
    bool right = true;
    for (int r = 0; r < ROWS; r++)
        right = right && memcmp(to[r], from[ROWS - 1 - r], sizeof to[r]) == 0;
    return right;
}

static void check_scheduler(const char *name,
                            kvmill_ffi_error *(*schedule)(kvmill_ffi_schedule_args *args)) {
    kvmill_ffi_op op = {
        .name = "large", .arguments = 2, .results = 1, .results_at = 2, .make = make_large};
    kvmill_ffi_api with = api;
    with.struct_size = sizeof with;
    with.schedule = schedule;
    with.error_destroy = destroy_error;
    task_count = 0;
    begin_large(&with);
    bool right = kvmill_ffi_call(&op, &call.frame) == NULL && is_backwards();
    ok(right, "%d tasks, %s", task_count, name);
    for (int i = 0; i < task_count && schedule == schedule_on_thread; i++)
        pthread_join(task_threads[i], NULL);
    for (int i = 0; i < task_count && schedule == schedule_later; i++)
        run_task(&tasks[i]);
    ok(is_backwards() && task_count < MOST_TASKS &&
           (task_count > 0 || sysconf(_SC_NPROCESSORS_ONLN) == 1),
       "and afterwards");
    kvmill_plan_destroy(op.plan);
}

TEST(schedulers) {
    check_scheduler("at once", schedule_now);
    check_scheduler("on threads", schedule_on_thread);
    check_scheduler("later", schedule_later);
    check_scheduler("never", schedule_never);
    ok(last_error.code == 0, "the errors are destroyed");
}
