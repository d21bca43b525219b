/* SPDX-License-Identifier: Apache-2.0 */
#include "region_text.h"

#include <inttypes.h>
#include <string.h>

#include "bounded.h"

/* ---- What kernels compute ---- */

enum {
    BOOLS = 1 << KVMILL_BOOL,
    INTS = 1 << KVMILL_INT | 1 << KVMILL_UINT,
    FLOATS = 1 << KVMILL_FLOAT,
    ALL = BOOLS | INTS | FLOATS
};

/* Ops, and kinds of operands, that C computes exactly in a few instructions. */
static const struct {
    const char *name;
    unsigned kinds;
} computed[] = {
    {"abs", ALL},
    {"add", ALL},
    {"and", ALL},
    {"ceil", ALL},
    {"clamp", ALL},
    {"compare", ALL},
    {"convert", ALL},
    {"count_leading_zeros", ALL},
    {"divide", ALL},
    {"floor", ALL},
    {"is_finite", ALL},
    {"maximum", ALL},
    {"minimum", ALL},
    {"multiply", ALL},
    {"negate", ALL},
    {"not", ALL},
    {"or", ALL},
    {"popcnt", ALL},
    {"remainder", INTS},
    {"round_nearest_afz", ALL},
    {"round_nearest_even", ALL},
    {"select", ALL},
    {"shift_left", ALL},
    {"shift_right_arithmetic", ALL},
    {"shift_right_logical", ALL},
    {"sign", ALL},
    {"subtract", ALL},
    {"xor", ALL},
};

static bool is_computed(const char *name, DLDataType type) {
    for (size_t i = 0; i < sizeof computed / sizeof *computed; i++)
        if (strcmp(computed[i].name, name) == 0)
            return (computed[i].kinds >> kvmill_kind_of(type) & 1) != 0;
    return false;
}

/* Floats of at least 16 bits. */
static bool has_type(const kvmill_element_type *type) {
    enum kvmill_kind kind = kvmill_kind_of(type->dtype);
    return !kvmill_is_quantized(type) && (ALL >> kind & 1) != 0 &&
           (kind != KVMILL_FLOAT || type->dtype.bits >= 16);
}

/* ---- Writing ---- */

struct writer {
    const struct kvmill_program *program;
    const kvmill_element_type *updates;
    struct kvmill_bounded out;
    bool is_needed[KVMILL_MOST_REGION_VALUES];
    int number[KVMILL_MOST_REGION_OPS]; /* of the steps that are kept */
};

static bool is_converted(const struct writer *writer, int slot) {
    return !kvmill_element_equal(&writer->updates[slot],
                                 &writer->program->type[writer->program->results + slot]);
}

static void add_value(struct writer *writer, int value) {
    int n = writer->program->results;
    if (value < n)
        kvmill_bounded_add(&writer->out, " r%d", value);
    else if (value < 2 * n)
        kvmill_bounded_add(&writer->out, " %c%d", is_converted(writer, value - n) ? 'w' : 'u',
                           value - n);
    else
        kvmill_bounded_add(&writer->out, " v%d", writer->number[value - 2 * n]);
}

static bool add_slots(struct writer *writer) {
    const struct kvmill_program *program = writer->program;
    struct kvmill_element_text words;
    for (int i = 0; i < program->results; i++) {
        const kvmill_element_type *result = &program->type[i], *update = &writer->updates[i];
        if (!has_type(result) || !has_type(update))
            return kvmill_bounded_refuse(
                &writer->out, "no kernel computes with elements of %s",
                kvmill_element_words(has_type(result) ? update : result, &words));
        kvmill_bounded_add(&writer->out, "slot %s %s; ", kvmill_element_word(result->dtype),
                           kvmill_element_word(update->dtype));
    }
    for (int i = 0; i < program->results; i++)
        if (is_converted(writer, i) && writer->is_needed[program->results + i])
            kvmill_bounded_add(&writer->out, "w%d convert %s %s u%d; ", i,
                               kvmill_element_word(program->type[program->results + i].dtype),
                               kvmill_element_word(writer->updates[i].dtype), i);
    return true;
}

/* The type of a step's operands; for select, of those that it chooses from. */
static const kvmill_element_type *operand_type(const struct kvmill_scalar_call *call) {
    return call->types[call->op->signature == KVMILL_CHOOSES];
}

