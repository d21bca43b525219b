/* NULL and invalid arguments: every public function with every pointer NULL in turn.  Structs of
   older and newer programs, for every function that takes one: a missing member has its default, an
   unknown one must be zeros; nothing beyond struct_size is read or written.

   SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include <kvmill_openmp.h>

#include "callers.h"
#include "common.h"

DICE("callers");
static char doing[256]; /* printed if a trap ends the test */
static kvmill_error error;

/* ---- Plan functions ---- */

static void test_plan_function(const struct caller *caller) {
    kvmill_plan_options options = {.struct_size = sizeof options, .threads = -1};
    OWN_PLAN kvmill_plan *plan = NULL;
    snprintf(doing, sizeof doing, "%s with NULL", caller->name);
    ok(caller->plan(NULL, NULL, &plan, &error) == KVMILL_E_NULL && plan == NULL &&
           caller->plan(caller->good, NULL, NULL, &error) == KVMILL_E_NULL &&
           strcmp(error.message, "plan is NULL") == 0 &&
           caller->plan(NULL, NULL, NULL, NULL) == KVMILL_E_NULL,
       "%s without an op, a plan, an error", caller->name);
    ok(caller->plan(caller->good, &options, &plan, &error) == KVMILL_E_ATTRIBUTE &&
           strstr(error.message, "options.threads is -1; accepted: 0 to 4096") && plan == NULL,
       "  with -1 threads");
    options.threads = 0;
    options.pack_count = 1;
    ok(caller->plan(caller->good, &options, &plan, NULL) == KVMILL_E_NULL && plan == NULL,
       "  with packs that are NULL");
    const kvmill_pack *const none[] = {NULL};
    options.packs = none;
    ok(caller->plan(caller->good, &options, &plan, NULL) == KVMILL_E_NULL && plan == NULL,
       "  with a pack that is NULL");
    options = (kvmill_plan_options){.struct_size = sizeof options, .least_isa = "scalar"};
    ok(caller->plan(caller->good, &options, &plan, &error) == KVMILL_E_KERNEL && plan == NULL &&
           strstr(error.message, "; options.least_isa is scalar; `kvmill generate` makes one; "),
       "  without packs, where portable kernels will not do: %s", error.message);
    options.portable = 1;
    ok(caller->plan(caller->good, &options, &plan, NULL) == KVMILL_E_ATTRIBUTE && plan == NULL,
       "  nor are asked for");
    options.least_isa = "sse9";
    ok(caller->plan(caller->good, &options, &plan, NULL) == KVMILL_E_ISA && plan == NULL,
       "  with an unknown least instruction set");
    ok(caller->plan(caller->good, NULL, &plan, NULL) == KVMILL_OK && plan != NULL,
       "  with neither options nor an error");
    kvmill_call call;
    ok(kvmill_run(plan, NULL, 0, NULL, NULL) == KVMILL_E_NULL &&
           kvmill_begin(&call, plan, NULL, 0, NULL, NULL) == KVMILL_E_NULL,
       "  and run without tensors");
}

/* ---- Structs: each pointer in turn ---- */

static struct answer ask(const struct caller *caller, const void *given) {
    struct answer answer;
    memset(&answer, 0, sizeof answer);
    caller->call(given, &answer);
    return answer;
}

static bool is_pointer(enum op_kind kind) {
    return kind == OP_TENSOR || kind == OP_WORD || kind == OP_POINTER || kind == OP_DIMS;
}

/* Sets each pointer of the struct to NULL in turn; NULL items of a list must have a count of 0. */
static void take_pointers(const struct caller *caller) {
    const struct op_struct *part = caller_part(caller);
    FREED unsigned char *bent = malloc(part->size);
    for (int i = 0; i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        if (!is_pointer(member->kind))
            continue;
        snprintf(doing, sizeof doing, "%s with %s NULL", caller->name, member->name);
        memcpy(bent, caller->good, part->size);
        memset(bent + member->offset, 0, sizeof(void *));
        struct answer answer = ask(caller, bent);
        bool may_be = member->kind == OP_WORD || answer.status == KVMILL_OK;
        ok(may_be || (answer.status >= KVMILL_E_NULL && answer.error.message[0] != '\0'), "%s: %s",
           doing, kvmill_status_name(answer.status));
        if (member->kind != OP_DIMS)
            continue;
        memset(bent + member->offset + sizeof(void *), 0xff, sizeof(size_t));
        answer = ask(caller, bent);
        ok(answer.status == KVMILL_E_ATTRIBUTE, "  and a count of SIZE_MAX");
    }
}

