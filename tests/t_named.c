/* Plans by name: each op's plan is the one that its own function makes, for attributes and tensors
   that its description allows.  Also refusals of names and values.

   SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "../defs/dtype.h"
#include "common.h"
#include "described.h"

enum { DRAWS = 60, MOST_ATTRIBUTES = 64 };

static const kvmill_plan_options options = {.struct_size = sizeof options, .threads = 1};

DICE("named");
static char doing[256]; /* printed if a trap ends the test */
static kvmill_error error;
static kvmill_named_tensor_place place;

/* An op as names and values. */
struct named {
    kvmill_named_attribute attributes[MOST_ATTRIBUTES];
    kvmill_named_tensor tensors[MOST_TENSORS];
    size_t attribute_count, tensor_count;
    bool differs; /* it has a type of 0, which has no name */
};

/* ---- The scene's op ---- */

static bool is_told(const struct scene *scene, const struct op_member *member) {
    if (strncmp(member->name, "value_", 6) == 0)
        return false;
    for (int i = 0; i < scene->op->tensor_count; i++) {
        const struct op_tensor *tensor = &scene->op->tensors[i];
        if (scene->tensors[tensor->index] != NULL && tensor->type != NULL &&
            (tensor->in & kvmill_op_bit(scene->op)) && strcmp(tensor->type, member->name) == 0)
            return true;
    }
    return false;
}

/* Whether a flag says that the member is used. */
static bool is_with(const struct op_struct *part, const struct op_member *member,
                    const void *base) {
    return member->with != NULL &&
           kvmill_member_value(kvmill_op_member(part, member->with), base) != 0;
}

/* Whether the member must be named.  A type that a tensor has is named only sometimes. */
static bool is_named(struct scene *scene, const struct op_struct *part,
                     const struct op_member *member, const void *base) {
    if ((member->ops & kvmill_op_bit(scene->op)) == 0 || member->kind == OP_TENSOR ||
        kvmill_member_is_default(member, base))
        return false;
    if (member->with != NULL && !is_with(part, member, base))
        return false;
    return member->kind != OP_TYPE || !is_told(scene, member) || dice_once_in(&dice, 2);
}

static void name_member(struct named *named, const struct op_member *member, const void *base) {
    const void *at = kvmill_member_of(member, base);
    kvmill_named_attribute *attribute = &named->attributes[named->attribute_count++];
    *attribute = (kvmill_named_attribute){.name = member->name};
    if (member->kind == OP_TYPE)
        attribute->word = kvmill_dtype_name(*(const DLDataType *)at);
    else if (member->kind == OP_WORD)
        attribute->word = *(const char *const *)at;
    else if (member->kind != OP_REAL)
        attribute->integer = kvmill_member_value(member, base);
    else {
        attribute->real = *(const double *)at;
        attribute->is_real = 1;
    }
}

static void name_all(struct scene *scene, struct named *named) {
    *named = (struct named){.differs = false};
    for (int p = 0; p < OP_PARTS && scene->op->parts[p] != NULL; p++) {
        const struct op_struct *part = scene->op->parts[p];
        const void *base = p == 0 ? (const void *)&scene->base : &scene->step;
        for (int i = 0; part->name != NULL && i < part->member_count; i++) {
            const struct op_member *member = &part->members[i];
            if (is_named(scene, part, member, base))
                name_member(named, member, base);
            named->differs |= member->kind == OP_TYPE && kvmill_member_is_zero(member, base) &&
                              (is_told(scene, member) || is_with(part, member, base));
        }
    }
    for (int i = 0; i < scene->op->tensor_count; i++) {
        const struct op_tensor *tensor = &scene->op->tensors[i];
        if (scene->tensors[tensor->index] != NULL)
            named->tensors[named->tensor_count++] =
                (kvmill_named_tensor){tensor->name, scene->tensors[tensor->index]};
    }
}

/* ---- The same plan ---- */

static bool is_same(const struct scene *scene, const struct named *named, int *made) {
    char own[4096], by_name[4096];
    OWN_PLAN kvmill_plan *plan, *other;
    kvmill_error error = {""}, refused = {""};
    kvmill_status status = scene->by->plan(scene, &options, &plan, &error);
    kvmill_status answer =
        kvmill_plan_named(scene->op->name, named->attributes, named->attribute_count,
                          named->tensors, named->tensor_count, &options, &other, &refused);
    kvmill_plan_describe(plan, own, sizeof own);
    kvmill_plan_describe(other, by_name, sizeof by_name);
    bool same = status == answer && strcmp(own, by_name) == 0 &&
                kvmill_plan_workspace_size(plan) == kvmill_plan_workspace_size(other) &&
                strcmp(error.message, refused.message) == 0;
    if (!same)
        diag("%s: %s%s\n%s%s", scene->op->name, error.message, own, refused.message, by_name);
    *made += status == KVMILL_OK;
    return same;
}

static void test_plans(const struct op *op, const struct described_case *by) {
    static struct scene scene;
    struct named named;
    int made = 0, same = 0;
    snprintf(doing, sizeof doing, "%s by name", op->name);
    for (int i = 0; i < DRAWS; i++) {
        scene_start(&scene, op, by, &dice);
        if (i % 2 == 0)
            scene_draw_members(&scene);
        described_open(&scene, 3);
        scene_set_prototypes(&scene);
        name_all(&scene, &named);
        same += named.differs || is_same(&scene, &named, &made);
        described_close(&scene);
    }
    ok(same == DRAWS && made > 0, "%s: %d plans by name are those of its function, %d of them made",
       op->name, same, made);
}

