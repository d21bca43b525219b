/* What every op promises by its description: legal calls run, or are refused with a name in the
   message.  Attributes outside their ranges and tensors that do not fit the description are
   refused, and nothing is written.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "common.h"
#include "described.h"

enum { DRAWS = 150, ROUNDS = 6, DRAWS_OF_TENSORS = 40 };

static const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 1};

DICE("described");
static char doing[256]; /* printed if a trap ends the test */

/* Counts of the calls of an op, and of the wrong results. */
struct counts {
    int accepted, refused, ranges, faults, surplus, prototypes, wrong;
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

/* Whether the message begins with the name, after words that the validator may put before it. */
static bool is_about(const char *message, const char *name) {
    static const char *const before[] = {"attention: ",     "the data of ",  "the last dim of ",
                                         "the strides of ", "the shape of ", "the byte_offset of "};
    int length = 0;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp(message, before[i], strlen(before[i])) == 0)
            message += strlen(before[i]);
    sscanf(message, "dim %*d of %n", &length);
    message += length;
    return strncmp(message, name, strlen(name)) == 0 && !is_letter(message[strlen(name)]);
}

/* ---- Legal calls ---- */

static void draw_one(struct scene *scene, struct counts *counts) {
    OWN_PLAN kvmill_plan *plan = NULL;
    kvmill_error error;
    kvmill_status status = scene->by->plan(scene, &options, &plan, &error);
    if (status == KVMILL_OK)
        status = scene_run(scene, plan, &error);
    bool named = status == KVMILL_OK || names_tensor(scene, error.message) ||
                 names_member(scene->op, error.message) ||
                 names_member(scene->attributes, error.message);
    if (!named || !scene_is_intact(scene))
        wrong(counts, "a legal call", scene->op->name, status, &error);
    *(status == KVMILL_OK ? &counts->accepted : &counts->refused) += 1;
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
    OWN_PLAN kvmill_plan *plan = NULL;
    kvmill_error error;
    const struct op_member *member = kvmill_op_member(scene_attributes(scene), range->name);
    int64_t before = kvmill_member_value(member, &scene->base);
    scene_set_integer(member, &scene->base, value);
    kvmill_status status = scene->by->plan(scene, &options, &plan, &error);
    if (status != KVMILL_E_ATTRIBUTE || !is_about(error.message, range->name))
        wrong(counts, range->name, scene->op->name, status, &error);
    scene_set_integer(member, &scene->base, before);
    counts->ranges++;
}

