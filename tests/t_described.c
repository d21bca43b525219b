/* What every op promises, by its description: legal calls run or are refused by a name; attributes
   outside their ranges and tensors that are not as described are refused, and nothing is written.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "described.h"
#include "tap.h"

enum { DRAWS = 150, ROUNDS = 6 };

static const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 1};

static struct dice dice;

/* What was done with an op, and how much of it went wrong. */
struct counts {
    int accepted, refused, ranges, faults, surplus, wrong;
};

static void wrong(struct counts *counts, const char *what, const char *name, kvmill_status status,
                  const kvmill_error *error) {
    counts->wrong++;
    diag("%s of %s: %s: \"%s\"", what, name, kvmill_status_name(status),
         status == KVMILL_OK ? "" : error->message);
}

/* ---- Names in messages ---- */

static bool is_letter(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[length]))
            return true;
    return false;
}

static bool names_tensor(const struct scene *scene, const char *message) {
    for (int i = 0; i < scene->op->tensor_count; i++)
        if (has_word(message, scene->op->tensors[i].name))
            return true;
    return false;
}

static bool names_member(const struct op *op, const char *message) {
    for (int p = 0; p < OP_PARTS && op->parts[p] != NULL; p++)
        for (int i = 0; i < op->parts[p]->member_count; i++)
            if (has_word(message, op->parts[p]->members[i].name))
                return true;
    return false;
}

/* After the words of the validator that may come before a name. */
static bool is_about(const char *message, const char *name) {
    static const char *const before[] = {"attention: ", "the data of ", "the last dim of ",
                                         "the strides of "};
    int length = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp(message, before[i], strlen(before[i])) == 0)
            message += strlen(before[i]);
    sscanf(message, "dim %*d of %n", &length);
    message += length;
    return strncmp(message, name, strlen(name)) == 0 && !is_letter(message[strlen(name)]);
}

/* ---- Runs ---- */

static kvmill_status run(const struct scene *scene, const kvmill_plan *plan,
                         const DLTensor *const *tensors, kvmill_error *error) {
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    void *workspace = size > 0 ? aligned_alloc(64, size) : NULL;
    if (size > 0 && workspace == NULL)
        bail_out("no memory for the workspace of %s", scene->op->name);
    kvmill_status status = kvmill_run(plan, tensors, workspace, error);
    free(workspace);
    return status;
}

/* Of all bytes of all tensors. */
static uint64_t sum_of(const struct scene *scene) {
    uint64_t sum = 0;
    for (int i = 0; i < MOST_TENSORS; i++)
        for (size_t at = 0; at < scene->memory[i].fence.size; at++)
            sum = (sum ^ scene->memory[i].fence.data[at]) * 1099511628211u;
    return sum;
}

static bool are_fences_intact(const struct scene *scene) {
    int64_t where;
    for (int i = 0; i < MOST_TENSORS; i++)
        if (scene->memory[i].fence.pages != NULL &&
            !fence_is_intact(&scene->memory[i].fence, &where))
            return false;
    return true;
}

/* ---- Legal calls ---- */

static void draw_one(struct scene *scene, struct counts *counts) {
    kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_status status = scene->by->plan(scene, &options, &plan, &error);
    if (status == KVMILL_OK)
        status = run(scene, plan, scene->tensors, &error);
    bool named = status == KVMILL_OK || names_tensor(scene, error.message) ||
                 names_member(scene->op, error.message) ||
                 names_member(scene->attributes, error.message);
    if (!named || !are_fences_intact(scene))
        wrong(counts, "a legal call", scene->op->name, status, &error);
    *(status == KVMILL_OK ? &counts->accepted : &counts->refused) += 1;
    kvmill_plan_destroy(plan);
}

static void test_draws(const struct op *op, const struct described_case *by,
                       struct counts *counts) {
    static struct scene scene;
    for (int i = 0; i < (is_slow_run() ? DRAWS / 10 : DRAWS); i++) {
        scene_start(&scene, op, by, &dice);
        scene_draw_members(&scene);
        described_open(&scene, 12);
        draw_one(&scene, counts);
        described_close(&scene);
    }
}

/* ---- Ranges ---- */

static void expect_range(struct scene *scene, const struct op_range *range, int64_t value,
                         struct counts *counts) {
    kvmill_plan *plan = NULL;
    kvmill_error error;
    const struct op_member *member = kvmill_op_member(scene_attributes(scene), range->name);
    int64_t before = kvmill_member_value(member, &scene->base);
    scene_set_integer(member, &scene->base, value);
    kvmill_status status = scene->by->plan(scene, &options, &plan, &error);
    if (status != KVMILL_E_ATTRIBUTE || !is_about(error.message, range->name))
        wrong(counts, range->name, scene->op->name, status, &error);
    scene_set_integer(member, &scene->base, before);
    kvmill_plan_destroy(plan);
    counts->ranges++;
}