/* ---- Structs of older and of newer programs ---- */

enum { WORD = sizeof(size_t), MORE = 64, MOST = 4096 };

static bool is_same(const struct answer *a, const struct answer *b) {
    return a->status == b->status && strcmp(a->error.message, b->error.message) == 0 &&
           strcmp(a->text, b->text) == 0;
}

static void tell(const struct answer *answer) {
    diag("  %s \"%s\" \"%s\"", kvmill_status_name(answer->status), answer->error.message,
         answer->text);
}

/* ---- Calls with structs that end where memory ends ---- */

static void set_size(unsigned char *at, size_t size) {
    memcpy(at, &size, sizeof size);
}

/* Calls with `size` bytes of the good struct, zeros after them except byte `odd`, and `told` as
   struct_size. */
static struct answer call_with(const struct caller *caller, size_t size, size_t told, size_t odd) {
    OWN(fence_close) struct fence fence;
    size_t known = caller_part(caller)->size;
    fence_open(&fence, size, 0, FENCE_ABOVE, &dice);
    memset(fence.data, 0, size);
    memcpy(fence.data, caller->good, size < known ? size : known);
    set_size(fence.data, told);
    if (odd != 0)
        fence.data[odd] = 1;
    return ask(caller, fence.data);
}

/* Calls with the good struct and defaults from `size` on, as an older program means it. */
static struct answer call_with_defaults(const struct caller *caller, size_t size) {
    size_t known = caller_part(caller)->size;
    FREED unsigned char *whole = calloc(1, known);
    caller->init(whole, known);
    memcpy(whole + WORD, (const unsigned char *)caller->good + WORD, size - WORD);
    return ask(caller, whole);
}

/* ---- Older ---- */

static int count_older(const struct caller *caller) {
    int wrong = 0;
    for (size_t size = WORD; size <= caller_part(caller)->size; size += WORD) {
        struct answer have = call_with(caller, size, size, 0);
        struct answer want = call_with_defaults(caller, size);
        if (caller->is_result)
            memcpy(have.text, want.text, sizeof have.text);
        if (is_same(&have, &want))
            continue;
        wrong++;
        diag("%zu bytes:", size);
        tell(&have);
        tell(&want);
    }
    return wrong;
}

/* ---- Newer ---- */

static bool refuses_newer(const struct caller *caller, size_t size, size_t odd) {
    char words[160];
    const struct answer answer = call_with(caller, size, size, odd);
    snprintf(words, sizeof words,
             "%s.struct_size is %zu, and byte %zu is not 0; libkvmill %s knows", caller->what, size,
             odd, KVMILL_VERSION);
    bool good = answer.status == KVMILL_E_VERSION && strstr(answer.error.message, words) != NULL;
    if (!good)
        tell(&answer);
    return good;
}

static bool takes_newer(const struct caller *caller) {
    size_t known = caller_part(caller)->size;
    const struct answer want = call_with(caller, known, known, 0);
    bool good = want.status == KVMILL_OK;
    if (!good)
        tell(&want);
    for (size_t size = known + WORD; good && size <= known + MORE; size += WORD) {
        const struct answer have = call_with(caller, size, size, 0);
        good = is_same(&have, &want);
        if (!caller->is_result)
            good =
                good && refuses_newer(caller, size, known) && refuses_newer(caller, size, size - 1);
    }
    return good;
}

/* ---- Invalid sizes ---- */

