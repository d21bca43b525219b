/* Plans for the text and the shapes of a call, found again by a key without parsing.

   SPDX-License-Identifier: Apache-2.0 */
#include "jax_calls.h"

#include <stdbool.h>

/* ---- Keys ---- */

/* The bytes of a call that its plan depends on. */
struct key {
    unsigned char bytes[JAX_KEY_SIZE];
    size_t size;
    bool full;
};

static void add(struct key *key, const void *bytes, size_t size) {
    key->full |= size > sizeof key->bytes - key->size;
    if (key->full)
        return;
    memcpy(key->bytes + key->size, bytes, size);
    key->size += size;
}

static void add_span(struct key *key, const kvmill_ffi_span *span) {
    add(key, &span->length, sizeof span->length);
    add(key, span->text, span->length);
}

static void add_attribute(struct key *key, const kvmill_ffi_attributes *list, int64_t at) {
    const kvmill_ffi_scalar *scalar = (const kvmill_ffi_scalar *)list->items[at];
    DLDataType dtype = {0};
    add_span(key, list->names[at]);
    add(key, &list->types[at], sizeof list->types[at]);
    if (list->types[at] == KVMILL_FFI_STRING)
        add_span(key, (const kvmill_ffi_span *)list->items[at]);
    if (list->types[at] != KVMILL_FFI_SCALAR)
        return;
    add(key, &scalar->dtype, sizeof scalar->dtype);
    if (kvmill_ffi_dtype(scalar->dtype, &dtype))
        add(key, scalar->value, dtype.bits / 8);
}

static void add_buffers(struct key *key, const kvmill_ffi_list *list) {
    add(key, &list->size, sizeof list->size);
    for (int64_t i = 0; i < list->size; i++) {
        const kvmill_ffi_buffer *buffer = (const kvmill_ffi_buffer *)list->items[i];
        if (list->types[i] != KVMILL_FFI_BUFFER)
            continue;
        add(key, &buffer->dtype, sizeof buffer->dtype);
        add(key, &buffer->rank, sizeof buffer->rank);
        add(key, buffer->dims, (size_t)buffer->rank * sizeof *buffer->dims);
    }
}

static kvmill_status make_key(const kvmill_ffi_frame *frame, struct key *key, kvmill_error *error) {
    key->size = 0;
    key->full = false;
    for (int64_t i = 0; i < frame->attributes.size; i++)
        add_attribute(key, &frame->attributes, i);
    add_buffers(key, &frame->arguments);
    add_buffers(key, &frame->results);
    if (!key->full)
        return KVMILL_OK;
    snprintf(error->message, sizeof error->message, "attributes and shapes take more than %d bytes",
             JAX_KEY_SIZE);
    return KVMILL_E_ATTRIBUTE;
}

/* ---- Making ---- */

static kvmill_status place_tensors(const kvmill_ffi_frame *frame, const struct jax_call *call,
                                   struct jax_plan *plan, DLTensor *tensors,
                                   kvmill_named_tensor *named, kvmill_error *error) {
    kvmill_status status = KVMILL_OK;
    plan->operand_count = call->operand_count;
    plan->result_count = call->result_count;
    memcpy(plan->operand_names, call->operands, sizeof plan->operand_names);
    memcpy(plan->result_names, call->results, sizeof plan->result_names);
    for (int i = 0; status == KVMILL_OK && i < call->operand_count + call->result_count; i++) {
        int result = i - call->operand_count;
        bool is_result = result >= 0;
        const struct jax_name *name =
            is_result ? &plan->result_names[result] : &plan->operand_names[i];
        named[i] = (kvmill_named_tensor){name->text, &tensors[i]};
        status = kvmill_named_place(call->op, name->text,
                                    is_result ? &plan->results[result] : &plan->operands[i], error);
        if (status == KVMILL_OK)
            status = jax_view_tensor(is_result ? &frame->results : &frame->arguments,
                                     is_result ? result : i, name, &tensors[i], error);
        if (status == KVMILL_OK && !is_result && jax_is_widened(&plan->operands[i], &tensors[i]))
            tensors[i].dtype.bits = 64;
    }
    return status;
}

/* Checks the lists: operands are tensors that the op reads, results those that it writes, and
   tensors that it updates are in both. */