static void set_condition(struct scene *scene, const struct op_condition *condition) {
    for (int i = 0; i < OP_CONDITIONS && condition->names[i] != NULL; i++) {
        bool zero = condition->names[i][0] == '!';
        scene_set_integer(kvmill_op_member(scene_attributes(scene), condition->names[i] + zero),
                          &scene->base, !zero);
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

/* ---- Tensors that do not fit the description ---- */

struct bend {
    char words[40];          /* of tests/settings.h */
    kvmill_status status[2]; /* either is right; 0: any */
    bool any;                /* the message may be about another tensor of the call */
    bool of_runs;            /* plans do not check it */
};

static struct bend bends[32];
static size_t bend_count;

/* WORDS STATUS OR-STATUS WHAT-ELSE */
static void add_bend(char *const *cells) {
    struct bend *bend = &bends[bend_count++];
    must(bend_count <= COUNT(bends), "too many bends");
    snprintf(bend->words, sizeof bend->words, "%s", cells[0]);
    bend->status[0] = status_named(cells[1]);
    bend->status[1] = *cells[2] != '\0' ? status_named(cells[2]) : KVMILL_OK;
    bend->any = strstr(cells[3], "any tensor") != NULL;
    bend->of_runs = strstr(cells[3], "runs") != NULL;
}

static const struct bend absence = {"NULL", {KVMILL_E_NULL}, false, false},
                         extent = {"an extent less", {KVMILL_OK}, false, false},
                         first_extent = {"a first extent less", {KVMILL_OK}, true, false},
                         surplus = {"too many", {KVMILL_E_SHAPE}, false, false};

/* A tensor of a call that is changed or taken away. */
struct bending {
    struct scene *scene;
    const kvmill_plan *plan;
    const struct op_tensor *tensor;
    struct bent bent;
};

static void bend_by(struct bent *bent, const DLTensor *good, const char *words) {
    bent_from(bent, good);
    for (struct setting setting; setting_next(&words, &setting);)
        must(bent_by(bent, setting.name, setting.value), setting.name);
}

/* Whether a change has an effect: some have none for a tensor of one element or of rank 0. */
static bool has_effect(const DLTensor *good, const char *words) {
    bool needs_rank = strncmp(words, "dims", 4) == 0 || strcmp(words, "no-shape") == 0;
    bool needs_elements = strncmp(words, "stride", 6) == 0;
    return (!needs_rank || good->ndim > 0) && (!needs_elements || tensor_count(good) > 1);
}

static bool is_expected(const struct bend *bend, kvmill_status status) {
    bool any = bend->status[0] == KVMILL_OK;
    return status != KVMILL_OK && (any || status == bend->status[0] || status == bend->status[1]);
}

/* Expects a refusal, and that no byte has changed. */
static void expect_refusal(struct bending *bent, const DLTensor *given, const struct bend *bend,
                           struct counts *counts) {
    struct scene *scene = bent->scene;
    const char *name = bent->tensor->name;
    const DLTensor *before = scene->tensors[bent->tensor->index];
    uint64_t sum = scene_hash(scene);
    kvmill_error error;
    snprintf(doing, sizeof doing, "%s, %s with %s", scene->op->name, name, bend->words);
    scene->tensors[bent->tensor->index] = given;
    kvmill_status status = scene_run(scene, bent->plan, &error);
    scene->tensors[bent->tensor->index] = before;
    counts->faults++;
    bool told = is_expected(bend, status) &&
                (bend->any ? names_tensor(scene, error.message) : is_about(error.message, name));
    if (!told || scene_hash(scene) != sum)
        wrong(counts, doing, scene->op->name, status, &error);
}

/* Whether attributes determine a dim. */
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

/* Whether no other tensor of the call shares the first dim of a shape, so that any extent fits. */
static bool is_alone(const struct bending *bent, const char *shape) {
    char word[16];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(shape, " "), shape);
    for (int i = 0; i < bent->scene->op->tensor_count; i++) {
        const struct op_tensor *other = &bent->scene->op->tensors[i];
        const char *dims = scene_shape(bent->scene, other);
        if (other != bent->tensor && bent->scene->tensors[other->index] != NULL && dims != NULL &&
            strstr(dims, word) != NULL)
            return false;
    }
    return true;
}

/* Shortens dims by one: those that attributes determine, and a first dim that several tensors
   share, because then some of them do not fit. */
static void bend_extents(struct bending *bent, struct counts *counts) {
    const char *shape = scene_shape(bent->scene, bent->tensor);
    const DLTensor *good = bent->scene->tensors[bent->tensor->index];
    for (int d = 0; d < good->ndim; d++) {
        bool shared = !is_of_attributes(bent->scene, shape, d);
        bent_from(&bent->bent, good);
        if (--bent->bent.shape[d] == 0 ||
            (shared && (d > 0 || described_tensor(bent->scene, bent->tensor)->loose ||
                        is_alone(bent, shape))))
            continue;
        expect_refusal(bent, &bent->bent.dl, shared ? &first_extent : &extent, counts);
    }
}

/* Whether every run needs the output because the plan knows it. */
static bool is_demanded(const struct bending *bent) {
    const struct op *op = bent->scene->op;
    const struct op_member *planned = kvmill_op_member(op->parts[0], bent->tensor->name);
    return (bent->tensor->optional & kvmill_op_bit(op)) == 0 ||
           (planned != NULL && planned->kind == OP_TENSOR);
}

static void bend_tensor(struct bending *bent, bool required, struct counts *counts) {
    const DLTensor *good = bent->scene->tensors[bent->tensor->index];
    for (size_t i = 0; i < bend_count; i++) {
        bend_by(&bent->bent, good, bends[i].words);
        if (has_effect(good, bends[i].words))
            expect_refusal(bent, &bent->bent.dl, &bends[i], counts);
    }
    if (required && is_demanded(bent))
        expect_refusal(bent, NULL, &absence, counts);
    if (required)
        bend_extents(bent, counts);
}

static void give_surplus(struct bending *bent, struct counts *counts) {
    static int64_t shape[] = {2};
    static double data[2];
    const DLTensor more = dense_tensor(scene_type(bent->scene, bent->tensor), 1, shape, data);
    expect_refusal(bent, &more, &surplus, counts);
    counts->surplus++;
}

static void bend_tensors(struct scene *scene, const kvmill_plan *plan, struct counts *counts) {
    for (int i = 0; i < scene->op->tensor_count; i++) {
        struct bending bent = {.scene = scene, .plan = plan, .tensor = &scene->op->tensors[i]};
        enum op_presence presence = kvmill_op_presence(scene->op, &scene->base, bent.tensor);
        bool required = presence == OP_REQUIRED || bent.tensor->optional != 0;
        if (bent.tensor->index >= scene->by->count)
            continue;
        if (presence == OP_ABSENT)
            give_surplus(&bent, counts);
        else if (scene->tensors[bent.tensor->index] != NULL && presence != OP_IGNORED)
            bend_tensor(&bent, required, counts);
        else if (presence == OP_REQUIRED)
            bail_out("%s: nobody says the shape of %s", scene->op->name, bent.tensor->name);
    }
}

/* ---- Prototypes ---- */

static void bend_prototype(struct scene *scene, const struct op_member *member,
                           const struct bend *bend, struct counts *counts) {
    const DLTensor **at = kvmill_member_at(member, &scene->base), *good = *at;
    struct bent bent;
    OWN_PLAN kvmill_plan *plan = NULL;
    kvmill_error error = {""};
    bend_by(&bent, good, bend->words);
    *at = &bent.dl;
    snprintf(doing, sizeof doing, "%s, prototype %s with %s", scene->op->name, member->name,
             bend->words);
    kvmill_status status = scene->by->plan(scene, NULL, &plan, &error);
    *at = good;
    counts->prototypes++;
    bool strides = strncmp(bend->words, "stride", 6) == 0 && status == KVMILL_OK; /* a run's */
    if (!strides && !is_expected(bend, status))
        wrong(counts, doing, scene->op->name, status, &error);
}

/* Changes prototypes in turn.  Only a run checks data, devices and offsets. */
static void bend_prototypes(struct scene *scene, struct counts *counts) {
    const struct op_struct *part = scene_attributes(scene);
    for (int i = 0; i < part->member_count; i++) {
        const struct op_member *member = &part->members[i];
        const DLTensor *good = member->kind == OP_TENSOR
                                   ? *(DLTensor *const *)kvmill_member_at(member, &scene->base)
                                   : NULL;
        for (size_t b = 0; good != NULL && b < bend_count; b++)
            if (!bends[b].of_runs && has_effect(good, bends[b].words))
                bend_prototype(scene, member, &bends[b], counts);
    }
}

/* ---- Workspaces and calls ---- */

static unsigned char byte[128] __attribute__((aligned(64))); /* of a workspace that is not used */

/* A workspace of which the size is said must have what the plan needs, also if that is nothing. */
static void test_workspace_size(const struct scene *scene, const kvmill_plan *plan) {
    kvmill_call call;
    size_t count = kvmill_plan_tensor_count(plan), size = kvmill_plan_workspace_size(plan);
    size_t room = (size + 63) / 64 * 64;
    FREED void *workspace = size > 0 ? aligned_alloc(64, room) : NULL;
    kvmill_error error = {""};
    char words[96];
    bool good = true;
    snprintf(words, sizeof words, "workspace_size is %zu; accepted: %zu or more", size - 1, size);
    if (size > 0)
        good =
            kvmill_begin_sized(&call, plan, scene->tensors, count, workspace, size - 1, &error) ==
                KVMILL_E_WORKSPACE &&
            strstr(error.message, words) == error.message && kvmill_parts(&call) == 0 &&
            kvmill_run_sized(plan, scene->tensors, count, workspace, 0, NULL) == KVMILL_E_WORKSPACE;
    good = good && kvmill_begin_sized(&call, plan, scene->tensors, count, workspace, size,
                                      &error) == KVMILL_OK;
    ok(good, "  a workspace of %zu bytes, and a smaller one: %s", size, error.message);
}

static void test_workspace(const struct scene *scene, const kvmill_plan *plan) {
    kvmill_call call;
    size_t count = kvmill_plan_tensor_count(plan);
    if (kvmill_plan_workspace_size(plan) > 0)
        ok(kvmill_run(plan, scene->tensors, count, NULL, NULL) == KVMILL_E_WORKSPACE &&
               kvmill_run(plan, scene->tensors, count, byte + 1, NULL) == KVMILL_E_WORKSPACE,
           "  a workspace that is NULL, or at an odd address");
    test_workspace_size(scene, plan);
    memset(&call, 0xaa, sizeof call);
    ok(kvmill_begin(&call, plan, NULL, count, byte, NULL) != KVMILL_OK &&
           kvmill_parts(&call) == 0 && kvmill_next(&call) == 0,
       "  a call that was refused has no parts");
    kvmill_part(&call, 0);
}

static void test_count(const struct scene *scene, const kvmill_plan *plan) {
    size_t count = kvmill_plan_tensor_count(plan);
    const size_t wrong[] = {0, count - 1, count + 1, SIZE_MAX};
    kvmill_error error;
    kvmill_call call;
    bool good = count == (size_t)scene->by->count;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char words[96];
        snprintf(words, sizeof words, "tensor_count is %zu; accepted: %zu", wrong[i], count);
        good = good &&
               kvmill_begin(&call, plan, scene->tensors, wrong[i], byte, &error) ==
                   KVMILL_E_ATTRIBUTE &&
               strcmp(error.message, words) == 0 && kvmill_parts(&call) == 0;
    }
    ok(good, "  as many tensors as the plan says, no fewer and no more");
}