static bool refuses_sizes(const struct caller *caller) {
    const size_t sizes[] = {0,        1,           WORD - 1, WORD + 1,
                            WORD + 4, MOST + WORD, SIZE_MAX, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char words[96];
        const struct answer answer = call_with(caller, WORD, sizes[i], 0);
        snprintf(words, sizeof words, "%s.struct_size is %zu; accepted: sizeof (%s), which is %zu",
                 caller->what, sizes[i], caller_part(caller)->name, caller_part(caller)->size);
        if (answer.status != KVMILL_E_ATTRIBUTE ||
            strncmp(answer.error.message, words, strlen(words)) != 0) {
            tell(&answer);
            return false;
        }
    }
    return true;
}

static bool takes_null(const struct caller *caller) {
    const struct answer answer = ask(caller, NULL);
    kvmill_status wanted = caller->may_be_null ? KVMILL_OK : KVMILL_E_NULL;
    if (answer.status != wanted)
        tell(&answer);
    return answer.status == wanted;
}

/* ---- Init functions ---- */

static bool is_set(const struct caller *caller, size_t size) {
    OWN(fence_close) struct fence fence;
    size_t known = caller_part(caller)->size;
    FREED unsigned char *want = calloc(1, known + MORE);
    kvmill_op_init(caller_part(caller), want);
    set_size(want, size);
    fence_open(&fence, size, 0, FENCE_ABOVE, &dice);
    caller->init(fence.data, size);
    int64_t where;
    return memcmp(fence.data, want, size) == 0 && fence_is_intact(&fence, &where);
}

static bool sets_defaults(const struct caller *caller) {
    size_t none[2] = {77, 77};
    bool good = true;
    for (size_t size = WORD; size <= caller_part(caller)->size + MORE; size += WORD)
        good = good && is_set(caller, size);
    caller->init(NULL, caller_part(caller)->size);
    caller->init(none, 0);
    caller->init(none, WORD + 1);
    caller->init(none, SIZE_MAX);
    return good && none[0] == 77 && none[1] == 77;
}

/* A layout has as many members as the caller has room for. */
TEST(layout) {
    kvmill_flow_layout whole = {.struct_size = sizeof whole};
    struct {
        size_t struct_size;
        int64_t page_size, after;
    } small = {2 * WORD, 0, 77};
    ok(kvmill_flow_describe(&callers_flow, &whole, &error) == KVMILL_OK && whole.page_size == 4 &&
           whole.page_bytes > 0 && whole.struct_size == sizeof whole,
       "a layout is filled");
    ok(kvmill_flow_describe(&callers_flow, (kvmill_flow_layout *)(void *)&small, &error) ==
               KVMILL_OK &&
           small.struct_size == 2 * WORD && small.page_size == 4 && small.after == 77,
       "of an older program's as much as it has");
}

/* ---- Functions that take no struct ---- */

static void no_loop(void *data, int64_t parts, void (*part)(void *, int64_t), void *context) {
    (void)data, (void)parts, (void)part, (void)context;
}