static kvmill_status check_uses(const struct jax_call *call, struct jax_plan *plan,
                                kvmill_error *error) {
    const char *wrong = NULL;
    for (int r = 0; r < call->result_count; r++) {
        plan->given[r] = -1;
        for (int o = 0; o < call->operand_count; o++)
            if (plan->operands[o].index == plan->results[r].index)
                plan->given[r] = o;
        if (!plan->results[r].out || plan->results[r].in != (plan->given[r] >= 0))
            wrong = call->results[r].text;
    }
    for (int o = 0; o < call->operand_count; o++) {
        bool given = false;
        for (int r = 0; r < call->result_count; r++)
            given |= plan->given[r] == o;
        if (!plan->operands[o].in || plan->operands[o].out != given)
            wrong = call->operands[o].text;
    }
    if (wrong == NULL)
        return KVMILL_OK;
    snprintf(error->message, sizeof error->message,
             "%s of %s is in the wrong list; accepted: operands that it reads, results that it "
             "writes, in both what it updates",
             wrong, call->op);
    return KVMILL_E_ATTRIBUTE;
}

/* A result that is also an operand has the operand's prototype. */
static kvmill_status make_plan(const struct jax_call *call, const kvmill_named_tensor *named,
                               struct jax_plan *plan, kvmill_error *error) {
    kvmill_named_tensor tensors[2 * JAX_MOST_TENSORS];
    const kvmill_pack *pack;
    size_t count = (size_t)call->operand_count;
    memcpy(tensors, named, count * sizeof *tensors);
    for (int r = 0; r < call->result_count; r++)
        if (plan->given[r] < 0)
            tensors[count++] = named[call->operand_count + r];
    kvmill_status status = jax_find_pack(call->pack, &pack, error);
    const kvmill_plan_options options = {.struct_size = sizeof options,
                                         .packs = &pack,
                                         .pack_count = pack != NULL,
                                         .threads = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    if (status == KVMILL_OK)
        status = kvmill_plan_named(call->op, call->attributes, call->attribute_count, tensors,
                                   count, &options, &plan->plan, error);
    return status;
}

static void lay_out(const DLTensor *tensors, struct jax_plan *plan) {
    plan->widened_at = (kvmill_plan_workspace_size(plan->plan) + 63) / 64 * 64;
    plan->workspace_size = plan->widened_at;
    for (int i = 0; i < plan->operand_count; i++)
        if (plan->operands[i].only_int64)
            plan->workspace_size += jax_element_count(&tensors[i]) * sizeof(int64_t);
}

static kvmill_status fill_plan(const kvmill_ffi_frame *frame, struct jax_call *call,
                               struct jax_plan *plan, kvmill_error *error) {
    DLTensor tensors[2 * JAX_MOST_TENSORS];
    kvmill_named_tensor named[2 * JAX_MOST_TENSORS];
    kvmill_status status = jax_read_call(frame, call, error);
    if (status == KVMILL_OK)
        status = place_tensors(frame, call, plan, tensors, named, error);
    if (status == KVMILL_OK)
        status = check_uses(call, plan, error);
    if (status == KVMILL_OK)
        status = make_plan(call, named, plan, error);
    if (status == KVMILL_OK)
        lay_out(tensors, plan);
    return status;
}

static kvmill_status new_plan(const kvmill_ffi_frame *frame, const struct key *key,
                              struct jax_plan **made, kvmill_error *error) {
    struct jax_plan *plan = (struct jax_plan *)calloc(1, sizeof *plan + key->size);
    struct jax_call *call = (struct jax_call *)malloc(sizeof *call);
    kvmill_status status = KVMILL_E_MEMORY;
    if (plan != NULL && call != NULL) {
        memcpy(plan->key, key->bytes, key->size);
        plan->key_size = key->size;
        status = fill_plan(frame, call, plan, error);
    } else
        snprintf(error->message, sizeof error->message, "out of memory for a plan");
    free(call);
    if (status != KVMILL_OK)
        free(plan);
    else
        *made = plan;
    return status;
}

/* ---- All plans ---- */

static struct jax_plan *plans;

static struct jax_plan *find(const struct key *key) {
    struct jax_plan *plan = __atomic_load_n(&plans, __ATOMIC_ACQUIRE);
    while (plan != NULL &&
           (plan->key_size != key->size || memcmp(plan->key, key->bytes, key->size) != 0))
        plan = plan->next;
    return plan;
}

/* If two threads make plans for one key, both stay, and later calls use the first that is found. */
static void keep(struct jax_plan *plan) {
    plan->next = __atomic_load_n(&plans, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&plans, &plan->next, plan, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;
}

kvmill_status jax_plan_of(const kvmill_ffi_frame *frame, struct jax_plan **plan,
                          kvmill_error *error) {
    struct key key;
    kvmill_status status = make_key(frame, &key, error);
    if (status != KVMILL_OK || (*plan = find(&key)) != NULL)
        return status;
    status = new_plan(frame, &key, plan, error);
    if (status == KVMILL_OK)
        keep(*plan);
    return status;
}
