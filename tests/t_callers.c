/* NULL and nonsense from callers: every public function with every pointer NULL in turn, every
   plan's tensors and prototypes bent in ways that no memory could fit; the status that kvmill.h
   promises, and never a signal.

   SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvmill_openmp.h>

#include "callers.h"
#include "described.h"
#include "tap.h"

static struct dice dice;
static char doing[256]; /* for whoever reads of a trap */

/* ---- Plan functions ---- */

static void test_plan_function(const struct plan_function *function) {
    kvmill_plan_options options = {.struct_size = sizeof options, .threads = -1};
    kvmill_plan *plan = NULL;
    kvmill_error error;
    snprintf(doing, sizeof doing, "%s with NULL", function->name);
    ok(function->plan(NULL, NULL, &plan, &error) == KVMILL_E_NULL && plan == NULL &&
           function->plan(function->op, NULL, NULL, &error) == KVMILL_E_NULL &&
           strcmp(error.message, "plan is NULL") == 0 &&
           function->plan(NULL, NULL, NULL, NULL) == KVMILL_E_NULL,
       "%s without an op, a plan, an error", function->name);
    ok(function->plan(function->op, &options, &plan, &error) == KVMILL_E_ATTRIBUTE &&
           strstr(error.message, "options.threads is -1; accepted: 0 to 4096") && plan == NULL,
       "  with -1 threads");
    options.threads = 0;
    options.pack_count = 1;
    ok(function->plan(function->op, &options, &plan, NULL) == KVMILL_E_NULL && plan == NULL,
       "  with packs that are NULL");
    const kvmill_pack *const none[] = {NULL};
    options.packs = none;
    ok(function->plan(function->op, &options, &plan, NULL) == KVMILL_E_NULL && plan == NULL,
       "  with a pack that is NULL");
    ok(function->plan(function->op, NULL, &plan, NULL) == KVMILL_OK && plan != NULL,
       "  with neither options nor an error");
    kvmill_call call;
    ok(kvmill_run(plan, NULL, NULL, NULL) == KVMILL_E_NULL &&
           kvmill_begin(&call, plan, NULL, NULL, NULL) == KVMILL_E_NULL,
       "  and run without tensors");
    kvmill_plan_destroy(plan);
}

/* ---- Structs: each pointer in turn ---- */

static bool is_pointer(enum op_kind kind) {
    return kind == OP_TENSOR || kind == OP_WORD || kind == OP_POINTER || kind == OP_DIMS;
}

/* The items of a list, of which a NULL one may be meant only by a count of 0. */
static void take_pointers(const struct caller *caller) {
    static struct answer answer;
    const struct op_struct *part = caller_part(caller);
    unsigned char *bent = malloc(part->size);
    for (int i = 0; i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        if (!is_pointer(member->kind))
            continue;
        snprintf(doing, sizeof doing, "%s with %s NULL", caller->name, member->name);
        memcpy(bent, caller->good, part->size);
        memset(bent + member->offset, 0, sizeof(void *));
        caller->call(bent, &answer);
        bool may_be = member->kind == OP_WORD || answer.status == KVMILL_OK;
        ok(may_be || (answer.status >= KVMILL_E_NULL && answer.error.message[0] != '\0'), "%s: %s",
           doing, kvmill_status_name(answer.status));
        if (member->kind != OP_DIMS)
            continue;
        memset(bent + member->offset + sizeof(void *), 0xff, sizeof(size_t));
        caller->call(bent, &answer);
        ok(answer.status == KVMILL_E_ATTRIBUTE, "  and a count of SIZE_MAX");
    }
    free(bent);
}

/* ---- Tensors ---- */

struct bend {
    const char *what;
    int ndim; /* KEEP: as it is */
    bool no_shape;
    uint64_t byte_offset;
    int64_t dim, stride;     /* of all axes; 0: as they are */
    DLDataType type;         /* lanes 0: as it is */
    kvmill_status status[3]; /* one of them; 0: there are fewer */
};

enum { KEEP = 12345 };

