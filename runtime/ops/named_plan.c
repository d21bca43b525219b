/* Plans of ops given by name: copies attributes and tensors to the members that the op's
   description names.

   SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "../../defs/dtype.h"
#include "../../defs/op.h"
#include "../../ops/fail.h"

/* The structs of an op, in the order of its description. */
enum { MOST_PART_BYTES = 512 };
struct parts {
    const struct op *op;
    union {
        uint64_t align;
        unsigned char bytes[MOST_PART_BYTES];
    } at[OP_PARTS];
};

/* ---- The ops ---- */

typedef kvmill_status plan_function(struct parts *parts, const kvmill_plan_options *options,
                                    kvmill_plan **plan, kvmill_error *error);

#define OF_ONE_STRUCT(NAME)                                                                        \
    static kvmill_status plan_##NAME(struct parts *parts, const kvmill_plan_options *options,      \
                                     kvmill_plan **plan, kvmill_error *error) {                    \
        return kvmill_plan_##NAME((const void *)parts->at[0].bytes, options, plan, error);         \
    }
OF_ONE_STRUCT(tensor_scatter)
OF_ONE_STRUCT(key_value_cache)
OF_ONE_STRUCT(multi_head_attention)
OF_ONE_STRUCT(multi_head_cache_attention)
OF_ONE_STRUCT(attention)
OF_ONE_STRUCT(cache_attend)
OF_ONE_STRUCT(write_rows)

static kvmill_status plan_step(struct parts *parts, const kvmill_plan_options *options,
                               kvmill_plan **plan, kvmill_error *error) {
    kvmill_tensor_scatter_attention *step = (void *)parts->at[2].bytes;
    step->attention = (const void *)parts->at[0].bytes;
    return kvmill_plan_tensor_scatter_attention(step, options, plan, error);
}

/* Static and dynamic batching have the same functions. */
static const struct {
    const char *name;
    plan_function *plan;
} plans[] = {
    {"TensorScatter", plan_tensor_scatter},
    {"KeyValueCache", plan_key_value_cache},
    {"MultiHeadAttention", plan_multi_head_attention},
    {"MultiHeadCacheAttention", plan_multi_head_cache_attention},
    {"Attention", plan_attention},
    {"TensorScatterAttention", plan_step},
    {"CacheAttend", plan_cache_attend},
    {"WriteRows", plan_write_rows},
};

static const char *static_name(const char *name) {
    static const char prefix[] = "dynamic_batching.";
    bool dynamic = strncmp(name, prefix, sizeof prefix - 1) == 0;
    return dynamic ? name + sizeof prefix - 1 : name;
}

/* NULL if there is no plan by this name. */
static plan_function *plan_of(const struct op *op) {
    for (size_t i = 0; op != NULL && i < sizeof plans / sizeof *plans; i++)
        if (strcmp(plans[i].name, static_name(op->name)) == 0)
            return plans[i].plan;
    return NULL;
}

static kvmill_status find_op(const char *name, const struct op **op, kvmill_error *error) {
    if (name == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "the name of the op is NULL");
    *op = kvmill_op_by_name(name);
    if (plan_of(*op) != NULL)
        return KVMILL_OK;
    char list[160] = "";
    for (size_t i = 0, used = 0; i < sizeof plans / sizeof *plans; i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", plans[i].name);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "op is \"%.48s\"; accepted: %s", name, list);
}

/* ---- Attributes ---- */

/* Members that are set here, from the op's name and its tensors. */
static bool is_attribute(const struct op *op, const struct op_member *member) {
    return (member->ops & kvmill_op_bit(op)) != 0 && member->kind != OP_TENSOR;
}

/* The member, and in *part the struct that contains it; types that only specs have come from
 * tensors. */
static const struct op_member *find_member(const struct op *op, const char *name, int *part) {
    for (*part = 0; *part < OP_PARTS && op->parts[*part] != NULL; ++*part) {
        const struct op_member *member = kvmill_op_member(op->parts[*part], name);
        if (member != NULL && op->parts[*part]->name != NULL)
            return member;
    }
    return NULL;
}