TEST(without_plan) {
    const DLTensor *tensors[1] = {NULL};
    kvmill_call call;
    memset(&call, 0, sizeof call);
    ok(kvmill_plan_workspace_size(NULL) == 0 && kvmill_plan_tensor_count(NULL) == 0,
       "kvmill_plan_workspace_size and kvmill_plan_tensor_count of NULL");
    char text[4] = "abc";
    ok(kvmill_plan_describe(NULL, text, sizeof text) == 0 && text[0] == '\0' &&
           kvmill_plan_describe(NULL, NULL, 0) == 0 && kvmill_plan_describe(NULL, NULL, 9) == 0,
       "kvmill_plan_describe of NULL");
    kvmill_plan_destroy(NULL);
    ok(kvmill_run(NULL, tensors, 1, NULL, &error) == KVMILL_E_NULL &&
           kvmill_run(NULL, NULL, 0, NULL, NULL) == KVMILL_E_NULL,
       "kvmill_run of NULL");
    ok(kvmill_begin(NULL, NULL, NULL, 0, NULL, &error) == KVMILL_E_NULL &&
           kvmill_begin(&call, NULL, tensors, 1, NULL, NULL) == KVMILL_E_NULL,
       "kvmill_begin of NULL");
    ok(kvmill_run_sized(NULL, tensors, 1, NULL, 0, &error) == KVMILL_E_NULL &&
           kvmill_begin_sized(NULL, NULL, NULL, 0, NULL, 0, &error) == KVMILL_E_NULL &&
           kvmill_begin_sized(&call, NULL, tensors, 1, NULL, SIZE_MAX, NULL) == KVMILL_E_NULL,
       "kvmill_run_sized and kvmill_begin_sized of NULL");
    ok(kvmill_parts(NULL) == 0 && kvmill_parts(&call) == 0, "kvmill_parts of NULL and of zeros");
    kvmill_part(NULL, 0);
    kvmill_part(&call, 0);
    ok(kvmill_next(NULL) == 0 && kvmill_next(&call) == 0,
       "kvmill_part of NULL and of zeros, and kvmill_next");
    ok(kvmill_run_parallel(NULL, tensors, 1, NULL, no_loop, NULL, NULL) == KVMILL_E_NULL &&
           kvmill_run_parallel(NULL, tensors, 1, NULL, NULL, NULL, &error) == KVMILL_E_NULL,
       "kvmill_run_parallel of NULL");
    ok(kvmill_run_openmp(NULL, tensors, 1, NULL, 1, NULL) == KVMILL_E_NULL &&
           kvmill_run_openmp(NULL, tensors, 1, NULL, 0, NULL) == KVMILL_E_ATTRIBUTE,
       "kvmill_run_openmp of NULL");
    for (int i = 0; i < 3; i++) {
        const int threads[] = {0, -1, INT_MIN};
        char words[64];
        snprintf(words, sizeof words, "threads is %d; accepted: 1 or more", threads[i]);
        ok_status(kvmill_run_openmp(NULL, tensors, 1, NULL, threads[i], &error), KVMILL_E_ATTRIBUTE,
                  &error, words, "  with %d threads", threads[i]);
    }
}

TEST(without_pool) {
    const DLTensor *tensors[1] = {NULL};
    ok(kvmill_pool_threads(NULL) == 0, "kvmill_pool_threads of NULL");
    kvmill_pool_destroy(NULL);
    ok_status(kvmill_pool_create(2, NULL, NULL, &error), KVMILL_E_NULL, &error, "pool is NULL",
              "kvmill_pool_create of NULL");
    ok_status(kvmill_run_on(NULL, NULL, tensors, 1, NULL, &error), KVMILL_E_NULL, &error,
              "pool is NULL", "kvmill_run_on of NULL");
    ok(kvmill_run_on(NULL, NULL, NULL, 0, NULL, NULL) == KVMILL_E_NULL, "  without an error");
    kvmill_pool_for(NULL, 0, NULL, NULL);
}

TEST(names) {
    ok(kvmill_version()[0] != '\0', "kvmill_version");
    ok(kvmill_status_name((kvmill_status)INT_MIN) != NULL &&
           kvmill_status_name((kvmill_status)INT_MAX) != NULL,
       "kvmill_status_name of any number");
    ok(kvmill_calibrated(NULL) == 0 && kvmill_calibrated("\x1b[31m") == 0,
       "kvmill_calibrated of NULL and of no name");
    ok(kvmill_isa_name(SIZE_MAX) == NULL, "kvmill_isa_name far beyond the last");
    ok(!kvmill_isa_usable(NULL) && !kvmill_isa_usable("") && !kvmill_isa_usable("\x1b[31m"),
       "kvmill_isa_usable of NULL and of no name");
}

TEST(merge) {
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

static void test_struct(const struct caller *caller) {
    snprintf(doing, sizeof doing, "structs of %s", caller->name);
    ok(count_older(caller) == 0, "%s: older structs have defaults for what they lack",
       caller->name);
    ok(takes_newer(caller), "  newer ones may add zeros alone");
    ok(refuses_sizes(caller), "  sizes of no struct are refused");
    ok(takes_null(caller), "  NULL %s", caller->may_be_null ? "is accepted" : "is refused");
    ok(sets_defaults(caller), "  the init function sets what there is room for");
    take_pointers(caller);
}

void before_tests(void) {
    fence_explain_traps(doing);
    callers_open();
}

TEST(structs) {
    for (const struct caller *caller = callers; caller->name != NULL; caller++) {
        if (caller->plan != NULL)
            test_plan_function(caller);
        test_struct(caller);
    }
}