#define RANK     KVMILL_E_SHAPE
#define OVERFLOW KVMILL_E_OVERFLOW
static const struct bend bends[] = {
    {.what = "rank 2^30", .ndim = 1 << 30, .status = {RANK}},
    {.what = "rank 2^31 - 1", .ndim = INT_MAX, .status = {RANK}},
    {.what = "rank -1", .ndim = -1, .status = {RANK}},
    {.what = "rank -2^31", .ndim = INT_MIN, .status = {RANK}},
    {.what = "rank 2^30 and no shape", .ndim = 1 << 30, .no_shape = true, .status = {RANK}},
    {.what = "no shape", .ndim = KEEP, .no_shape = true, .status = {KVMILL_E_NULL}},
    {.what = "dims of 2^63 - 1", .ndim = KEEP, .dim = INT64_MAX, .status = {RANK, OVERFLOW}},
    {.what = "dims of -2^63", .ndim = KEEP, .dim = INT64_MIN, .status = {RANK}},
    {.what = "dims of -2", .ndim = KEEP, .dim = -2, .status = {RANK}},
    {.what = "strides of 2^63 - 1",
     .ndim = KEEP,
     .stride = INT64_MAX,
     .status = {OVERFLOW, KVMILL_E_STRIDE}},
    {.what = "strides of -2^63",
     .ndim = KEEP,
     .stride = INT64_MIN,
     .status = {OVERFLOW, KVMILL_E_STRIDE}},
    {.what = "a type of 0 lanes and bits",
     .ndim = KEEP,
     .type = {99, 0, 1},
     .status = {KVMILL_E_DTYPE}},
    {.what = "a type of 255 bits",
     .ndim = KEEP,
     .type = {255, 255, 65535},
     .status = {KVMILL_E_DTYPE}},
};

static const struct bend offsets[] = {
    {.what = "byte_offset 2^64 - 1", .ndim = KEEP, .byte_offset = UINT64_MAX, .status = {OVERFLOW}},
    {.what = "byte_offset 2^64 - 64",
     .ndim = KEEP,
     .byte_offset = UINT64_MAX - 63,
     .status = {OVERFLOW}},
    {.what = "byte_offset 2^63",
     .ndim = KEEP,
     .byte_offset = UINT64_C(1) << 63,
     .status = {OVERFLOW}},
};

/* A tensor after a bend, with room for its dims. */
struct bent {
    DLTensor dl;
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
};

static void bend_tensor(const DLTensor *good, const struct bend *bend, struct bent *bent) {
    bent->dl = *good;
    for (int d = 0; d < good->ndim; d++) {
        bent->shape[d] = bend->dim != 0 ? bend->dim : good->shape[d];
        bent->strides[d] = bend->stride;
    }
    bent->dl.shape = bend->no_shape ? NULL : bent->shape;
    bent->dl.strides = bend->stride != 0 ? bent->strides : good->strides;
    if (bend->ndim != KEEP)
        bent->dl.ndim = bend->ndim;
    if (bend->byte_offset != 0)
        bent->dl.byte_offset = bend->byte_offset;
    if (bend->type.lanes != 0)
        bent->dl.dtype = bend->type;
}

static bool is_expected(const struct bend *bend, kvmill_status status) {
    for (int i = 0; i < 3; i++)
        if (bend->status[i] != KVMILL_OK && bend->status[i] == status)
            return true;
    return false;
}

/* Bends that change nothing of a tensor of one element, or of rank 0. */
static bool has_effect(const DLTensor *good, const struct bend *bend) {
    bool long_dim = false;
    for (int d = 0; d < good->ndim; d++)
        long_dim = long_dim || good->shape[d] > 1;
    return (!bend->no_shape || bend->ndim != KEEP || good->ndim > 0) &&
           (bend->dim == 0 || good->ndim > 0) && (bend->stride == 0 || long_dim);
}

/* ---- Runs ---- */

struct counts {
    int tried, wrong;
};

static kvmill_status run(const struct scene *scene, const kvmill_plan *plan, kvmill_error *error) {
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    void *workspace = size > 0 ? aligned_alloc(64, size) : NULL;
    kvmill_status status = kvmill_run(plan, scene->tensors, workspace, error);
    free(workspace);
    return status;
}

static void try_run(struct scene *scene, const kvmill_plan *plan, int at, const struct bend *bend,
                    struct counts *counts) {
    const DLTensor *good = scene->tensors[at];
    struct bent bent;
    kvmill_error error = {""};
    if (!has_effect(good, bend))
        return;
    bend_tensor(good, bend, &bent);
    scene->tensors[at] = &bent.dl;
    snprintf(doing, sizeof doing, "%s, tensor %d with %s", scene->op->name, at, bend->what);
    kvmill_status status = run(scene, plan, &error);
    scene->tensors[at] = good;
    counts->tried++;
    if (is_expected(bend, status) && error.message[0] != '\0')
        return;
    counts->wrong++;
    diag("%s: %s \"%s\"", doing, kvmill_status_name(status), error.message);
}

