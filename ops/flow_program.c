/* Checks the programs of a flow: names become numbers, shapes are inferred, and every result must
   be used.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "flow_check.h"

/* ---- Values of a program ---- */

/* -1 if no value has this name. */
static int find_value(const struct checker *checker, const struct kvmill_flow_program *program,
                      const char *name) {
    int value = program->value_count - 1;
    while (value >= 0 && strcmp(checker->names[value], name) != 0)
        value--;
    return value;
}

/* By default, each kv head has a value of its own. */
static int add_value(struct checker *checker, struct kvmill_flow_program *program, const char *name,
                     enum kvmill_flow_source source, int number, struct kvmill_flow_shape shape) {
    checker->names[program->value_count] = name;
    program->values[program->value_count] = (struct kvmill_flow_value){
        .source = source, .number = number, .sharers = 1, .shape = shape};
    return program->value_count++;
}

/* In the cache program K, V and fields belong to one page, in the index program to all candidates.
 */
static void add_pages(struct checker *checker, struct kvmill_flow_program *program, bool index) {
    const struct kvmill_flow_problem *problem = checker->problem;
    const struct kvmill_cache_geometry *geometry = &problem->geometry;
    struct kvmill_flow_shape shape = {index, !index, 1, problem->block_size, geometry->key.dim};
    add_value(checker, program, "k", KVMILL_FLOW_KEY, 0, shape);
    shape.columns = geometry->value.dim;
    add_value(checker, program, "v", KVMILL_FLOW_VALUE, 0, shape);
    for (int i = 0; i < problem->field_count; i++) {
        shape = (struct kvmill_flow_shape){index, !index && kvmill_flow_grows(&problem->fields[i]),
                                           1, problem->fields[i].rows, problem->fields[i].columns};
        int value =
            add_value(checker, program, checker->flow->fields[i].name, KVMILL_FLOW_FIELD, i, shape);
        program->values[value].sharers = kvmill_flow_sharers(problem, i);
    }
}

static void add_row_values(struct checker *checker, struct kvmill_flow_program *program) {
    const struct kvmill_flow_problem *problem = checker->problem;
    add_value(
        checker, program, "q", KVMILL_FLOW_QUERY, 0,
        (struct kvmill_flow_shape){false, false, 1, problem->group, problem->geometry.key.dim});
    for (int i = 0; i < problem->constant_count; i++)
        add_value(checker, program, checker->flow->constants[i].name, KVMILL_FLOW_CONSTANT, i,
                  problem->constants[i].shape);
}

/* ---- An op ---- */

struct op_check {
    enum kvmill_flow_part part;
    const kvmill_flow_op *op;
    const struct kvmill_flow_kind *kind;
    struct kvmill_flow_program *program;
    struct kvmill_flow_step *step;
    int64_t sharers; /* kv heads for which all of its inputs are the same */
};

static kvmill_status check_kind(struct checker *checker, struct op_check *check) {
    static const char *const programs[] = {"the cache program", "the index program"};
    const char *name = check->op->op;
    if (name == NULL)
        return REFUSE(checker, NULL, "op is NULL");
    check->step->code = kvmill_flow_code_by_name(name);
    check->kind = kvmill_flow_kind_at(check->step->code);
    if (check->kind == NULL)
        return REFUSE(checker, ATTRIBUTE,
                      "\"%.40s\" is not an op of flows; accepted: GeMM, Mean, ...", name);
    if (!(check->kind->programs >> check->part & 1))
        return REFUSE(checker, ATTRIBUTE, "%s is an op of %s alone", name, programs[!check->part]);
    return KVMILL_OK;
}

static bool is_one_bit(unsigned bits) {
    return bits != 0 && (bits & (bits - 1)) == 0;
}

/* Dim 0 counts pages; the cache program has only one. */
static kvmill_status check_op_dims(struct checker *checker, const struct op_check *check) {
    unsigned dims = check->op->dims, accepted = check->kind->dims;
    if (!(check->kind->attributes & KVMILL_FLOW_DIMS))
        return KVMILL_OK;
    if (check->part == KVMILL_CACHE_PROGRAM)
        accepted &= ~1u;
    bool several = check->step->code == KVMILL_FLOW_KRON;
    if (dims != 0 && (dims & ~accepted) == 0 && (several || is_one_bit(dims)))
        return KVMILL_OK;
    return REFUSE(checker, ATTRIBUTE, "dim of %s; accepted: %s%s%s%s", check->kind->name,
                  several ? "some of " : "", accepted & 1 ? "0" : "",
                  (accepted & 7) == 7 ? ", " : "", accepted & 6 ? "1, 2" : "");
}