static void test_places(const struct op *op) {
    bool good = true;
    for (int i = 0; i < op->tensor_count; i++) {
        const struct op_tensor *tensor = &op->tensors[i];
        bool in = tensor->in & kvmill_op_bit(op), out = tensor->out & kvmill_op_bit(op);
        kvmill_named_tensor_place place = {-1, -1, -1, -1};
        kvmill_status status = kvmill_named_place(op->name, tensor->name, &place, NULL);
        if (!in && !out)
            good &= status == KVMILL_E_ATTRIBUTE;
        else
            good &= status == KVMILL_OK && place.index == tensor->index && place.in == in &&
                    place.out == out;
    }
    ok(good, "%s: tensors have their places by name", op->name);
}

/* ---- Refusals ---- */

static int64_t dims[] = {1, 2, 4, 8};
static const DLTensor cache = {
    .device = {kDLCPU, 0}, .ndim = 4, .dtype = {kDLFloat, 32, 1}, .shape = dims};

static kvmill_named_attribute attribute_of(const struct setting *setting) {
    const char *value = setting->value;
    kvmill_named_attribute attribute = {.name = setting->name[0] != '\0' ? setting->name : NULL};
    if (isalpha((unsigned char)value[0]))
        attribute.word = value;
    else if ((attribute.is_real = strchr(value, '.') != NULL))
        attribute.real = strtod(value, NULL);
    else
        attribute.integer = atoll(value);
    return attribute;
}

/* OP SETTINGS STATUS WORDS TENSORS: the tensors of the call, all equal. */
ROWS(refused, 4) {
    struct setting settings[8], given[2];
    struct named named = {.differs = false};
    const char *said = cells[1], *names = cells[4] != NULL ? cells[4] : "";
    kvmill_plan *plan = (kvmill_plan *)(void *)&dice;
    for (size_t *n = &named.attribute_count; setting_next(&said, &settings[*n]); ++*n)
        named.attributes[*n] = attribute_of(&settings[*n]);
    for (size_t *n = &named.tensor_count; setting_next(&names, &given[*n]); ++*n)
        named.tensors[*n] = (kvmill_named_tensor){given[*n].name, &cache};
    kvmill_status status =
        kvmill_plan_named(cells[0], named.attributes, named.attribute_count, named.tensors,
                          named.tensor_count, NULL, &plan, &error);
    ok_status(status, status_named(cells[2]), &error, cells[3], "refused: %s", cells[3]);
    ok(plan == NULL, "  without a plan");
}

TABLE(named);

TEST(tensors) {
    kvmill_plan *plan;
    static const kvmill_named_tensor none[] = {{"update", NULL}, {NULL, &cache}};
    for (int i = 0; i < 2; i++)
        ok(kvmill_plan_named("TensorScatter", NULL, 0, &none[i], 1, NULL, &plan, &error) ==
               KVMILL_E_NULL,
           "a tensor, or its name, is NULL");
    ok(kvmill_named_place("TensorScatter", "write_indices", &place, &error) == KVMILL_OK &&
           place.only_int64 &&
           kvmill_named_place("CacheAttend", "lengths", &place, &error) == KVMILL_OK &&
           !place.only_int64 &&
           kvmill_named_place("CacheAttend", "query", &place, &error) == KVMILL_OK &&
           !place.only_int64,
       "whose type is int64 alone");
    ok(kvmill_named_place("MultiHeadAttention", "cache", &place, &error) == KVMILL_E_ATTRIBUTE &&
           kvmill_named_place("none", "cache", &place, NULL) == KVMILL_E_ATTRIBUTE,
       "no place of a tensor that the op has not");
}

TEST(null) {
    kvmill_plan *plan = NULL;
    ok(kvmill_plan_named(NULL, NULL, 0, NULL, 0, NULL, &plan, NULL) == KVMILL_E_NULL &&
           kvmill_plan_named("TensorScatter", NULL, 1, NULL, 0, NULL, &plan, NULL) ==
               KVMILL_E_NULL &&
           kvmill_plan_named("TensorScatter", NULL, 0, NULL, 1, NULL, &plan, NULL) ==
               KVMILL_E_NULL &&
           kvmill_plan_named("TensorScatter", NULL, 0, NULL, 0, NULL, NULL, NULL) ==
               KVMILL_E_NULL &&
           plan == NULL,
       "kvmill_plan_named of NULL");
    ok(kvmill_named_place(NULL, "cache", &place, NULL) == KVMILL_E_NULL &&
           kvmill_named_place("TensorScatter", NULL, &place, NULL) == KVMILL_E_NULL &&
           kvmill_named_place("TensorScatter", "update", NULL, NULL) == KVMILL_E_NULL,
       "kvmill_named_place of NULL");
}

TEST(all_ops) {
    int ops = 0;
    for (int i = 0; kvmill_ops[i] != NULL; i++) {
        const struct op *op = kvmill_ops[i];
        const struct described_case *by = described_case_of(op);
        if (by == NULL || op->family == OP_FLOW)
            continue;
        test_plans(op, by);
        test_places(op);
        ops++;
    }
    ok(ops == 11, "%d ops have plans by name", ops);
}

void before_tests(void) {
    fence_explain_traps(doing);
}