static bool is_left_alone(const struct scene *scene, int at) {
    const struct op_tensor *tensor = kvmill_op_tensor(scene->op, at);
    return tensor == NULL || kvmill_op_presence(scene->op, &scene->base, tensor) == OP_IGNORED;
}

static void try_runs(struct scene *scene, const kvmill_plan *plan, struct counts *counts) {
    for (int at = 0; at < MOST_TENSORS; at++) {
        if (scene->tensors[at] == NULL || is_left_alone(scene, at))
            continue;
        for (size_t i = 0; i < sizeof bends / sizeof *bends; i++)
            try_run(scene, plan, at, &bends[i], counts);
        for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
            try_run(scene, plan, at, &offsets[i], counts);
    }
}

/* ---- Prototypes ---- */

static void try_prototype(struct scene *scene, const struct op_member *member,
                          const struct bend *bend, struct counts *counts) {
    const DLTensor **at = kvmill_member_at(member, &scene->base), *good = *at;
    struct bent bent;
    kvmill_plan *plan = NULL;
    kvmill_error error = {""};
    bend_tensor(good, bend, &bent);
    *at = &bent.dl;
    snprintf(doing, sizeof doing, "%s, prototype %s with %s", scene->op->name, member->name,
             bend->what);
    kvmill_status status = scene->by->plan(scene, NULL, &plan, &error);
    *at = good;
    counts->tried++;
    bool strides = bend->stride != 0 && status == KVMILL_OK; /* a run looks at them */
    if (!strides && has_effect(good, bend) && !is_expected(bend, status)) {
        counts->wrong++;
        diag("%s: %s \"%s\"", doing, kvmill_status_name(status), error.message);
    }
    kvmill_plan_destroy(plan);
}

static void try_prototypes(struct scene *scene, struct counts *counts) {
    const struct op_struct *part = scene_attributes(scene);
    for (int i = 0; i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        if (member->kind != OP_TENSOR ||
            *(DLTensor *const *)kvmill_member_at(member, &scene->base) == NULL)
            continue;
        for (size_t b = 0; b < sizeof bends / sizeof *bends; b++)
            try_prototype(scene, member, &bends[b], counts);
    }
}

/* ---- Workspaces and calls ---- */

static void test_workspace(const struct scene *scene, const kvmill_plan *plan) {
    static unsigned char byte[128] __attribute__((aligned(64)));
    kvmill_call call;
    bool needed = kvmill_plan_workspace_size(plan) > 0;
    snprintf(doing, sizeof doing, "%s without a workspace", scene->op->name);
    if (needed)
        ok(kvmill_run(plan, scene->tensors, NULL, NULL) == KVMILL_E_WORKSPACE &&
               kvmill_run(plan, scene->tensors, byte + 1, NULL) == KVMILL_E_WORKSPACE,
           "  a workspace that is NULL, or at an odd address");
    memset(&call, 0xaa, sizeof call);
    ok(kvmill_begin(&call, plan, NULL, byte, NULL) != KVMILL_OK && kvmill_parts(&call) == 0 &&
           kvmill_next(&call) == 0,
       "  a call that was refused has no parts");
    kvmill_part(&call, 0);
}

static void test_parts(const struct scene *scene, const kvmill_plan *plan) {
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    void *workspace = size > 0 ? aligned_alloc(64, size) : NULL;
    kvmill_call call;
    snprintf(doing, sizeof doing, "%s in parts that there are not", scene->op->name);
    bool began = kvmill_begin(&call, plan, scene->tensors, workspace, NULL) == KVMILL_OK;
    const int64_t none[] = {-1, INT64_MIN, INT64_MAX, kvmill_parts(&call)};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        kvmill_part(&call, none[i]);
    while (kvmill_next(&call))
        kvmill_part(&call, -1);
    ok(began && kvmill_parts(&call) == 0 && kvmill_next(&call) == 0,
       "  parts that there are not, and a call that has ended");
    kvmill_part(&call, 0);
    free(workspace);
}

