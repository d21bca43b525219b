/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"

#include <inttypes.h>
#include <string.h>

#include "../defs/dtype.h"
#include "../defs/op_tables.h"
#include "attributes.h"
#include "flow_check.h"
#include "flow_tensors.h"
#include "refuse.h"

/* ---- Names ---- */

static kvmill_status check_new_name(const struct checker *checker, const char *name, bool taken) {
    kvmill_status status = kvmill_flow_check_name(checker, name);
    if (status != KVMILL_OK)
        return status;
    if (kvmill_flow_is_reserved(name))
        return REFUSE(checker, ATTRIBUTE, "the name is \"%s\", which is reserved", name);
    return taken ? REFUSE(checker, ATTRIBUTE, "the name is \"%s\"; accepted: one that is not taken",
                          name)
                 : KVMILL_OK;
}

/* ---- Numbers in a range ---- */

enum { MOST_LAYERS = 1 << 16 };

struct range {
    const char *list, *name;
    int64_t value, least, most;
};

static kvmill_status check_ranges(struct checker *checker, const struct range *ranges,
                                  size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct range *range = &ranges[i];
        set_place(checker, range->list, -1);
        if (range->value < range->least || range->value > range->most)
            return kvmill_refuse_number(KVMILL_E_ATTRIBUTE, range->name, "", range->value,
                                        (struct kvmill_range){range->least, range->most},
                                        checker->error);
    }
    return KVMILL_OK;
}

static kvmill_status check_lists(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    const struct {
        const char *list;
        const void *items;
        size_t count;
    } lists[] = {
        {"fields", flow->fields, flow->field_count},
        {"constants", flow->constants, flow->constant_count},
        {"cache", flow->cache, flow->cache_count},
        {"index", flow->index, flow->index_count},
        {"layers_skip", flow->layers_skip, flow->layers_skip_count},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        set_place(checker, lists[i].list, -1);
        if (lists[i].items == NULL && lists[i].count > 0)
            return REFUSE(checker, NULL, "is NULL; its count is %zu", lists[i].count);
    }
    return KVMILL_OK;
}

static kvmill_status check_counts(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    const struct range ranges[] = {
        {"fields", "the count", (int64_t)flow->field_count, 0, KVMILL_MOST_FLOW_FIELDS},
        {"constants", "the count", (int64_t)flow->constant_count, 0, KVMILL_MOST_FLOW_CONSTANTS},
        {"cache", "the count", (int64_t)flow->cache_count, 0, KVMILL_MOST_FLOW_OPS},
        {"index", "the count", (int64_t)flow->index_count, 0, KVMILL_MOST_FLOW_OPS},
        {"layers_skip", "the count", (int64_t)flow->layers_skip_count, 0, MOST_LAYERS},
    };
    kvmill_status status = check_ranges(checker, ranges, sizeof ranges / sizeof *ranges);
    return status == KVMILL_OK ? check_lists(checker) : status;
}

/* ---- Attention ---- */

static kvmill_status check_paged(struct checker *checker) {
    const kvmill_cache_attention *attention = checker->flow->attention;
    const struct range ranges[] = {
        {"attention", "dynamic_batching", attention->dynamic_batching != 0, 1, 1},
        {"attention", "cache_mode", attention->cache_mode, 1, 1},
        {"attention", "page_size", attention->page_size, 1, KVMILL_MOST_FLOW_DIM},
    };
    return check_ranges(checker, ranges, sizeof ranges / sizeof *ranges);
}

static kvmill_status refuse_tiles(struct checker *checker) {
    char words[KVMILL_WORDS_SIZE];
    return REFUSE(checker, ATTRIBUTE,
                  "cache_format is \"tiles\"; accepted in flows: NULL, %s, \"transposed\"",
                  kvmill_list_words(kvmill_block_words, "\"", words));
}

