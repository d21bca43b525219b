/* SPDX-License-Identifier: Apache-2.0 */
#include "structs.h"

#include <string.h>

#include "../defs/op_tables.h"
#include "fail.h"

/* No struct will grow beyond this, so a size that was never set is detected before memory is read.
 */
enum { MOST_BYTES = 4096, WORD = sizeof(size_t) };

static size_t size_of(const void *given) {
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

static size_t common(const struct op_struct *part, size_t size) {
    return size < part->size ? size : part->size;
}

/* ---- Sizes ---- */

static bool is_size(size_t size) {
    return size >= WORD && size <= MOST_BYTES && size % WORD == 0;
}

static kvmill_status check_size(const struct op_struct *part, const char *name, const void *given,
                                kvmill_error *error) {
    if (given == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "%s is NULL", name);
    if (is_size(size_of(given)))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "%s.struct_size is %zu; accepted: sizeof (%s), which is %zu in libkvmill "
                       "%s; of other versions a multiple of %d up to %d",
                       name, size_of(given), part->name, part->size, KVMILL_VERSION, (int)WORD,
                       (int)MOST_BYTES);
}

/* The part that only a newer program knows must be 0. */
static kvmill_status check_tail(const struct op_struct *part, const char *name, const void *given,
                                kvmill_error *error) {
    const unsigned char *bytes = given;
    for (size_t i = part->size; i < size_of(given); i++)
        if (bytes[i] != 0)
            return kvmill_fail(error, KVMILL_E_VERSION,
                               "%s.struct_size is %zu, and byte %zu is not 0; libkvmill %s knows "
                               "the first %zu bytes of a %s: accepted after them: zeros",
                               name, size_of(given), i, KVMILL_VERSION, part->size, part->name);
    return KVMILL_OK;
}

/* ---- Copies ---- */

kvmill_status kvmill_take_struct(const struct op_struct *part, const char *name, const void *given,
                                 void *own, kvmill_error *error) {
    kvmill_status status = check_size(part, name, given, error);
    if (status == KVMILL_OK)
        status = check_tail(part, name, given, error);
    if (status != KVMILL_OK)
        return status;
    kvmill_op_init(part, own);
    memcpy(own, given, common(part, size_of(given)));
    memcpy(own, &part->size, sizeof part->size);
    return KVMILL_OK;
}

static void put(const struct op_struct *part, const void *own, void *given, size_t size) {
    memset(given, 0, size);
    memcpy(given, own, common(part, size));
    memcpy(given, &size, sizeof size);
}

kvmill_status kvmill_give_struct(const struct op_struct *part, const char *name, const void *own,
                                 void *given, kvmill_error *error) {
    kvmill_status status = check_size(part, name, given, error);
    if (status == KVMILL_OK)
        put(part, own, given, size_of(given));
    return status;
}

/* ---- For the library's users ---- */

void kvmill_init_struct(const struct op_struct *part, void *given, size_t size) {
    _Alignas(max_align_t) unsigned char own[MOST_BYTES];
    if (given == NULL || !is_size(size))
        return;
    kvmill_op_init(part, own);
    put(part, own, given, size);
}

void kvmill_plan_options_init(kvmill_plan_options *options, size_t struct_size) {
    kvmill_init_struct(&kvmill_plan_options_struct, options, struct_size);
}

void kvmill_pool_options_init(kvmill_pool_options *options, size_t struct_size) {
    kvmill_init_struct(&kvmill_pool_options_struct, options, struct_size);
}

void kvmill_tensor_scatter_init(kvmill_tensor_scatter *op, size_t struct_size) {
    kvmill_init_struct(kvmill_op_of(OP_TENSOR_SCATTER, 0)->parts[0], op, struct_size);
}

void kvmill_cache_attention_init(kvmill_cache_attention *op, size_t struct_size) {
    kvmill_init_struct(&kvmill_cache_attention_attributes, op, struct_size);
}

void kvmill_cache_attend_init(kvmill_cache_attend *op, size_t struct_size) {
    kvmill_init_struct(kvmill_cache_attend_op.parts[0], op, struct_size);
}

void kvmill_write_rows_init(kvmill_write_rows *op, size_t struct_size) {
    kvmill_init_struct(kvmill_write_rows_op.parts[0], op, struct_size);
}

void kvmill_attention_init(kvmill_attention *op, size_t struct_size) {
    kvmill_init_struct(kvmill_attention_ops[0].parts[0], op, struct_size);
}

void kvmill_tensor_scatter_attention_init(kvmill_tensor_scatter_attention *op, size_t struct_size) {
    kvmill_init_struct(&kvmill_step_struct, op, struct_size);
}

void kvmill_gather_init(kvmill_gather *op, size_t struct_size) {
    kvmill_init_struct(kvmill_gather_op.parts[0], op, struct_size);
}

void kvmill_scatter_init(kvmill_scatter *op, size_t struct_size) {
    kvmill_init_struct(kvmill_scatter_op.parts[0], op, struct_size);
}

void kvmill_flow_init(kvmill_flow *flow, size_t struct_size) {
    kvmill_init_struct(kvmill_flow_op_def.parts[0], flow, struct_size);
}

void kvmill_flow_layout_init(kvmill_flow_layout *layout, size_t struct_size) {
    kvmill_init_struct(&kvmill_flow_layout_struct, layout, struct_size);
}

void kvmill_flow_limits_init(kvmill_flow_limits *limits, size_t struct_size) {
    kvmill_init_struct(&kvmill_flow_limits_struct, limits, struct_size);
}
