/* SPDX-License-Identifier: Apache-2.0 */
#include "region.h"

#include <string.h>

#include <kvmill_kernel.h>

#include "../defs/format.h"
#include "fail.h"

/* ---- Checks ---- */

static kvmill_status check_value(const char *name, int32_t value, int available,
                                 kvmill_error *error) {
    if (value >= 0 && value < available)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "region: %.40s takes value %d; accepted: 0 to %d, those before it", name,
                       (int)value, available - 1);
}

static kvmill_status check_counts(const kvmill_region *region, size_t count, kvmill_error *error) {
    if (count > KVMILL_MOST_INPUTS || region->op_count > KVMILL_MOST_REGION_OPS ||
        region->capture_count > KVMILL_MOST_CAPTURES)
        return kvmill_fail(
            error, KVMILL_E_ATTRIBUTE,
            "region: %zu inputs, %zu ops and %zu captures; accepted: at most %d, %d and "
            "%d",
            count, region->op_count, region->capture_count, (int)KVMILL_MOST_INPUTS,
            (int)KVMILL_MOST_REGION_OPS, (int)KVMILL_MOST_CAPTURES);
    return KVMILL_OK;
}

/* ---- Making ---- */

static void add_constant(struct kvmill_program *program, int at, const kvmill_region_op *op,
                         bool is_capture) {
    program->call[at].op = NULL;
    program->is_capture[at] = is_capture;
    memcpy(program->constant[at], op->value, sizeof op->value);
}

static kvmill_status check_capture(const kvmill_region_op *op, size_t captures,
                                   kvmill_error *error) {
    if (op->value[0] < captures)
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                       "region: capture %llu; accepted: less than capture_count, %zu",
                       (unsigned long long)op->value[0], captures);
}

static kvmill_status set_direction(const kvmill_region_op *op, struct kvmill_scalar_call *call,
                                   kvmill_error *error) {
    const char *name = op->comparison_direction ? op->comparison_direction : "";
    call->total = op->compare_type != NULL && strcmp(op->compare_type, "TOTALORDER") == 0;
    if (call->op->signature != KVMILL_TO_BOOL || call->op->operands != 2 ||
        kvmill_direction_by_name(name, &call->direction))
        return KVMILL_OK;
    return kvmill_fail(
        error, KVMILL_E_ATTRIBUTE,
        "region: comparison_direction is \"%.20s\"; accepted: EQ, NE, GE, GT, LE, LT", name);
}

static kvmill_status check_types(const struct kvmill_scalar_call *call, kvmill_error *error) {
    struct kvmill_element_text have, want;
    const char *accepted;
    if (kvmill_scalar_op_fits(call->op, call->types, call->result, &accepted))
        return KVMILL_OK;
    return kvmill_fail(error, KVMILL_E_DTYPE, "region: %s of %s gives %s; accepted: %s",
                       call->op->name, kvmill_element_words(call->types[0], &have),
                       kvmill_element_words(call->result, &want), accepted);
}

static kvmill_status add_step(struct kvmill_program *program, int at, const kvmill_region_op *op,
                              kvmill_error *error) {
    struct kvmill_scalar_call *call = &program->call[at];
    int self = program->arguments + at;
    call->op = kvmill_scalar_op_by_name(op->name);
    if (call->op == NULL)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "region: \"%.60s\" is not an op for scalars; accepted: elementwise ops, "
                           "compare, select, convert, constant",
                           op->name);
    for (int i = 0; i < call->op->operands; i++) {
        kvmill_status status = check_value(op->name, op->operands[i], self, error);
        if (status != KVMILL_OK)
            return status;
        program->operand[at][i] = op->operands[i];
        call->types[i] = &program->type[op->operands[i]];
    }
    call->result = &program->type[self];
    kvmill_status status = set_direction(op, call, error);
    return status == KVMILL_OK ? check_types(call, error) : status;
}

static kvmill_status add_op(struct kvmill_program *program, int at, const kvmill_region_op *op,
                            kvmill_error *error) {
    if (op->name == NULL)
        return kvmill_fail(error, KVMILL_E_NULL, "region: the name of op %d is NULL", at);
    program->type[program->arguments + at] = op->element;
    if (kvmill_kind_of(op->element.dtype) == KVMILL_NO_KIND)
        return kvmill_fail(error, KVMILL_E_DTYPE,
                           "region: %.40s has type code %d with %d bits; accepted: "
                           "the types of StableHLO",
                           op->name, op->element.dtype.code, op->element.dtype.bits);
    bool is_capture = strcmp(op->name, "capture") == 0;
    if (!is_capture && strcmp(op->name, "constant") != 0)
        return add_step(program, at, op, error);
    add_constant(program, at, op, is_capture);
    return is_capture ? check_capture(op, (size_t)program->captures, error) : KVMILL_OK;
}

