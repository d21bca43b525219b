/* SPDX-License-Identifier: Apache-2.0 */
#include "region_texts.h"

#include "case_table.h"

static const char *const types[] = {"f32", "f64", "f16",  "bf16", "i1",  "i2",
                                    "i4",  "i8",  "i16",  "i32",  "i64", "ui2",
                                    "ui4", "ui8", "ui16", "ui32", "ui64"};
enum { TYPES = sizeof types / sizeof *types };

/* ---- Random ones ---- */

/* An op: the kinds of types that it takes, by letters b(ool), i, u, f; and how many operands. */
struct op {
    const char *name, *kinds;
    int operands;
};

enum { OPS = 24, MOST_VALUES = 64 };
static struct op ops[OPS];

static void add_op(char *const *cell) {
    static int count;
    if (count == OPS)
        bail_out("more than %d ops in region_ops.tsv", OPS);
    ops[count++] = (struct op){strdup(cell[0]), strdup(cell[1]), atoi(cell[2])};
}

struct draft {
    struct dice *dice;
    const char *type[MOST_VALUES];
    char name[MOST_VALUES][16];
    int values, captures;
    const char *captured[16];
};

static const char *draw(struct dice *dice) {
    /* Floats as often as all other types. */
    return types[dice_once_in(dice, 2) ? dice_range(dice, 0, 3) : dice_range(dice, 0, TYPES - 1)];
}

static char kind_of(const char *type) {
    if (strcmp(type, "i1") == 0)
        return 'b';
    return type[0] == 'b' ? 'f' : type[0];
}

static int add_value(struct draft *draft, const char *type, const char *prefix) {
    int value = draft->values++;
    draft->type[value] = type;
    snprintf(draft->name[value], sizeof draft->name[0], "%s%d", prefix, value);
    return value;
}

/* Returns a value of the type, preferably a new one, or -1. */
static int pick(struct draft *draft, const char *type) {
    int found = -1;
    for (int value = draft->values - 1; value >= 0; value--)
        if (draft->type[value] == type && (found < 0 || dice_once_in(draft->dice, 2)))
            found = value;
    return found;
}

/* Prints "%a, %b". */
static void print_values(const struct draft *draft, const int *values, int count) {
    for (int i = 0; i < count; i++)
        printf("%s%%%s", i ? ", " : "", draft->name[values[i]]);
}

/* Prints "tensor<f32>, tensor<i1>", each with this quote and shape. */
static void print_tensors(const char *quote, const char *shape, const char *const *types_of,
                          int count) {
    for (int i = 0; i < count; i++)
        printf("%s%stensor<%s%s>%s", i ? ", " : "", quote, shape, types_of[i], quote);
}

/* Prints "%v3 = \"stablehlo.add\"(%a, %b) ATTRIBUTES : (...) -> ...". */
static void print_step(struct draft *draft, const char *name, const char *attributes,
                       const char *result, const int *operands, int count) {
    const char *operand_types[3];
    for (int i = 0; i < count; i++)
        operand_types[i] = draft->type[operands[i]];
    printf("%%v%d = \\\"stablehlo.%s\\\"(", draft->values, name);
    print_values(draft, operands, count);
    printf(")%s : (", attributes);
    print_tensors("", "", operand_types, count);
    printf(") -> tensor<%s> ", result);
    add_value(draft, result, "v");
}

static void print_op(struct draft *draft) {
    int first = (int)dice_range(draft->dice, 0, draft->values - 1), operands[3];
    const struct op *op;
    do
        op = &ops[dice_range(draft->dice, 0, OPS - 1)];
    while (strchr(op->kinds, kind_of(draft->type[first])) == NULL);
    for (int i = 0; i < op->operands; i++)
        operands[i] = pick(draft, draft->type[first]);
    operands[dice_range(draft->dice, 0, op->operands - 1)] = first;
    print_step(draft, op->name, "", draft->type[first], operands, op->operands);
}

static void print_compare(struct draft *draft) {
    static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    char attributes[48];
    int operands[2] = {(int)dice_range(draft->dice, 0, draft->values - 1)};
    operands[1] = pick(draft, draft->type[operands[0]]);
    snprintf(attributes, sizeof attributes, " {comparison_direction = %s}",
             directions[dice_range(draft->dice, 0, 5)]);
    print_step(draft, "compare", attributes, types[4], operands, 2);
}

static void print_select(struct draft *draft) {
    int first = (int)dice_range(draft->dice, 0, draft->values - 1);
    int operands[3] = {pick(draft, types[4]), first, pick(draft, draft->type[first])};
    if (operands[0] < 0)
        print_compare(draft);
    else
        print_step(draft, "select", "", draft->type[first], operands, 3);
}