static void set_condition(struct scene *scene, const struct op_condition *condition) {
    for (int i = 0; i < OP_CONDITIONS && condition->names[i] != NULL; i++) {
        bool zero = condition->names[i][0] == '!';
        scene_set_integer(
            kvmill_op_member(scene_attributes(scene), condition->names[i] + zero), &scene->base,
            !zero);
    }
}

static void test_ranges(const struct op *op, const struct described_case *by,
                        struct counts *counts) {
    static struct scene scene;
    scene_start(&scene, op, by, &dice);
    for (int i = 0; i < scene_attributes(&scene)->range_count; i++) {
        const struct op_range *range = &scene_attributes(&scene)->ranges[i];
        scene_start(&scene, op, by, &dice);
        if (!by->attributes)
            set_condition(&scene, &range->when);
        if (!scene_range_holds(&scene, range))
            continue;
        described_open(&scene, 0);
        expect_range(&scene, range, range->least - 1, counts);
        if (scene_range_most(&scene, range) < INT64_MAX)
            expect_range(&scene, range, scene_range_most(&scene, range) + 1, counts);
        described_close(&scene);
    }
}

/* ---- Tensors that are not as described ---- */

/* A tensor of a call that somebody bent, or took away. */
struct bent {
    struct scene *scene;
    const kvmill_plan *plan;
    const struct op_tensor *tensor;
    DLTensor dl;
    int64_t shape[MOST_DIMS];
};

/* Refused, and no byte is another; the message is about the tensor, or where `any` about one of the
   call. */
static void expect_refusal(struct bent *bent, const DLTensor *given, const char *what, bool any,
                           struct counts *counts) {
    struct scene *scene = bent->scene;
    const DLTensor *before = scene->tensors[bent->tensor->index];
    uint64_t sum = sum_of(scene);
    kvmill_error error;
    scene->tensors[bent->tensor->index] = given;
    kvmill_status status = run(scene, bent->plan, scene->tensors, &error);
    scene->tensors[bent->tensor->index] = before;
    counts->faults++;
    if (status == KVMILL_OK ||
        !(any ? names_tensor(scene, error.message) : is_about(error.message, bent->tensor->name)) ||
        sum_of(scene) != sum) {
        diag("%s", what);
        wrong(counts, bent->tensor->name, scene->op->name, status, &error);
    }
}

static void bend(struct bent *bent) {
    const DLTensor *dl = bent->scene->tensors[bent->tensor->index];
    bent->dl = *dl;
    memcpy(bent->shape, dl->shape, (size_t)dl->ndim * sizeof *bent->shape);
    bent->dl.shape = bent->shape;
    bent->dl.strides = NULL;
}