static kvmill_status check_finite(struct checker *checker, const struct op_check *check) {
    const struct {
        unsigned attribute;
        const char *name;
        double value;
    } numbers[] = {{KVMILL_FLOW_ALPHA, "alpha", check->op->alpha},
                   {KVMILL_FLOW_BETA, "beta", check->op->beta},
                   {KVMILL_FLOW_SCALE, "scale", check->op->scale}};
    for (int i = 0; i < 3; i++)
        if (check->kind->attributes & numbers[i].attribute && !isfinite((float)numbers[i].value))
            return REFUSE(checker, ATTRIBUTE, "%s is %g; accepted: a finite float32",
                          numbers[i].name, numbers[i].value);
    return KVMILL_OK;
}

/* Whether the index program would read rows of a partial page that are not there yet. */
static bool reads_missing_rows(const struct checker *checker, const struct op_check *check,
                               const struct kvmill_flow_value *value) {
    const struct kvmill_flow_problem *problem = checker->problem;
    bool rows =
        value->source == KVMILL_FLOW_KEY || value->source == KVMILL_FLOW_VALUE ||
        (value->source == KVMILL_FLOW_FIELD && kvmill_flow_grows(&problem->fields[value->number]));
    return rows && check->part == KVMILL_INDEX_PROGRAM && kvmill_flow_last_is_scored(problem);
}

/* A page that is reused still has the fields of its former contents. */
static kvmill_status check_readable(struct checker *checker, const struct op_check *check,
                                    const struct kvmill_flow_value *value, const char *name) {
    if (value->source == KVMILL_FLOW_FIELD && check->part == KVMILL_CACHE_PROGRAM &&
        !checker->written[value->number])
        return REFUSE(checker, ATTRIBUTE,
                      "reads field \"%s\", which the cache program has not written yet", name);
    if (reads_missing_rows(checker, check, value))
        return REFUSE(
            checker, ATTRIBUTE,
            "reads the rows of \"%s\", of which a partial page has not all; accepted with "
            "reserved_eos 0: fields that the cache program writes",
            name);
    if (value->shape.taps != 1 && check->step->code != KVMILL_FLOW_CONV1D)
        return REFUSE(checker, SHAPE, "%s reads \"%s\", which has several taps; accepted: Conv1d",
                      check->kind->name, name);
    if (check->step->code == KVMILL_FLOW_LOAD && value->source != KVMILL_FLOW_FIELD)
        return REFUSE(checker, ATTRIBUTE, "Load of \"%s\"; accepted: a field", name);
    return KVMILL_OK;
}

static kvmill_status check_input(struct checker *checker, struct op_check *check, int i,
                                 struct kvmill_flow_typing *typing) {
    const char *name = check->op->inputs[i];
    if (name == NULL)
        return REFUSE(checker, NULL, "%s has %d input%s; accepted: %d", check->kind->name, i,
                      i == 1 ? "" : "s", check->kind->inputs);
    int number = find_value(checker, check->program, name);
    if (number < 0)
        return REFUSE(
            checker, ATTRIBUTE,
            "reads \"%.48s\", which is not a field, a constant or an output of an earlier op",
            name);
    struct kvmill_flow_value *value = &check->program->values[number];
    value->uses++;
    check->step->input[i] = number;
    check->sharers = kvmill_common_divisor(check->sharers, value->sharers);
    typing->in[i] = value->shape;
    if (check->step->code == KVMILL_FLOW_CONV1D && i == 1 && value->source != KVMILL_FLOW_CONSTANT)
        return REFUSE(checker, ATTRIBUTE, "weights of Conv1d are \"%s\"; accepted: a constant",
                      name);
    return check_readable(checker, check, value, name);
}

static kvmill_status check_inputs(struct checker *checker, struct op_check *check,
                                  struct kvmill_flow_typing *typing) {
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < check->kind->inputs; i++)
        status = check_input(checker, check, i, typing);
    for (int i = check->kind->inputs; status == KVMILL_OK && i < 2; i++)
        if (check->op->inputs[i] != NULL)
            status = REFUSE(checker, ATTRIBUTE, "%s has more than %d input%s", check->kind->name,
                            check->kind->inputs, check->kind->inputs == 1 ? "" : "s");
    return status;
}