static kvmill_status check_attention(struct checker *checker) {
    set_place(checker, "attention", -1);
    if (checker->flow->attention == NULL)
        return REFUSE(checker, NULL, "attention is NULL");
    kvmill_status status = check_paged(checker);
    if (status == KVMILL_OK && kvmill_is_circular(checker->flow->attention->mode))
        return REFUSE(checker, ATTRIBUTE, "mode is \"circular\"; accepted: \"linear\"");
    if (status != KVMILL_OK)
        return status;
    status =
        kvmill_cache_attention_check(checker->flow->attention, KVMILL_MULTI_HEAD_CACHE_ATTENTION,
                                     &checker->problem->geometry, checker->error);
    if (status == KVMILL_OK && kvmill_has_tiles(&checker->problem->geometry))
        return refuse_tiles(checker);
    return status;
}

/* ---- Words ---- */

/* The index of a word in a list that ends with NULL; NULL counts as the first; -1 if there is none.
 */
static int place_of_word(const char *word, const char *const *words) {
    int place = 0;
    if (word == NULL)
        return 0;
    while (words[place] != NULL && strcmp(words[place], word) != 0)
        place++;
    return words[place] == NULL ? -1 : place;
}

static const char *const *words_of(const char *member) {
    return kvmill_op_member(kvmill_flow_op_def.parts[0], member)->words;
}

static kvmill_status check_words(struct checker *checker) {
    static const char *const orders[] = {"logical", "score", NULL};
    static const char *const scopes[] = {"kv_head", "query_head", "request", NULL};
    const kvmill_flow *flow = checker->flow;
    const struct {
        const char *list, *word;
        const char *const *words;
    } given[] = {
        {"select/order", flow->select.order, orders},
        {"select/scope", flow->select.scope, scopes},
        {"summary", flow->summary, words_of("summary")},
        {"field_layout", flow->field_layout, words_of("field_layout")},
        {"temporaries", flow->temporaries, words_of("temporaries")},
    };
    char accepted[KVMILL_WORDS_SIZE];
    int place[5];
    for (int i = 0; i < 5; i++) {
        place[i] = place_of_word(given[i].word, given[i].words);
        set_place(checker, given[i].list, -1);
        if (place[i] < 0)
            return REFUSE(checker, ATTRIBUTE, "is \"%.40s\"; accepted: %s", given[i].word,
                          kvmill_list_words(given[i].words, "\"", accepted));
    }
    checker->problem->by_score = place[0];
    checker->problem->scope = (enum kvmill_flow_scope)place[1];
    checker->problem->incremental = place[2];
    checker->problem->field_layout = (enum kvmill_field_layout)place[3];
    checker->problem->rounds = place[4];
    set_place(checker, "select/order", -1);
    if (place[0] && checker->problem->geometry.window > 0)
        return REFUSE(checker, ATTRIBUTE, "is \"score\"; accepted with a window: \"logical\"");
    return KVMILL_OK;
}

/* ---- Selection ---- */

/* The last page may be partial.  It then has a summary only if summaries grow with it. */
static kvmill_status check_tail(struct checker *checker) {
    const struct kvmill_flow_problem *problem = checker->problem;
    set_place(checker, "select/reserved_eos", -1);
    if (problem->budget.eos > 0 || problem->incremental)
        return KVMILL_OK;
    return REFUSE(checker, ATTRIBUTE,
                  "reserved_eos is 0; accepted: 1 or more, as the last page may be partial and "
                  "without a summary; 0 with summary \"incremental\"");
}