/* Whether a dim is one that attributes say. */
static bool is_of_attributes(const struct scene *scene, const char *shape, int d) {
    char word[32];
    for (; d > 0; d--)
        shape += strcspn(shape, " "), shape += strspn(shape, " ");
    for (; *shape != '\0' && *shape != ' '; shape++) {
        size_t length = strspn(shape, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (length == 0)
            continue;
        snprintf(word, sizeof word, "%.*s", (int)length, shape);
        if (has_word(scene->by->call_words, word))
            return false;
        shape += length - 1;
    }
    return true;
}

/* One element less of what attributes say. */
static void bend_extents(struct bent *bent, struct counts *counts) {
    const char *shape = scene_shape(bent->scene, bent->tensor);
    for (int d = 0; d < bent->scene->tensors[bent->tensor->index]->ndim; d++) {
        bend(bent);
        if (--bent->shape[d] > 0 && is_of_attributes(bent->scene, shape, d))
            expect_refusal(bent, &bent->dl, "an extent", false, counts);
    }
}

/* A dim that the tensors of a call share: some of them do not fit then. */
static void bend_call(struct bent *bent, struct counts *counts) {
    const char *shape = scene_shape(bent->scene, bent->tensor);
    bend(bent);
    if (bent->dl.ndim == 0 || bent->shape[0] < 2 || is_of_attributes(bent->scene, shape, 0) ||
        described_tensor(bent->scene, bent->tensor)->loose)
        return;
    bent->shape[0]--;
    expect_refusal(bent, &bent->dl, "the first extent", true, counts);
}

/* A plan that knows of an output has it in every run. */
static bool is_demanded(const struct bent *bent) {
    const struct op *op = bent->scene->op;
    const struct op_member *planned = kvmill_op_member(op->parts[0], bent->tensor->name);
    return (bent->tensor->optional & kvmill_op_bit(op)) == 0 ||
           (planned != NULL && planned->kind == OP_TENSOR);
}

static void bend_tensor(struct bent *bent, struct counts *counts) {
    static const DLDataType wide = {kDLFloat, 64, 1};
    if (is_demanded(bent))
        expect_refusal(bent, NULL, "NULL", false, counts);
    bend(bent);
    bent->dl.dtype = wide;
    expect_refusal(bent, &bent->dl, "a type", false, counts);
    bend(bent);
    bent->shape[bent->dl.ndim++] = 1;
    expect_refusal(bent, &bent->dl, "a dim more", false, counts);
    bend(bent);
    bent->dl.data = NULL;
    expect_refusal(bent, &bent->dl, "no data", false, counts);
    bend(bent);
    bent->dl.device.device_type = kDLCUDA;
    expect_refusal(bent, &bent->dl, "a device", false, counts);
    bend_extents(bent, counts);
    bend_call(bent, counts);
}

static void give_surplus(struct bent *bent, struct counts *counts) {
    static int64_t shape[] = {2};
    static double data[2];
    const DLTensor surplus = {.data = data,
                              .device = {kDLCPU, 0},
                              .ndim = 1,
                              .dtype = scene_type(bent->scene, bent->tensor),
                              .shape = shape};
    expect_refusal(bent, &surplus, "a tensor too many", false, counts);
    counts->surplus++;
}

static void bend_tensors(struct scene *scene, const kvmill_plan *plan, struct counts *counts) {
    for (int i = 0; i < scene->op->tensor_count; i++) {
        struct bent bent = {.scene = scene, .plan = plan, .tensor = &scene->op->tensors[i]};
        enum op_presence presence = kvmill_op_presence(scene->op, &scene->base, bent.tensor);
        if (bent.tensor->index >= scene->by->count)
            continue;
        if (presence == OP_ABSENT)
            give_surplus(&bent, counts);
        else if (scene->tensors[bent.tensor->index] != NULL &&
                 (presence == OP_REQUIRED || bent.tensor->optional != 0))
            bend_tensor(&bent, counts);
        else if (presence == OP_REQUIRED)
            bail_out("%s: nobody says the shape of %s", scene->op->name, bent.tensor->name);
    }
}

static void test_tensors(const struct op *op, const struct described_case *by,
                         struct counts *counts) {
    static struct scene scene;
    for (int i = 0; i < (is_slow_run() ? 1 : ROUNDS); i++) {
        kvmill_plan *plan = NULL;
        kvmill_error error;
        scene_start(&scene, op, by, &dice);
        described_open(&scene, 0);
        kvmill_status status = by->plan(&scene, &options, &plan, &error);
        if (status == KVMILL_OK)
            status = run(&scene, plan, scene.tensors, &error);
        if (status != KVMILL_OK)
            wrong(counts, "the plainest call", op->name, status, &error);
        else
            bend_tensors(&scene, plan, counts);
        kvmill_plan_destroy(plan);
        described_close(&scene);
    }
}

/* ---- All ops ---- */

static const struct described_case *case_of(const struct op *op) {
    const struct described_case *by = described_cases;
    while (by->name != NULL && strcmp(by->name, op->name) != 0)
        by++;
    return by->name != NULL ? by : NULL;
}

static void test_op(const struct op *op) {
    const struct described_case *by = case_of(op);
    struct counts counts = {0};
    if (!ok(by != NULL, "%s has a case", op->name))
        return;
    test_draws(op, by, &counts);
    test_ranges(op, by, &counts);
    test_tensors(op, by, &counts);
    bool has_ranges =
        kvmill_op_by_name(by->attributes ? by->attributes : op->name)->parts[0]->range_count > 0;
    ok(counts.wrong == 0 && counts.accepted > 0 && counts.faults > 0 &&
           (counts.ranges > 0) == has_ranges,
       "%s: %d calls accepted and %d refused by name, %d values outside ranges, %d tensors bent, "
       "%d "
       "too many",
       op->name, counts.accepted, counts.refused, counts.ranges, counts.faults - counts.surplus,
       counts.surplus);
}

/* Of ops whose shapes follow from attributes alone, descriptions have no words. */
static bool has_words(const struct op *op) {
    for (int i = 0; i < op->tensor_count; i++)
        if (op->tensors[i].shape != NULL)
            return true;
    return false;
}

int main(void) {
    dice = dice_for(dice_seed(), "described");
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family != OP_FLOW && has_words(kvmill_ops[i]))
            test_op(kvmill_ops[i]);
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        test_op(&kvmill_flow_steps[i]);
    return done_testing();
}