static kvmill_status refuse_name(const struct op *op, const char *name, kvmill_error *error) {
    char list[200] = "";
    size_t used = 0;
    for (int p = 0; p < OP_PARTS && op->parts[p] != NULL; p++)
        for (int i = 0; i < op->parts[p]->member_count && used < sizeof list; i++)
            if (op->parts[p]->name != NULL && is_attribute(op, &op->parts[p]->members[i]))
                used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                         op->parts[p]->members[i].name);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s has no attribute \"%.32s\"; accepted: %s",
                       op->name, name, list);
}

static kvmill_status refuse_value(const kvmill_named_attribute *given, const char *accepted,
                                  kvmill_error *error) {
    char value[64];
    if (given->word != NULL)
        snprintf(value, sizeof value, "\"%.48s\"", given->word);
    else if (given->is_real)
        snprintf(value, sizeof value, "%g", given->real);
    else
        snprintf(value, sizeof value, "%lld", (long long)given->integer);
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s is %s; accepted: %s", given->name, value,
                       accepted);
}

static kvmill_status set_type(const kvmill_named_attribute *given, void *at, kvmill_error *error) {
    const struct kvmill_dtype *type = given->word ? kvmill_dtype_by_name(given->word) : NULL;
    if (type == NULL)
        return refuse_value(given, "the name of an element type", error);
    *(DLDataType *)at = type->dl;
    return KVMILL_OK;
}

/* The op's own constant for the word, which outlives the caller's. */
static kvmill_status set_word(const struct op_member *member, const kvmill_named_attribute *given,
                              void *at, kvmill_error *error) {
    char list[160] = "";
    for (size_t i = 0, used = 0; member->words[i] != NULL && used < sizeof list; i++) {
        if (given->word != NULL && strcmp(given->word, member->words[i]) == 0) {
            *(const char **)at = member->words[i];
            return KVMILL_OK;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                                 member->words[i]);
    }
    return refuse_value(given, list, error);
}

static kvmill_status set_number(const struct op_member *member, const kvmill_named_attribute *given,
                                void *at, kvmill_error *error) {
    if (given->word != NULL)
        return refuse_value(given, "a number", error);
    if (member->kind == OP_REAL)
        *(double *)at = given->is_real ? given->real : (double)given->integer;
    else if (given->is_real)
        return refuse_value(given, "an integer", error);
    else if (member->kind != OP_FLAG)
        *(int64_t *)at = given->integer;
    else if (given->integer == 0 || given->integer == 1)
        *(int32_t *)at = (int32_t)given->integer;
    else
        return refuse_value(given, "0, 1", error);
    return KVMILL_OK;
}

static void set_flag(const struct op *op, struct parts *parts, const char *name) {
    int part;
    const struct op_member *member = find_member(op, name, &part);
    *(int32_t *)kvmill_member_at(member, parts->at[part].bytes) = 1;
}

static kvmill_status set_attribute(struct parts *parts, const kvmill_named_attribute *given,
                                   kvmill_error *error) {
    int part;
    if (given->name == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "the name of an attribute is NULL");
    const struct op_member *member = find_member(parts->op, given->name, &part);
    if (member == NULL || !is_attribute(parts->op, member))
        return refuse_name(parts->op, given->name, error);
    if (member->with != NULL)
        set_flag(parts->op, parts, member->with);
    void *at = kvmill_member_at(member, parts->at[part].bytes);
    if (member->kind == OP_TYPE)
        return set_type(given, at, error);
    return member->kind == OP_WORD ? set_word(member, given, at, error)
                                   : set_number(member, given, at, error);
}

/* ---- Tensors ---- */

static kvmill_status find_tensor(const struct op *op, const char *name,
                                 const struct op_tensor **found, kvmill_error *error) {
    char list[200] = "";
    size_t used = 0;
    if (name == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "the name of a tensor is NULL");
    for (int i = 0; i < op->tensor_count; i++) {
        *found = &op->tensors[i];
        if ((((*found)->in | (*found)->out) & kvmill_op_bit(op)) == 0)
            continue;
        if (strcmp((*found)->name, name) == 0)
            return KVMILL_OK;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     (*found)->name);
    }
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE, "%s has no tensor \"%.32s\"; accepted: %s",
                       op->name, name, list);
}