static kvmill_status set_results(const kvmill_region *region, struct kvmill_program *program,
                                 kvmill_error *error) {
    for (int i = 0; i < program->results; i++) {
        kvmill_status status =
            check_value("return", region->results[i], program->arguments + program->ops, error);
        if (status != KVMILL_OK)
            return status;
        program->result[i] = region->results[i];
    }
    return KVMILL_OK;
}

kvmill_status kvmill_program_make(const kvmill_region *region, size_t count,
                                  struct kvmill_program *program, kvmill_error *error) {
    if (region == NULL || region->arguments == NULL || region->results == NULL)
        return kvmill_fail(error, KVMILL_E_NULL,
                           "the region is missing; accepted: a region, or an update_computation");
    kvmill_status status = check_counts(region, count, error);
    if (status != KVMILL_OK)
        return status;
    if (region->ops == NULL && region->op_count > 0)
        return kvmill_fail(error, KVMILL_E_NULL, "region: ops is NULL; its count is %zu",
                           region->op_count);
    memset(program, 0, sizeof *program);
    program->arguments = (int)(2 * count);
    program->ops = (int)region->op_count;
    program->results = (int)count;
    program->captures = (int)region->capture_count;
    memcpy(program->type, region->arguments, 2 * count * sizeof *region->arguments);
    for (int i = 0; status == KVMILL_OK && i < program->ops; i++)
        status = add_op(program, i, &region->ops[i], error);
    return status == KVMILL_OK ? set_results(region, program, error) : status;
}

const char *const kvmill_combiner_words[] = {"replace", "add", "subtract", "multiply", "minimum",
                                             "maximum", "and", "or",       "xor",      NULL};

int kvmill_combiner_by_word(const char *word) {
    for (int i = 0; kvmill_combiner_words[i] != NULL; i++)
        if (strcmp(kvmill_combiner_words[i], word) == 0)
            return i + KVMILL_COMBINE_REPLACE;
    return 0;
}

bool kvmill_is_combiner(const char *name) {
    return kvmill_combiner_by_word(name) > KVMILL_COMBINE_REPLACE;
}

kvmill_status kvmill_program_named(const char *name, const kvmill_element_type *elements,
                                   size_t count, struct kvmill_program *program,
                                   kvmill_error *error) {
    kvmill_element_type arguments[2 * KVMILL_MOST_INPUTS];
    kvmill_region_op ops[KVMILL_MOST_INPUTS];
    int32_t results[KVMILL_MOST_INPUTS];
    char accepted[KVMILL_WORDS_SIZE];
    int combiner = kvmill_combiner_by_word(name);
    bool replaces = combiner == KVMILL_COMBINE_REPLACE;
    int32_t n = (int32_t)count;
    if (combiner == 0)
        return kvmill_fail(error, KVMILL_E_ATTRIBUTE,
                           "update_computation is \"%.40s\"; accepted: %s, or a region", name,
                           kvmill_list_words(kvmill_combiner_words, "", accepted));
    for (int32_t i = 0; i < n; i++) {
        arguments[i] = arguments[n + i] = elements[i];
        ops[i] =
            (kvmill_region_op){.name = name, .element = elements[i], .operands = {i, n + i, 0}};
        results[i] = replaces ? n + i : 2 * n + i;
    }
    kvmill_region region = {
        .arguments = arguments, .ops = ops, .op_count = replaces ? 0 : count, .results = results};
    return kvmill_program_make(&region, count, program, error);
}

bool kvmill_program_replaces(const struct kvmill_program *program) {
    for (int i = 0; i < program->results; i++)
        if (program->result[i] != program->results + i)
            return false;
    return true;
}

kvmill_element_type kvmill_program_capture(const struct kvmill_program *program, int capture) {
    for (int i = 0; i < program->ops; i++)
        if (program->is_capture[i] && program->constant[i][0] == (uint64_t)capture)
            return program->type[program->arguments + i];
    return kvmill_plain_element(kvmill_float32); /* unused captures are float32 */
}

/* ---- Running ---- */

void kvmill_program_begin(const struct kvmill_program *program,
                          const struct kvmill_scalar *captures, struct kvmill_scalar *values) {
    for (int i = 0; i < program->ops; i++)
        if (program->call[i].op == NULL)
            values[program->arguments + i] =
                program->is_capture[i]
                    ? captures[program->constant[i][0]]
                    : (struct kvmill_scalar){{program->constant[i][0], program->constant[i][1]}};
}

void kvmill_program_run(const struct kvmill_program *program, struct kvmill_scalar *values) {
    struct kvmill_scalar operands[3];
    for (int i = 0; i < program->ops; i++) {
        const struct kvmill_scalar_call *call = &program->call[i];
        if (call->op == NULL)
            continue;
        for (int k = 0; k < call->op->operands; k++)
            operands[k] = values[program->operand[i][k]];
        values[program->arguments + i] = kvmill_scalar_apply(call, operands);
    }
}