/* ---- What an op writes ---- */

static kvmill_status check_fits(struct checker *checker, const struct op_check *check,
                                const struct kvmill_flow_shape *shape) {
    const struct kvmill_flow_field_data *field = &checker->problem->fields[check->step->field];
    struct kvmill_flow_shape_text words;
    if (shape->rows != field->rows || shape->columns != field->columns)
        return REFUSE(checker, SHAPE, "%s gives %s, field \"%s\" is [%" PRId64 ", %" PRId64 "]",
                      check->kind->name, kvmill_flow_shape_words(shape, &words), check->op->output,
                      field->rows, field->columns);
    if (shape->tokens && checker->problem->incremental)
        return REFUSE(checker, SHAPE,
                      "field \"%s\" has a row for each of the page's; accepted with "
                      "\"incremental\" summaries: what does not depend on rows that are not "
                      "there yet",
                      check->op->output);
    if (checker->written[check->step->field] && check->part == KVMILL_CACHE_PROGRAM)
        return REFUSE(checker, ATTRIBUTE, "field \"%s\" is written %s", check->op->output,
                      kvmill_flow_grows(field) ? "by append: its rows come with tokens"
                                               : "a second time");
    return KVMILL_OK;
}

/* A matrix that kv heads share must not depend on values that each has for itself. */
static kvmill_status check_shared(struct checker *checker, const struct op_check *check) {
    const struct kvmill_flow_problem *problem = checker->problem;
    int64_t sharers = kvmill_flow_sharers(problem, check->step->field);
    if (check->sharers % sharers == 0)
        return KVMILL_OK;
    return REFUSE(checker, ATTRIBUTE,
                  "field \"%s\" is one for %" PRId64
                  " kv heads, and written from what is one for %" PRId64
                  "; accepted: fields that as many share",
                  check->op->output, sharers, check->sharers);
}

static kvmill_status write_field(struct checker *checker, struct op_check *check,
                                 const struct kvmill_flow_shape *shape) {
    int field = check->step->field;
    kvmill_status status = check_fits(checker, check, shape);
    if (status == KVMILL_OK)
        status = check_shared(checker, check);
    if (status == KVMILL_OK) {
        checker->written[field] = true;
        checker->writer[field] = check->step->code;
    }
    return status;
}

static kvmill_status save_field(struct checker *checker, struct op_check *check,
                                const struct kvmill_flow_shape *shape) {
    struct kvmill_flow_field_data *field = &checker->problem->fields[check->step->field];
    if (checker->writer[check->step->field] != KVMILL_FLOW_FILL)
        return REFUSE(checker, ATTRIBUTE,
                      "Save to \"%s\", which the cache program does not Fill: a page that is used "
                      "again would keep its old state",
                      check->op->output);
    if (!shape->ragged)
        return REFUSE(checker, SHAPE,
                      "Save of what is the same for all pages; accepted: a matrix "
                      "for each page");
    if (checker->problem->scope == KVMILL_SCOPE_QUERY_HEAD && checker->problem->geometry.ratio > 1)
        return REFUSE(checker, ATTRIBUTE,
                      "Save with scope \"query_head\": query heads of a group share their fields; "
                      "accepted: another scope");
    if (kvmill_flow_sharers(checker->problem, check->step->field) > 1)
        return REFUSE(checker, ATTRIBUTE,
                      "Save to \"%s\", which kv heads share; accepted: a field with a matrix for "
                      "each kv head",
                      check->op->output);
    if (field->saved)
        return REFUSE(checker, ATTRIBUTE, "field \"%s\" is saved a second time", check->op->output);
    field->saved = true;
    return check_fits(checker, check, shape);
}

static kvmill_status refuse_output(struct checker *checker, const struct op_check *check,
                                   const char *accepted) {
    return REFUSE(checker, ATTRIBUTE, "%s writes to \"%.48s\"; accepted: %s", check->kind->name,
                  check->op->output, accepted);
}