/* A call that works, with optional tensors as far as some draw of them goes together. */
static kvmill_plan *open_good(struct scene *scene, const struct op *op,
                              const struct described_case *by) {
    enum { DRAWS = 40 };
    kvmill_error error = {""};
    for (int i = 1; i <= DRAWS; i++) {
        kvmill_plan *plan = NULL;
        scene_start(scene, op, by, &dice);
        described_open(scene, i < DRAWS ? 2 : 0);
        if (by->plan(scene, NULL, &plan, &error) == KVMILL_OK && run(scene, plan, &error) == KVMILL_OK)
            return plan;
        kvmill_plan_destroy(plan);
        described_close(scene);
    }
    bail_out("no call of %s works: %s", op->name, error.message);
}

/* ---- Empty tensors ---- */

static bool is_empty(const DLTensor *tensor) {
    for (int d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] == 0)
            return true;
    return false;
}

/* Nobody steps along the strides of an empty tensor: they may be any. */
static int bend_empty(struct scene *scene) {
    static struct bent bent[MOST_TENSORS];
    int count = 0;
    for (int at = 0; at < MOST_TENSORS; at++) {
        if (scene->tensors[at] == NULL || !is_empty(scene->tensors[at]))
            continue;
        const struct bend bend = {.ndim = KEEP, .stride = at % 2 ? INT64_MIN : INT64_MAX};
        bend_tensor(scene->tensors[at], &bend, &bent[at]);
        scene->tensors[at] = &bent[at].dl;
        count++;
    }
    return count;
}

/* A sanitizer sees what is wrong; most calls are done, the others refused with a reason. */
static void test_empty(struct scene *scene, const struct op *op, const struct described_case *by) {
    enum { CALLS = 60 };
    int done = 0, silent = 0;
    for (int i = 0; i < CALLS; i++) {
        kvmill_plan *plan = NULL;
        kvmill_error error = {""};
        scene_start(scene, op, by, &dice);
        scene->may_be_empty = true;
        described_open(scene, i % 2 ? 2 : 0);
        snprintf(doing, sizeof doing, "%s, empty tensors, call %d", op->name, i);
        kvmill_status status = by->plan(scene, NULL, &plan, &error);
        bool bent = status == KVMILL_OK && bend_empty(scene) > 0;
        if (bent)
            status = run(scene, plan, &error);
        done += bent && status == KVMILL_OK;
        silent += status != KVMILL_OK && error.message[0] == '\0';
        kvmill_plan_destroy(plan);
        described_close(scene);
    }
    ok(done > 0 && silent == 0, "  empty tensors of any strides: %d of %d calls are done", done,
       (int)CALLS);
}

static void test_op(const struct op *op, const struct described_case *by) {
    static struct scene scene;
    struct counts runs = {0}, plans = {0};
    kvmill_plan *plan = open_good(&scene, op, by);
    try_runs(&scene, plan, &runs);
    try_prototypes(&scene, &plans);
    ok(runs.wrong == 0 && plans.wrong == 0 && runs.tried > 0,
       "%s: %d runs with bent tensors, %d plans with bent prototypes", op->name, runs.tried,
       plans.tried);
    test_workspace(&scene, plan);
    test_parts(&scene, plan);
    kvmill_plan_destroy(plan);
    described_close(&scene);
    test_empty(&scene, op, by);
}

static const struct op *op_of(const struct described_case *by) {
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        if (strcmp(kvmill_flow_steps[i].name, by->name) == 0)
            return &kvmill_flow_steps[i];
    return kvmill_op_by_name(by->name);
}

/* ---- Functions that take no struct ---- */

static void no_loop(void *data, int64_t parts, void (*part)(void *, int64_t), void *context) {
    (void)data, (void)parts, (void)part, (void)context;
}

