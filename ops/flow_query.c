/* The library's queries about flows.

   SPDX-License-Identifier: Apache-2.0 */
#include "../defs/op_tables.h"
#include "fail.h"
#include "flow.h"
#include "structs.h"

/* The place, for the beginning of a message. */
static kvmill_status tell_place(const struct kvmill_flow_place *place, kvmill_status status,
                                const kvmill_error *reason, kvmill_error *error) {
    if (place->list == NULL)
        return kvmill_fail(error, status, "%.250s", reason->message);
    if (place->number < 0)
        return kvmill_fail(error, status, "%s: %.220s", place->list, reason->message);
    return kvmill_fail(error, status, "%s[%d]: %.220s", place->list, place->number,
                       reason->message);
}

kvmill_status kvmill_take_flow_attention(struct kvmill_own_flow *own, kvmill_error *error) {
    kvmill_status status = kvmill_take_struct(&kvmill_cache_attention_attributes, "flow.attention",
                                              own->flow.attention, &own->attention, error);
    own->flow.attention = &own->attention;
    return status;
}

kvmill_status kvmill_take_flow(const kvmill_flow *given, struct kvmill_own_flow *own,
                               kvmill_error *error) {
    kvmill_status status =
        kvmill_take_struct(kvmill_flow_op_def.parts[0], "flow", given, &own->flow, error);
    return status == KVMILL_OK ? kvmill_take_flow_attention(own, error) : status;
}

/* K or V as a field. */
static kvmill_flow_field cache_field(const struct kvmill_own_flow *own, bool is_value) {
    const kvmill_cache_attention *attention = &own->attention;
    int64_t block = own->flow.block_size > 0 ? own->flow.block_size : attention->page_size;
    bool differs = is_value && attention->value_differs;
    return (kvmill_flow_field){
        is_value ? "v" : "k", block,
        differs && attention->value_head_dim ? attention->value_head_dim : attention->head_dim,
        differs && !attention->value_view ? attention->value_T2 : attention->T2};
}

int kvmill_flow_field_at(const kvmill_flow *flow, size_t i, kvmill_flow_field *field) {
    struct kvmill_own_flow own;
    if (field == NULL || kvmill_take_flow(flow, &own, NULL) != KVMILL_OK)
        return 0;
    if (i < own.flow.field_count && own.flow.fields == NULL)
        return 0;
    if (i >= own.flow.field_count && i - own.flow.field_count > 1)
        return 0;
    *field =
        i < own.flow.field_count ? own.flow.fields[i] : cache_field(&own, i > own.flow.field_count);
    return 1;
}

kvmill_status kvmill_flow_verify(const kvmill_flow *flow, struct kvmill_flow_problem *problem,
                                 kvmill_error *error) {
    struct kvmill_flow_place place = {0};
    kvmill_error reason;
    kvmill_status status = kvmill_flow_check(flow, problem, &place, &reason);
    return status == KVMILL_OK ? kvmill_succeed(error) : tell_place(&place, status, &reason, error);
}

kvmill_status kvmill_flow_describe(const kvmill_flow *flow, kvmill_flow_layout *layout,
                                   kvmill_error *error) {
    struct kvmill_flow_problem problem;
    struct kvmill_own_flow own;
    kvmill_flow_layout own_layout = {0};
    kvmill_status status = kvmill_take_flow(flow, &own, error);
    if (status == KVMILL_OK)
        status = kvmill_flow_verify(&own.flow, &problem, error);
    if (status != KVMILL_OK || layout == NULL)
        return status;
    kvmill_flow_layout_of(&problem, &own_layout);
    return kvmill_give_struct(&kvmill_flow_layout_struct, "layout", &own_layout, layout, error);
}