static kvmill_status check_new_value(struct checker *checker, struct op_check *check,
                                     const struct kvmill_flow_shape *shape) {
    const char *name = check->op->output;
    kvmill_status status = kvmill_flow_check_name(checker, name);
    if (status != KVMILL_OK)
        return status;
    if (find_value(checker, check->program, name) >= 0)
        return refuse_output(checker, check, "a name that is not given yet");
    status = kvmill_flow_check_dims(checker, shape->rows, shape->columns);
    if (status != KVMILL_OK)
        return status;
    check->step->output = add_value(checker, check->program, name, KVMILL_FLOW_RESULT,
                                    check->program->step_count, *shape);
    check->program->values[check->step->output].sharers = check->sharers;
    return KVMILL_OK;
}

/* From here on, the name refers to what was stored. */
static kvmill_status write_rows(struct checker *checker, struct op_check *check,
                                const struct kvmill_flow_shape *shape) {
    check->step->side = check->op->output[0] == 'v';
    kvmill_status status = kvmill_flow_check_rows(checker, check->step, shape);
    if (status != KVMILL_OK)
        return status;
    checker->problem->writes[check->step->side] = true;
    check->step->output = add_value(checker, check->program, check->op->output, KVMILL_FLOW_RESULT,
                                    check->program->step_count, *shape);
    check->program->values[check->step->output].uses++;
    return KVMILL_OK;
}

static bool is_rows(const struct op_check *check) {
    const char *name = check->op->output;
    return check->part == KVMILL_CACHE_PROGRAM &&
           (strcmp(name, "k") == 0 || strcmp(name, "v") == 0);
}

static kvmill_status check_output(struct checker *checker, struct op_check *check,
                                  const struct kvmill_flow_shape *shape) {
    const char *name = check->op->output;
    int code = check->step->code;
    int field = check->step->field = name ? kvmill_flow_find_field(checker->flow, name) : -1;
    if (kvmill_flow_is_selection(code))
        return name == NULL ? KVMILL_OK : refuse_output(checker, check, "no output");
    if (name == NULL)
        return REFUSE(checker, NULL, "output of %s is missing; accepted: a name", check->op->op);
    if (is_rows(check))
        return write_rows(checker, check, shape);
    if (kvmill_flow_is_reserved(name))
        return refuse_output(checker, check,
                             check->part == KVMILL_CACHE_PROGRAM ? "what is not q"
                                                                 : "what is neither q, k nor v");
    if ((code == KVMILL_FLOW_FILL || code == KVMILL_FLOW_SAVE) && field < 0)
        return refuse_output(checker, check,
                             code == KVMILL_FLOW_FILL ? "a field, k or v" : "a field");
    if (code == KVMILL_FLOW_SAVE)
        return save_field(checker, check, shape);
    if (field >= 0 && check->part == KVMILL_INDEX_PROGRAM)
        return refuse_output(checker, check, "a new name; Save writes fields");
    return field >= 0 ? write_field(checker, check, shape) : check_new_value(checker, check, shape);
}

/* Fill has the shape of its field, or of the page's rows. */
static kvmill_status infer(struct checker *checker, struct op_check *check,
                           struct kvmill_flow_typing *typing) {
    int field = check->op->output ? kvmill_flow_find_field(checker->flow, check->op->output) : -1;
    if (check->kind->infer != NULL)
        return check->kind->infer(typing);
    if (field >= 0)
        typing->out =
            (struct kvmill_flow_shape){false, false, 1, checker->problem->fields[field].rows,
                                       checker->problem->fields[field].columns};
    else if (check->op->output != NULL && is_rows(check))
        typing->out = check->program->values[check->op->output[0] == 'v'].shape;
    return KVMILL_OK;
}

/* Selection is exact, so topK keeps the promise of approxTopK. */
static void set_attributes(const kvmill_flow_op *op, struct kvmill_flow_step *step) {
    if (step->code == KVMILL_FLOW_APPROX_TOPK)
        step->code = KVMILL_FLOW_TOPK;
    step->alpha = (float)op->alpha;
    step->beta = (float)op->beta;
    step->scale = (float)op->scale;
    step->dims = op->dims;
    step->group = op->group;
    step->start = op->start;
    step->end = op->end;
}