static void add_number(struct writer *writer, int at) {
    const struct kvmill_program *program = writer->program;
    const char *word = kvmill_element_word(program->type[program->arguments + at].dtype);
    uint64_t value = program->constant[at][0];
    kvmill_bounded_add(&writer->out, "v%d %s %s %s ", writer->number[at],
                       program->is_capture[at] ? "capture" : "constant", word, word);
    kvmill_bounded_add(&writer->out, program->is_capture[at] ? "%" PRIu64 : "%" PRIx64, value);
}

static bool refuse_op(struct writer *writer, const struct kvmill_scalar_call *call) {
    struct kvmill_element_text words;
    return kvmill_bounded_refuse(&writer->out,
                                 "its region has an op that no kernel computes: %s of %s",
                                 call->op->name, kvmill_element_words(operand_type(call), &words));
}

static bool is_total(const struct kvmill_scalar_call *call, DLDataType type) {
    return call->total && strcmp(call->op->name, "compare") == 0 &&
           kvmill_kind_of(type) == KVMILL_FLOAT;
}

static bool add_call(struct writer *writer, int at) {
    static const char directions[][4] = {
        [KVMILL_EQ] = "_EQ", [KVMILL_NE] = "_NE", [KVMILL_GE] = "_GE",
        [KVMILL_GT] = "_GT", [KVMILL_LE] = "_LE", [KVMILL_LT] = "_LT",
    };
    const struct kvmill_scalar_call *call = &writer->program->call[at];
    DLDataType type = operand_type(call)->dtype;
    if (!is_computed(call->op->name, type))
        return refuse_op(writer, call);
    if (is_total(call, type))
        return kvmill_bounded_refuse(&writer->out,
                                     "its region compares floats in their total order");
    bool compares = strcmp(call->op->name, "compare") == 0;
    kvmill_bounded_add(&writer->out, "v%d %s%s %s %s", writer->number[at], call->op->name,
                       compares ? directions[call->direction] : "",
                       kvmill_element_word(call->result->dtype), kvmill_element_word(type));
    for (int i = 0; i < call->op->operands; i++)
        add_value(writer, writer->program->operand[at][i]);
    return true;
}

static bool add_step(struct writer *writer, int at) {
    const struct kvmill_program *program = writer->program;
    struct kvmill_element_text words;
    const kvmill_element_type *type = &program->type[program->arguments + at];
    if (!has_type(type))
        return kvmill_bounded_refuse(&writer->out, "no kernel computes with elements of %s",
                                     kvmill_element_words(type, &words));
    if (program->call[at].op == NULL)
        add_number(writer, at);
    else if (!add_call(writer, at))
        return false;
    kvmill_bounded_add(&writer->out, "; ");
    return true;
}

/* ---- What is needed ---- */

static void find_needed(struct writer *writer) {
    const struct kvmill_program *program = writer->program;
    for (int i = 0; i < program->results; i++)
        writer->is_needed[program->result[i]] = true;
    for (int at = program->ops - 1; at >= 0; at--) {
        const struct kvmill_scalar_op *op = program->call[at].op;
        for (int i = 0; op != NULL && i < op->operands; i++)
            writer->is_needed[program->operand[at][i]] |=
                writer->is_needed[program->arguments + at];
    }
    for (int at = 0, number = 0; at < program->ops; at++)
        if (writer->is_needed[program->arguments + at])
            writer->number[at] = number++;
}

bool kvmill_region_text_make(const struct kvmill_program *program,
                             const kvmill_element_type *updates, struct kvmill_region_text *text) {
    struct writer writer = {
        .program = program, .updates = updates, .out = {text->text, sizeof text->text, 0}};
    find_needed(&writer);
    if (!add_slots(&writer))
        return false;
    for (int at = 0; at < program->ops; at++)
        if (writer.is_needed[program->arguments + at] && !add_step(&writer, at))
            return false;
    kvmill_bounded_add(&writer.out, "return");
    for (int i = 0; i < program->results; i++)
        add_value(&writer, program->result[i]);
    return writer.out.length < writer.out.size ||
           kvmill_bounded_refuse(&writer.out, "its program is too long");
}
