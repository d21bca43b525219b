/* Descriptions of ops: they are complete, and agree with the header's words.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/dtype.h"
#include "../defs/format.h"
#include "../defs/op.h"
#include "common.h"

/* ---- Structs ---- */

static const struct op_member *member_at(const struct op_struct *part, size_t offset) {
    for (int i = 0; i < part->member_count; i++)
        if (part->members[i].kind != OP_OWN && part->members[i].offset == offset)
            return &part->members[i];
    return NULL;
}

/* Whether every byte belongs to a member, or aligns the next one to 8. */
static bool is_whole(const struct op_struct *part) {
    size_t at = 0;
    while (at < part->size) {
        const struct op_member *member = member_at(part, at);
        if (member == NULL && at % 8 == 0)
            return diag("%s: no member at %zu", part->name ? part->name : "types", at);
        at += member == NULL              ? 4
              : member->kind == OP_STRUCT ? sizeof(kvmill_flow_select)
                                          : kvmill_member_size(member);
    }
    return at == part->size;
}

static bool names_members(const struct op_struct *part, const struct op_condition *condition) {
    for (int i = 0; i < OP_CONDITIONS && condition->names[i] != NULL; i++)
        if (!kvmill_op_member(part, condition->names[i] + (condition->names[i][0] == '!')))
            return false;
    return true;
}

static bool has_members(const struct op_struct *part) {
    bool good = true;
    for (int i = 0; i < part->member_count; i++)
        good = good && (part->members[i].kind != OP_WORD || part->members[i].words != NULL) &&
               (part->members[i].with == NULL || kvmill_op_member(part, part->members[i].with));
    for (int i = 0; i < part->range_count; i++) {
        const struct op_range *range = &part->ranges[i];
        const struct op_member *member = kvmill_op_member(part, range->name);
        good = good && member != NULL && member->offset == range->offset &&
               names_members(part, &range->when) &&
               (range->below == NULL || kvmill_op_member(part, range->below));
    }
    return good;
}

TEST(structs) {
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        for (int p = 0; p < OP_PARTS && kvmill_ops[i]->parts[p] != NULL; p++) {
            const struct op_struct *part = kvmill_ops[i]->parts[p];
            ok(is_whole(part), "%s, struct %d: all of it is described", kvmill_ops[i]->name, p);
            ok(has_members(part), "  and what its rows name is there");
        }
}

/* ---- Tensors ---- */

static bool knows_type(const struct op *op, const char *type) {
    return type == NULL || kvmill_op_member(kvmill_op_types(op), type) ||
           kvmill_dtype_by_name(type);
}

static bool has_shape(const char *shape) {
    static const struct op_dim words[] = {{"B", 2},   {"S", 3},  {"H", 4},  {"D", 5}, {"E", 6},
                                          {"KVH", 2}, {"T", 7},  {"Q", 8},  {"P", 9}, {"R", 1},
                                          {"G", 10},  {"N", 11}, {"M", 12}, {NULL, 0}};
    int64_t dims[OP_MOST_RANK];
    if (shape == NULL)
        return true;
    for (int which = 0;; which++) {
        int rank = kvmill_op_shape(shape, which, words, dims);
        if (rank < 0)
            return which > 0;
        for (int d = 0; d < rank; d++)
            if (dims[d] < 1)
                return false;
    }
}

static bool is_described(const struct op *op, const struct op_tensor *tensor) {
    bool conditions = names_members(op->parts[0], &tensor->when) &&
                      names_members(op->parts[0], &tensor->used) &&
                      names_members(op->parts[0], &tensor->wide_when);
    bool types = knows_type(op, tensor->type) && knows_type(op, tensor->or_type) &&
                 knows_type(op, tensor->wide_type);
    return conditions && types && has_shape(tensor->shape) && has_shape(tensor->dynamic_shape) &&
           (tensor->in | tensor->out) != 0 && (tensor->needed & ~tensor->in) == 0 &&
           (tensor->optional & ~tensor->out) == 0 && tensor->help != NULL;
}