static kvmill_status check_select(struct checker *checker) {
    const kvmill_flow_select *select = &checker->flow->select;
    bool has_ratio = select->ratio_denominator != 0 || select->ratio_numerator != 0;
    const struct range ranges[] = {
        {"select/topk_val", "topk_val", select->topk_val, 0, KVMILL_FLOW_ALL},
        {"select/reserved_bos", "reserved_bos", select->reserved_bos, 0, KVMILL_FLOW_ALL},
        {"select/reserved_eos", "reserved_eos", select->reserved_eos, 0, KVMILL_FLOW_ALL},
        {"select/topk_ratio", "the denominator of topk_ratio", select->ratio_denominator, has_ratio,
         INT32_MAX},
        {"select/topk_ratio", "the numerator of topk_ratio", select->ratio_numerator, 0,
         select->ratio_denominator},
        {"select/cap", "cap", select->cap, 0, KVMILL_FLOW_ALL},
        {"select/dense_below", "dense_below", select->dense_below, 0, INT64_MAX},
    };
    checker->problem->budget = (struct kvmill_flow_budget){
        select->topk_val,        select->reserved_bos,      select->reserved_eos,
        select->ratio_numerator, select->ratio_denominator, select->cap,
        select->dense_below};
    kvmill_status status = check_ranges(checker, ranges, sizeof ranges / sizeof *ranges);
    return status == KVMILL_OK ? check_tail(checker) : status;
}

/* ---- Fields and constants ---- */

/* Whether a step has a tensor of this name.  A field must not have it, because fields are passed by
   name, too. */
static bool is_tensor_of(const struct op *op, const char *name) {
    for (int i = 0; i < op->tensor_count; i++)
        if (strcmp(op->tensors[i].name, name) == 0)
            return true;
    return false;
}

static bool is_tensor_name(const char *name) {
    return is_tensor_of(&kvmill_flow_op_def, name) ||
           is_tensor_of(&kvmill_cache_attention_ops[0], name);
}

static bool is_constant_name(const kvmill_flow *flow, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(flow->constants[i].name, name) == 0)
            return true;
    return false;
}

static kvmill_status refuse_tensor_name(const struct checker *checker, const char *name) {
    return REFUSE(checker, ATTRIBUTE, "the name is \"%s\", which is another tensor's", name);
}

/* A row for each slot, and a tensor current_NAME. */
static kvmill_status check_appended(struct checker *checker, int i) {
    struct kvmill_flow_problem *problem = checker->problem;
    const kvmill_flow_field *field = &checker->flow->fields[i];
    if (!kvmill_flow_is_appended(checker->flow, i))
        return KVMILL_OK;
    if (field->rows != problem->block_size)
        return REFUSE(checker, SHAPE,
                      "the shape is [%" PRId64 ", %" PRId64 "]; accepted of an appended field: a "
                      "row for each of the %" PRId64 " slots of a page or block",
                      field->rows, field->columns, problem->block_size);
    if (problem->appended_count == KVMILL_MOST_FLOW_APPENDED)
        return REFUSE(checker, ATTRIBUTE, "is one of more than %d that are appended",
                      KVMILL_MOST_FLOW_APPENDED);
    problem->fields[i].appended = problem->appended_count++;
    checker->written[i] = true;
    return KVMILL_OK;
}

/* As many matrices as kv heads, or one for several of them. */
static kvmill_status check_heads(struct checker *checker, int i) {
    struct kvmill_flow_problem *problem = checker->problem;
    int64_t kv_heads = problem->geometry.kv_heads;
    int64_t heads = checker->flow->field_heads != NULL ? checker->flow->field_heads[i] : 0;
    if (heads < 0 || (heads > 0 && kv_heads % heads != 0))
        return REFUSE(checker, ATTRIBUTE,
                      "heads is %" PRId64 "; accepted: a divisor of the %" PRId64
                      " kv heads, or 0: a matrix for each",
                      heads, kv_heads);
    problem->fields[i].heads = heads > 0 ? heads : kv_heads;
    return KVMILL_OK;
}

/* Appended rows are stored as they are.  Results of programs are rounded, and a bound would be
   wrong if float8 had no larger number for it. */