static void test_without_plan(void) {
    const DLTensor *tensors[1] = {NULL};
    kvmill_call call;
    kvmill_error error;
    memset(&call, 0, sizeof call);
    ok(kvmill_plan_workspace_size(NULL) == 0, "kvmill_plan_workspace_size of NULL");
    char text[4] = "abc";
    ok(kvmill_plan_describe(NULL, text, sizeof text) == 0 && text[0] == '\0' &&
           kvmill_plan_describe(NULL, NULL, 0) == 0 && kvmill_plan_describe(NULL, NULL, 9) == 0,
       "kvmill_plan_describe of NULL");
    kvmill_plan_destroy(NULL);
    ok(kvmill_run(NULL, tensors, NULL, &error) == KVMILL_E_NULL &&
           kvmill_run(NULL, NULL, NULL, NULL) == KVMILL_E_NULL,
       "kvmill_run of NULL");
    ok(kvmill_begin(NULL, NULL, NULL, NULL, &error) == KVMILL_E_NULL &&
           kvmill_begin(&call, NULL, tensors, NULL, NULL) == KVMILL_E_NULL,
       "kvmill_begin of NULL");
    ok(kvmill_parts(NULL) == 0 && kvmill_parts(&call) == 0, "kvmill_parts of NULL and of zeros");
    kvmill_part(NULL, 0);
    kvmill_part(&call, 0);
    ok(kvmill_next(NULL) == 0 && kvmill_next(&call) == 0, "kvmill_next and kvmill_part likewise");
    ok(kvmill_run_parallel(NULL, tensors, NULL, no_loop, NULL, NULL) == KVMILL_E_NULL &&
           kvmill_run_parallel(NULL, tensors, NULL, NULL, NULL, &error) == KVMILL_E_NULL,
       "kvmill_run_parallel of NULL");
    ok(kvmill_run_openmp(NULL, tensors, NULL, 1, NULL) == KVMILL_E_NULL &&
           kvmill_run_openmp(NULL, tensors, NULL, -1, &error) == KVMILL_E_ATTRIBUTE,
       "kvmill_run_openmp of NULL, and with -1 threads");
}

static void test_names(void) {
    ok(kvmill_version()[0] != '\0', "kvmill_version");
    ok(kvmill_status_name((kvmill_status)INT_MIN) != NULL &&
           kvmill_status_name((kvmill_status)INT_MAX) != NULL,
       "kvmill_status_name of any number");
    ok(kvmill_isa_name(SIZE_MAX) == NULL, "kvmill_isa_name far beyond the last");
    ok(!kvmill_isa_usable(NULL) && !kvmill_isa_usable("") && !kvmill_isa_usable("\x1b[31m"),
       "kvmill_isa_usable of NULL and of no name");
}

static void test_merge(void) {
    float one[2] = {3, 4}, lse[1] = {0}, out[2] = {5, 6}, out_lse[1] = {7};
    const float *outputs[] = {one}, *lses[] = {lse}, *none[] = {NULL};
    ok(kvmill_merge_partials(1, NULL, lses, 1, 2, out, out_lse) == KVMILL_E_NULL &&
           kvmill_merge_partials(1, outputs, NULL, 1, 2, out, out_lse) == KVMILL_E_NULL &&
           kvmill_merge_partials(1, none, lses, 1, 2, out, out_lse) == KVMILL_E_NULL &&
           kvmill_merge_partials(1, outputs, none, 1, 2, out, out_lse) == KVMILL_E_NULL &&
           kvmill_merge_partials(1, outputs, lses, 1, 2, NULL, out_lse) == KVMILL_E_NULL &&
           kvmill_merge_partials(1, outputs, lses, 1, 2, out, NULL) == KVMILL_E_NULL,
       "kvmill_merge_partials of NULL");
    ok(kvmill_merge_partials(-1, outputs, lses, 1, 2, out, out_lse) == KVMILL_E_SHAPE &&
           kvmill_merge_partials(1, outputs, lses, -1, 2, out, out_lse) == KVMILL_E_SHAPE &&
           kvmill_merge_partials(1, outputs, lses, 1, INT64_MIN, out, out_lse) == KVMILL_E_SHAPE &&
           kvmill_merge_partials(1, outputs, lses, INT64_MAX, INT64_MAX, out, out_lse) ==
               KVMILL_E_OVERFLOW,
       "  of numbers that cannot be");
    ok(out[0] == 5 && out[1] == 6 && out_lse[0] == 7, "  which write nothing");
    ok(kvmill_merge_partials(0, NULL, NULL, 0, 0, NULL, NULL) == KVMILL_OK &&
           kvmill_merge_partials(1, outputs, lses, 1, 2, out, out_lse) == KVMILL_OK &&
           out[0] == 3 && out[1] == 4,
       "  of nothing, and of something");
}

int main(void) {
    dice = dice_for(dice_seed(), "callers");
    fence_explain_traps(doing);
    callers_open();
    for (int i = 0; i < PLAN_FUNCTIONS; i++)
        test_plan_function(&plan_functions[i]);
    for (const struct caller *caller = callers; caller->name != NULL; caller++)
        take_pointers(caller);
    for (const struct described_case *by = described_cases; by->name != NULL; by++)
        test_op(op_of(by), by);
    test_without_plan();
    test_names();
    test_merge();
    return done_testing();
}