static void print_is_finite(struct draft *draft) {
    int operand = (int)dice_range(draft->dice, 0, draft->values - 1);
    if (kind_of(draft->type[operand]) == 'f')
        print_step(draft, "is_finite", "", types[4], &operand, 1);
}

static void print_convert(struct draft *draft) {
    const char *type = draw(draft->dice);
    int operand = (int)dice_range(draft->dice, 0, draft->values - 1);
    print_step(draft, "convert", "", type, &operand, 1);
}

static void print_constant(struct draft *draft) {
    static const char *const numbers[] = {"0", "1", "2", "3", "1"};
    static const char *const floats[] = {"0.0", "-0.0", "1.5", "-3.25e+01", "0.1"};
    const char *type = draw(draft->dice);
    int which = (int)dice_range(draft->dice, 0, 4);
    const char *number = kind_of(type) == 'f' ? floats[which]
                         : kind_of(type) == 'b'
                             ? (which % 2 ? "true" : "false")
                             : numbers[type[strlen(type) - 1] == '2' ? which % 2 : which];
    printf("%%v%d = \\\"stablehlo.constant\\\"() {value = dense<%s> : tensor<%s>} : () -> "
           "tensor<%s> ",
           draft->values, number, type, type);
    add_value(draft, type, "v");
}

/* Adds a capture; prints nothing. */
static void take_capture(struct draft *draft) {
    if (draft->captures == 3)
        return;
    int value = draft->values++;
    draft->type[value] = draft->captured[draft->captures] = draw(draft->dice);
    snprintf(draft->name[value], sizeof draft->name[0], "capture%d", draft->captures++);
}

static void print_random(struct draft *draft) {
    static void (*const prints[])(struct draft *) = {
        print_constant, take_capture, print_compare, print_select, print_convert, print_is_finite};
    size_t which = (size_t)dice_range(draft->dice, 0, 11);
    (which < sizeof prints / sizeof *prints ? prints[which] : print_op)(draft);
}

/* Converts the last value to the type. */
static int print_result(struct draft *draft, const char *type) {
    int last = draft->values - 1;
    if (draft->type[last] != type)
        print_step(draft, "convert", "", type, &last, 1);
    return draft->values - 1;
}

static void print_return(struct draft *draft, const char *const *results, int slots) {
    int values[4];
    for (int i = 0; i < slots; i++) {
        print_random(draft);
        values[i] = print_result(draft, results[i]);
    }
    printf("stablehlo.return ");
    print_values(draft, values, slots);
    printf(" : ");
    print_tensors("", "", results, slots);
}

/* Prints arguments, then steps. */
static void print_region(struct draft *draft, const char *const *results, int slots) {
    printf("\"update_computation\": \"^bb0(");
    for (int i = 0; i < 2 * slots; i++) {
        int value = add_value(draft, results[i % slots], "a");
        printf("%s%%%s: tensor<%s>", i ? ", " : "", draft->name[value], results[i % slots]);
    }
    printf("): ");
    for (int64_t steps = dice_range(draft->dice, 1, 9); steps > 0; steps--)
        print_random(draft);
    print_return(draft, results, slots);
    printf("\"");
}

/* Returns a type that can be promoted to the result's. */
static const char *narrower(struct dice *dice, const char *result) {
    static const char *const promotions[][2] = {
        {"f16", "f32"}, {"bf16", "f32"}, {"f32", "f64"}, {"bf16", "f64"}, {"i8", "i32"},
        {"ui8", "i32"}, {"i16", "ui16"}, {"i4", "i8"},   {"ui32", "i64"}, {"f16", "bf16"},
    };
    size_t which = (size_t)dice_range(dice, 0, sizeof promotions / sizeof *promotions - 1);
    return strcmp(promotions[which][1], result) == 0 && dice_once_in(dice, 2) ? promotions[which][0]
                                                                              : result;
}

static void print_types(const char *key, const char *shape, const char *const *words, int slots) {
    printf("\"%s\": [", key);
    print_tensors("\"", shape, words, slots);
    printf("], ");
}