static kvmill_status check_type(struct checker *checker, int i) {
    DLDataType type = checker->flow->fields[i].dtype;
    int element = kvmill_element_of(type);
    bool comes = kvmill_flow_is_appended(checker->flow, i);
    const char *accepted[KVMILL_MOST_FORMATS + 1];
    char words[KVMILL_WORDS_SIZE];
    if (kvmill_flow_scales_of(checker->flow, i) != NULL)
        return kvmill_flow_check_codes(checker, i);
    if (comes ? kvmill_is_plain(element) : kvmill_is_activation(element))
        return KVMILL_OK;
    if (comes)
        kvmill_format_words(KVMILL_WITHOUT_SCALES, accepted);
    else
        kvmill_activation_words(accepted);
    struct kvmill_type_text is;
    return REFUSE(checker, DTYPE, "dtype is %s; accepted: %s", kvmill_type_words(type, &is),
                  kvmill_list_words(accepted, "", words));
}

static kvmill_status check_field(struct checker *checker, int i) {
    const kvmill_flow_field *field = &checker->flow->fields[i];
    const kvmill_flow before = {.fields = checker->flow->fields, .field_count = (size_t)i};
    set_place(checker, "fields", i);
    kvmill_status status = check_new_name(
        checker, field->name, field->name && kvmill_flow_find_field(&before, field->name) >= 0);
    if (status == KVMILL_OK && is_tensor_name(field->name))
        return refuse_tensor_name(checker, field->name);
    if (status == KVMILL_OK)
        status = kvmill_flow_check_dims(checker, field->rows, field->columns);
    if (status != KVMILL_OK)
        return status;
    status = check_type(checker, i);
    if (status != KVMILL_OK)
        return status;
    checker->problem->fields[i] = (struct kvmill_flow_field_data){
        .element = kvmill_element_of(field->dtype),
        .rows = field->rows,
        .columns = field->columns,
        .bytes = kvmill_dtype_bytes(field->dtype, field->rows * field->columns),
        .appended = -1,
        .scales = -1};
    status = check_heads(checker, i);
    return status == KVMILL_OK ? check_appended(checker, i) : status;
}

/* A constant without values is a tensor of each step. */
static kvmill_status check_input(struct checker *checker, int i) {
    struct kvmill_flow_problem *problem = checker->problem;
    const kvmill_flow_constant *constant = &checker->flow->constants[i];
    problem->constants[i].input = -1;
    if (constant->values != NULL)
        return KVMILL_OK;
    if (constant->taps != 1)
        return REFUSE(checker, SHAPE, "taps is %" PRId64 "; accepted of an input: 1",
                      constant->taps);
    if (is_tensor_name(constant->name))
        return refuse_tensor_name(checker, constant->name);
    if (problem->input_count == KVMILL_MOST_FLOW_INPUTS)
        return REFUSE(checker, ATTRIBUTE, "is one of more than %d inputs", KVMILL_MOST_FLOW_INPUTS);
    problem->constants[i].input = problem->input_count++;
    return KVMILL_OK;
}

static kvmill_status check_constant(struct checker *checker, int i) {
    const kvmill_flow *flow = checker->flow;
    const kvmill_flow_constant *constant = &flow->constants[i];
    const char *name = constant->name;
    set_place(checker, "constants", i);
    kvmill_status status = check_new_name(
        checker, name,
        name && (kvmill_flow_find_field(flow, name) >= 0 || is_constant_name(flow, i, name)));
    if (status == KVMILL_OK)
        status = kvmill_flow_check_dims(checker, constant->rows, constant->columns);
    if (status != KVMILL_OK)
        return status;
    if (constant->taps < 1 || constant->taps > KVMILL_MOST_FLOW_DIM)
        return REFUSE(checker, SHAPE, "taps is %" PRId64 "; accepted: 1 to %d", constant->taps,
                      (int)KVMILL_MOST_FLOW_DIM);
    checker->problem->constants[i] = (struct kvmill_flow_constant_data){
        constant->values,
        -1,
        {false, false, constant->taps, constant->rows, constant->columns},
    };
    return check_input(checker, i);
}