static void test_parts(const struct scene *scene, const kvmill_plan *plan) {
    size_t size = (kvmill_plan_workspace_size(plan) + 63) / 64 * 64;
    FREED void *workspace = size > 0 ? aligned_alloc(64, size) : NULL;
    kvmill_call call;
    bool began = kvmill_begin(&call, plan, scene->tensors, kvmill_plan_tensor_count(plan),
                              workspace, NULL) == KVMILL_OK;
    const int64_t none[] = {-1, INT64_MIN, INT64_MAX, kvmill_parts(&call)};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        kvmill_part(&call, none[i]);
    while (kvmill_next(&call))
        kvmill_part(&call, -1);
    ok(began && kvmill_parts(&call) == 0 && kvmill_next(&call) == 0,
       "  parts that there are not, and a call that has ended");
    kvmill_part(&call, 0);
}

/* Opens a valid call, with a random set of optional tensors that are allowed together. */
static kvmill_plan *open_good(struct scene *scene, const struct op *op,
                              const struct described_case *by) {
    kvmill_error error = {""};
    for (int i = 1; i <= DRAWS_OF_TENSORS; i++) {
        kvmill_plan *plan = NULL;
        scene_start(scene, op, by, &dice);
        described_open(scene, i < DRAWS_OF_TENSORS ? 2 : 0);
        if (by->plan(scene, &options, &plan, &error) == KVMILL_OK &&
            scene_run(scene, plan, &error) == KVMILL_OK)
            return plan;
        kvmill_plan_destroy(plan);
        described_close(scene);
    }
    bail_out("no call of %s works: %s", op->name, error.message);
}