static kvmill_status check_op(struct checker *checker, struct op_check *check) {
    *check->step =
        (struct kvmill_flow_step){.input = {-1, -1}, .output = -1, .field = -1, .side = -1};
    kvmill_status status = check_kind(checker, check);
    struct kvmill_flow_typing typing = {
        check->op, check->kind, {{0}}, {0}, checker->problem->incremental, checker->error};
    if (status == KVMILL_OK)
        status = check_op_dims(checker, check);
    if (status == KVMILL_OK)
        status = check_finite(checker, check);
    if (status == KVMILL_OK)
        status = check_inputs(checker, check, &typing);
    if (status == KVMILL_OK)
        status = infer(checker, check, &typing);
    set_attributes(check->op, check->step);
    return status == KVMILL_OK ? check_output(checker, check, &typing.out) : status;
}

/* ---- Unused results ---- */

static kvmill_status check_used(struct checker *checker, const struct kvmill_flow_program *program,
                                const char *list) {
    for (int i = 0; i < program->value_count; i++) {
        const struct kvmill_flow_value *value = &program->values[i];
        bool is_dead = value->uses == 0 && (value->source == KVMILL_FLOW_RESULT ||
                                            value->source == KVMILL_FLOW_CONSTANT);
        set_place(checker, value->source == KVMILL_FLOW_RESULT ? list : "constants", value->number);
        if (is_dead)
            return REFUSE(checker, ATTRIBUTE, "\"%s\" is never used", checker->names[i]);
    }
    return KVMILL_OK;
}

/* A field that no op reads may be meant for other readers of the cache. */
static kvmill_status check_fields_written(struct checker *checker) {
    for (int i = 0; i < checker->problem->field_count; i++) {
        set_place(checker, "fields", i);
        if (!checker->written[i])
            return REFUSE(checker, ATTRIBUTE, "\"%s\" is never written by the cache program",
                          checker->flow->fields[i].name);
    }
    return KVMILL_OK;
}

/* ---- Programs ---- */

static kvmill_status check_ops(struct checker *checker, enum kvmill_flow_part part,
                               const kvmill_flow_op *ops, size_t count, const char *list) {
    struct kvmill_flow_program *program = &checker->problem->programs[part];
    kvmill_status status = KVMILL_OK;
    for (size_t i = 0; status == KVMILL_OK && i < count; i++) {
        struct op_check check = {
            part, &ops[i], NULL, program, &program->steps[i], checker->problem->geometry.kv_heads};
        set_place(checker, list, (int)i);
        status = check_op(checker, &check);
        program->step_count++;
    }
    return status == KVMILL_OK ? check_used(checker, program, list) : status;
}

static kvmill_status check_cache(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    add_pages(checker, &checker->problem->programs[KVMILL_CACHE_PROGRAM], false);
    return check_ops(checker, KVMILL_CACHE_PROGRAM, flow->cache, flow->cache_count, "cache");
}

/* Exactly one topK or Union, unless nothing is ever scored. */
static kvmill_status check_selection(struct checker *checker) {
    const struct kvmill_flow_program *program = &checker->problem->programs[KVMILL_INDEX_PROGRAM];
    int count = 0;
    for (int i = 0; i < program->step_count; i++) {
        const struct kvmill_flow_step *step = &program->steps[i];
        if (kvmill_flow_is_selection(step->code) && ++count > 1) {
            set_place(checker, "index", i);
            return REFUSE(checker, ATTRIBUTE, "a second topK or Union; accepted: one");
        }
        if (step->code == KVMILL_FLOW_UNION)
            checker->problem->second = step->group;
    }
    set_place(checker, "index", -1);
    bool may_be_none = program->step_count == 0 && !kvmill_flow_scores(&checker->problem->budget);
    return count == 1 || may_be_none ? KVMILL_OK
                                     : REFUSE(checker, ATTRIBUTE,
                                              "there is no topK or Union; accepted: one, or no op "
                                              "at all where no page is ever scored");
}

static kvmill_status check_index(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    struct kvmill_flow_program *program = &checker->problem->programs[KVMILL_INDEX_PROGRAM];
    add_pages(checker, program, true);
    add_row_values(checker, program);
    kvmill_status status =
        check_ops(checker, KVMILL_INDEX_PROGRAM, flow->index, flow->index_count, "index");
    return status == KVMILL_OK ? check_selection(checker) : status;
}

kvmill_status kvmill_flow_check_programs(struct checker *checker) {
    kvmill_status status = check_cache(checker);
    if (status == KVMILL_OK)
        status = check_index(checker);
    return status == KVMILL_OK ? check_fields_written(checker) : status;
}