/* The tensors of new rows must not have names that the flow uses. */
static kvmill_status check_own_names(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    struct kvmill_flow_tensor tensor;
    for (int n = 0; kvmill_flow_tensor_at(flow, n, &tensor); n++) {
        bool is_taken = kvmill_flow_find_field(flow, tensor.name) >= 0 ||
                        is_constant_name(flow, (int)flow->constant_count, tensor.name) ||
                        is_tensor_name(tensor.name);
        set_place(checker, "fields", tensor.number);
        if (tensor.kind == KVMILL_FLOW_TENSOR_ROWS && is_taken)
            return REFUSE(checker, ATTRIBUTE,
                          "its rows come as \"%s\", which is another tensor's name", tensor.name);
    }
    return KVMILL_OK;
}

/* A bit for each field. */
static kvmill_status check_appended_bits(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    set_place(checker, "appended", -1);
    if (flow->appended >= 0 && flow->appended >> flow->field_count == 0)
        return KVMILL_OK;
    return REFUSE(checker, ATTRIBUTE, "is %" PRId64 "; accepted: bits of the %zu fields",
                  flow->appended, flow->field_count);
}

static kvmill_status check_declarations(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    kvmill_status status = check_appended_bits(checker);
    for (int i = 0; status == KVMILL_OK && i < (int)flow->field_count; i++)
        status = check_field(checker, i);
    for (int i = 0; status == KVMILL_OK && i < (int)flow->constant_count; i++)
        status = check_constant(checker, i);
    checker->problem->field_count = (int)flow->field_count;
    checker->problem->constant_count = (int)flow->constant_count;
    if (status == KVMILL_OK)
        status = check_own_names(checker);
    return status == KVMILL_OK ? kvmill_flow_check_scales(checker) : status;
}

/* ---- All of it ---- */

/* Layers are numbered like attention's. */
static kvmill_status check_layers(struct checker *checker) {
    const kvmill_flow *flow = checker->flow;
    const struct kvmill_cache_geometry *geometry = &checker->problem->geometry;
    set_place(checker, "layers_skip", -1);
    for (size_t i = 0; i < flow->layers_skip_count; i++) {
        if (flow->layers_skip[i] < 0)
            return REFUSE(checker, ATTRIBUTE, "has layer %" PRId64 "; accepted: 0 or more",
                          flow->layers_skip[i]);
        checker->problem->skipped |= flow->layers_skip[i] == geometry->layer;
    }
    if (checker->problem->skipped)
        checker->problem->budget.dense_below = INT64_MAX;
    return KVMILL_OK;
}

static kvmill_status set_blocks(struct checker *checker) {
    struct kvmill_flow_problem *problem = checker->problem;
    int64_t page = problem->geometry.page_size, block = checker->flow->block_size;
    set_place(checker, "block_size", -1);
    if (block < 0 || (block > 0 && page % block != 0))
        return REFUSE(checker, ATTRIBUTE,
                      "is %" PRId64 "; accepted: a divisor of page_size, %" PRId64
                      ", or 0: page_size",
                      block, page);
    problem->block_size = block > 0 ? block : page;
    problem->page_blocks = page / problem->block_size;
    return KVMILL_OK;
}

static kvmill_status set_group(struct checker *checker) {
    struct kvmill_flow_problem *problem = checker->problem;
    problem->group = problem->scope == KVMILL_SCOPE_QUERY_HEAD ? 1 : problem->geometry.ratio;
    return KVMILL_OK;
}

kvmill_status kvmill_flow_check(const kvmill_flow *flow, struct kvmill_flow_problem *problem,
                                struct kvmill_flow_place *place, kvmill_error *error) {
    static kvmill_status (*const checks[])(struct checker *) = {
        check_counts,
        check_attention,
        set_blocks,
        check_words,
        set_group,
        check_select,
        check_layers,
        check_declarations,
        kvmill_flow_check_fields_layout,
        kvmill_flow_check_programs,
    };
    struct checker checker = {.flow = flow, .problem = problem, .place = place, .error = error};
    memset(problem, 0, sizeof *problem);
    kvmill_status status = KVMILL_OK;
    for (size_t i = 0; status == KVMILL_OK && i < sizeof checks / sizeof *checks; i++)
        status = checks[i](&checker);
    return status;
}