static void test_op_tensors(const struct op *op) {
    bool good = true;
    for (int i = 0; i < op->tensor_count; i++) {
        good = good && is_described(op, &op->tensors[i]);
        for (int j = 0; j < i; j++)
            good = good && strcmp(op->tensors[i].name, op->tensors[j].name) != 0 &&
                   (op->tensors[i].index < 0 || op->tensors[i].index != op->tensors[j].index);
    }
    ok(good, "%s: its tensors are told apart, and their words have a meaning", op->name);
}

TEST(tensors) {
    for (int i = 0; kvmill_ops[i] != NULL; i++)
        if (kvmill_ops[i]->family != OP_FLOW)
            test_op_tensors(kvmill_ops[i]);
    for (int i = 0; i < OP_FLOW_STEPS; i++)
        test_op_tensors(&kvmill_flow_steps[i]);
}

/* ---- Some properties, taken from the header's words ---- */

/* OP SETTINGS TENSOR PRESENCE WHY: a tensor of a cache attention; for a required one, its type. */
ROWS(tensor, 5) {
    static const char *const words[] = {
        [OP_ABSENT] = "absent", [OP_OPTIONAL] = "optional", [OP_IGNORED] = "ignored"};
    const struct op *op = kvmill_op_by_name(cells[0]);
    const struct op_tensor *tensor = op->tensors;
    kvmill_cache_attention base;
    setting_fill(op->parts[0], &base, cells[1], NULL);
    while (strcmp(tensor->name, cells[2]) != 0)
        tensor++;
    enum op_presence presence = kvmill_op_presence(op, &base, tensor);
    ok_text(presence == OP_REQUIRED ? kvmill_dtype_name(kvmill_op_type(op, &base, &base, tensor))
                                    : words[presence],
            cells[3], "%s: %s", cells[2], cells[4]);
}

TABLE(ops);

/* A cache may have every type that rows can have, for every op that reads it. */
TEST(row_types) {
    for (int i = 0; kvmill_ops[i] != NULL; i++) {
        const struct op_struct *part = kvmill_ops[i]->parts[0];
        bool of_rows = true;
        for (int m = 0; m < part->member_count; m++)
            if (part->members[m].kind == OP_TYPE && strstr(part->members[m].name, "T2") != NULL)
                of_rows = of_rows && part->members[m].of_rows;
        ok(of_rows, "%s: its caches are of any type of rows", kvmill_ops[i]->name);
    }
}

TEST(shapes) {
    struct op_dim words[OP_MOST_WORDS] = {{NULL, 0}};
    int64_t shape[] = {2, 3, 20}, dims[OP_MOST_RANK];
    const DLTensor tensor = {.ndim = 3, .shape = shape};
    ok(kvmill_op_learn("B N D", &tensor, words) && kvmill_op_shape("B*N+1", 0, words, dims) == 1 &&
           dims[0] == 7,
       "dims tell words, words tell dims");
    shape[0] = 4;
    ok(!kvmill_op_learn("B N D", &tensor, words), "a word has one value");
    ok(kvmill_op_shape("B S | D", 0, words, dims) == -1 &&
           kvmill_op_shape("B S | D", 1, words, dims) == 1 && dims[0] == 20 &&
           kvmill_op_shape("B S | D", 2, words, dims) == -1,
       "alternatives, and words without a value");
}

TEST(open_shapes) {
    struct op_dim words[OP_MOST_WORDS] = {{"N", 3}};
    int64_t shape[] = {KVMILL_DYNAMIC, 3}, dims[OP_MOST_RANK];
    const DLTensor tensor = {.ndim = 2, .shape = shape};
    ok(kvmill_op_learn("B N D", NULL, words) && kvmill_op_learn("B N", &tensor, words) &&
           kvmill_op_shape("B*N N*2 D+1", 0, words, dims) == 3 && dims[0] == KVMILL_DYNAMIC &&
           dims[1] == 6 && dims[2] == KVMILL_DYNAMIC,
       "what is not known makes dims that are not known");
    shape[0] = 5;
    ok(kvmill_op_learn("B N", &tensor, words) && kvmill_op_shape("B+1", 0, words, dims) == 1 &&
           dims[0] == 6,
       "a dim that is known tells the word");
    shape[0] = 4;
    ok(!kvmill_op_learn("B N", &tensor, words), "once");
}