static void print_spec(struct dice *dice) {
    static const char *const indices[] = {"i32", "i64", "ui8", "i8"};
    const char *inputs[3], *results[3];
    bool rows = !dice_once_in(dice, 3);
    int slots = dice_once_in(dice, 2) ? 1 : (int)dice_range(dice, 2, 3);
    struct draft draft = {.dice = dice};
    for (int i = 0; i < slots; i++) {
        results[i] = draw(dice);
        inputs[i] = narrower(dice, results[i]);
    }
    printf("{\"op\": \"stablehlo.scatter\", ");
    print_types("inputs", rows ? "5x9x" : "5x", inputs, slots);
    print_types("updates", rows ? "7x9x" : "7x", inputs, slots);
    print_types("results", rows ? "5x9x" : "5x", results, slots);
    printf("\"scatter_indices\": \"tensor<7x1x%s>\", \"update_window_dims\": [%s], ",
           indices[dice_range(dice, 0, 3)], rows ? "1" : "");
    printf("\"inserted_window_dims\": [0], \"scatter_dims_to_operand_dims\": [0], "
           "\"index_vector_dim\": 1, ");
    print_region(&draft, results, slots);
    printf(", \"captures\": [");
    print_tensors("\"", "", draft.captured, draft.captures);
    printf("]}");
}

void print_random_regions(struct dice *dice, int count) {
    each_row("region_ops", 3, add_op);
    printf("{\"kernels\": [\n");
    for (int i = 0; i < count; i++) {
        print_spec(dice);
        printf("%s\n", i + 1 < count ? "," : "");
    }
    printf("]}\n");
}

/* ---- Reading back ---- */

static kvmill_element_type type_of(const char *word) {
    kvmill_element_type type = {.dtype = {0}};
    if (!kvmill_element_by_word(word, strlen(word), &type.dtype))
        bail_out("a kernel's region has the type %s", word);
    return type;
}

/* Returns a value's number: "r0", "u0" and "w0" are arguments, "v0" is a step. */
static int32_t value_of(const struct read_region *it, const char *word) {
    int number = atoi(word + 1);
    return word[0] == 'r' ? number : word[0] == 'v' ? 2 * it->slots + number : it->slots + number;
}

static void read_slot(struct read_region *it, char *words) {
    char *rest = words;
    strtok_r(rest, " ", &rest);
    it->result[it->slots] = type_of(strtok_r(NULL, " ", &rest));
    it->update[it->slots++] = type_of(strtok_r(NULL, " ", &rest));
}

static void read_number(kvmill_region_op *op, struct read_region *it, const char *word) {
    bool is_capture = strcmp(op->name, "capture") == 0;
    op->value[0] = strtoull(word, NULL, is_capture ? 10 : 16);
    if (is_capture && op->value[0] >= it->region.capture_count)
        it->region.capture_count = op->value[0] + 1;
    if (is_capture)
        it->capture[op->value[0]] = op->element;
}

/* Reads "v1 compare_LT i1 f32 r0 u0"; the types imply steps that begin with w. */
static void read_step(struct read_region *it, char *words) {
    char *rest = words, *word = strtok_r(rest, " ", &rest);
    kvmill_region_op *op = &it->ops[it->region.op_count];
    if (word[0] == 'w')
        return;
    *op = (kvmill_region_op){.name = strtok_r(NULL, " ", &rest)};
    op->element = type_of(strtok_r(NULL, " ", &rest));
    strtok_r(NULL, " ", &rest);
    if (strncmp(op->name, "compare_", 8) == 0) { /* "compare_GT", "compare_GT_TOTALORDER" */
        char *type = strchr(op->name + 8, '_');
        op->comparison_direction = op->name + 8;
        op->compare_type = type != NULL ? type + 1 : NULL;
        op->name = "compare";
        if (type != NULL)
            *type = '\0';
    }
    for (int i = 0; (word = strtok_r(NULL, " ", &rest)) != NULL; i++) {
        if (strcmp(op->name, "capture") == 0 || strcmp(op->name, "constant") == 0)
            read_number(op, it, word);
        else
            op->operands[i] = value_of(it, word);
    }
    it->region.op_count++;
}

static void read_return(struct read_region *it, char *words) {
    char *rest = words, *word = strtok_r(rest, " ", &rest);
    for (int i = 0; (word = strtok_r(NULL, " ", &rest)) != NULL; i++)
        it->returned[i] = value_of(it, word);
}

void read_region(const char *program, struct read_region *it) {
    char *rest, *statement;
    *it = (struct read_region){.slots = 0};
    snprintf(it->words, sizeof it->words, "%s", program);
    for (statement = strtok_r(it->words, ";", &rest); statement != NULL;
         statement = strtok_r(NULL, ";", &rest)) {
        statement += strspn(statement, " ");
        if (strncmp(statement, "slot ", 5) == 0)
            read_slot(it, statement);
        else if (strncmp(statement, "return ", 7) == 0)
            read_return(it, statement);
        else
            read_step(it, statement);
    }
    for (int i = 0; i < it->slots; i++)
        it->arguments[i] = it->arguments[it->slots + i] = it->result[i];
    it->region.arguments = it->arguments;
    it->region.ops = it->ops;
    it->region.results = it->returned;
}