/* V's types are K's unless they are given. */
static bool tells_type(const struct op *op, const struct op_tensor *tensor) {
    return (tensor->in & kvmill_op_bit(op)) != 0 && tensor->type != NULL &&
           strncmp(tensor->type, "value_", 6) != 0;
}

/* If the op has prototypes, set this one; if it has types, take the type from the tensor, unless it
   is given. */
static void set_tensor(struct parts *parts, const struct op_tensor *tensor,
                       const DLTensor *prototype) {
    int part;
    const struct op_member *member = find_member(parts->op, tensor->name, &part);
    if (member != NULL && member->kind == OP_TENSOR)
        *(const DLTensor **)kvmill_member_at(member, parts->at[part].bytes) = prototype;
    if (!tells_type(parts->op, tensor))
        return;
    member = kvmill_op_member(parts->op->parts[0], tensor->type);
    if (member != NULL && kvmill_member_is_zero(member, parts->at[0].bytes))
        *(DLDataType *)kvmill_member_at(member, parts->at[0].bytes) = prototype->dtype;
}

/* In the order of the description: the first tensor of a type determines it. */
static kvmill_status set_tensors(struct parts *parts, const kvmill_named_tensor *tensors,
                                 size_t count, kvmill_error *error) {
    const struct op_tensor *tensor;
    kvmill_status status = KVMILL_OK;
    for (size_t i = 0; status == KVMILL_OK && i < count; i++)
        if (tensors[i].tensor == NULL)
            status = kvmill_fail(error, KVMILL_E_NULL, "tensors[%zu].tensor is NULL", i);
        else
            status = find_tensor(parts->op, tensors[i].name, &tensor, error);
    for (int t = 0; status == KVMILL_OK && t < parts->op->tensor_count; t++)
        for (size_t i = 0; i < count; i++)
            if (strcmp(parts->op->tensors[t].name, tensors[i].name) == 0)
                set_tensor(parts, &parts->op->tensors[t], tensors[i].tensor);
    return status;
}

/* ---- Plans ---- */

static void begin(struct parts *parts, const struct op *op) {
    parts->op = op;
    for (int i = 0; i < OP_PARTS && op->parts[i] != NULL; i++)
        kvmill_op_init(op->parts[i], parts->at[i].bytes);
    if (op->dynamic)
        set_flag(op, parts, "dynamic_batching");
}

kvmill_status kvmill_plan_named(const char *name, const kvmill_named_attribute *attributes,
                                size_t attribute_count, const kvmill_named_tensor *tensors,
                                size_t tensor_count, const kvmill_plan_options *options,
                                kvmill_plan **plan, kvmill_error *error) {
    struct parts parts;
    const struct op *op;
    if (plan == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "plan is NULL");
    *plan = NULL;
    if ((attributes == NULL && attribute_count > 0) || (tensors == NULL && tensor_count > 0))
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL",
                           attributes == NULL && attribute_count > 0 ? "attributes" : "tensors");
    kvmill_status status = find_op(name, &op, error);
    if (status != KVMILL_OK)
        return status;
    begin(&parts, op);
    for (size_t i = 0; status == KVMILL_OK && i < attribute_count; i++)
        status = set_attribute(&parts, &attributes[i], error);
    if (status == KVMILL_OK)
        status = set_tensors(&parts, tensors, tensor_count, error);
    return status == KVMILL_OK ? plan_of(op)(&parts, options, plan, error) : status;
}

kvmill_status kvmill_named_place(const char *op_name, const char *tensor_name,
                                 kvmill_named_tensor_place *place, kvmill_error *error) {
    const struct op *op;
    const struct op_tensor *tensor;
    if (place == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "place is NULL");
    kvmill_status status = find_op(op_name, &op, error);
    if (status == KVMILL_OK)
        status = find_tensor(op, tensor_name, &tensor, error);
    if (status != KVMILL_OK)
        return status;
    op_set bit = kvmill_op_bit(op);
    place->index = tensor->index;
    place->in = (tensor->in & bit) != 0;
    place->out = (tensor->out & bit) != 0;
    place->only_int64 =
        tensor->or_type == NULL && tensor->type != NULL && strcmp(tensor->type, "int64") == 0;
    return kvmill_succeed(error);
}