static void test_tensors(const struct op *op, const struct described_case *by,
                         struct counts *counts) {
    static struct scene scene;
    for (int i = 0; i < (is_slow_run() ? few_cases(2) : ROUNDS); i++) {
        OWN_PLAN kvmill_plan *plan = open_good(&scene, op, by);
        bend_tensors(&scene, plan, counts);
        if (i == 0) {
            bend_prototypes(&scene, counts);
            test_workspace(&scene, plan);
            test_count(&scene, plan);
            test_parts(&scene, plan);
        }
        described_close(&scene);
    }
}

/* ---- All ops ---- */

static void test_op(const struct op *op) {
    const struct described_case *by = described_case_of(op);
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
       "%s: %d calls accepted and %d refused by name, %d values outside ranges, %d tensors and %d "
       "prototypes bent, %d too many",
       op->name, counts.accepted, counts.refused, counts.ranges, counts.faults - counts.surplus,
       counts.prototypes, counts.surplus);
}

/* Whether the description has words; an op whose shapes follow from attributes alone has none. */
static bool has_words(const struct op *op) {
    for (int i = 0; i < op->tensor_count; i++)
        if (op->tensors[i].shape != NULL)
            return true;
    return false;
}

TEST(ops) {
    fence_explain_traps(doing);
    each_row("bends", 4, add_bend);
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family != OP_FLOW && has_words(kvmill_ops[i]))
            test_op(kvmill_ops[i]);
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        test_op(&kvmill_flow_steps[i]);
}
