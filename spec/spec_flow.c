/* Sparse flows in spec files: fields, a cache program, an index program, a selection.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "flow_spec.h"
#include "spec_flow_op.h"
#include "spec_keys.h"

const kvmill_flow *flow_of_spec(const struct spec *spec) {
    return &spec->flow->flow;
}

/* ---- Attention ---- */

static void set_default(json_t *object, const char *key, json_t *value) {
    if (json_object_get(object, key) == NULL)
        json_object_set_new(object, key, value);
    else
        json_decref(value);
}

/* Reads the attention as a spec of its own, of the op that stores into pages and attends.  Masks
   are off by default. */
static bool read_attention(const struct json_place *place, struct flow_spec *flow,
                           struct error *error) {
    struct json_place member = json_member(place, "attention");
    struct spec *spec = &flow->attention;
    if (!json_get_object(&member, error))
        return false;
    const struct op *op = kvmill_op_by_name("dynamic_batching.MultiHeadCacheAttention");
    snprintf(spec->where, sizeof spec->where, "%.120s: %s", member.file, member.path);
    member.value = json_copy(member.value);
    if (member.value == NULL)
        return out_of_memory(error);
    set_default(member.value, "cache_mode", json_integer(1));
    set_default(member.value, "attn_mask", json_false());
    bool done = spec_read_with(&member, spec, &cache_attention_specs, op, error);
    json_decref(member.value);
    flow->flow.attention = &spec->attention.op;
    return done;
}

/* ---- Lists ---- */

typedef bool read_item(const struct json_place *place, struct flow_spec *flow, size_t i,
                       struct error *error);

/* Reads a list; an absent list is empty. */
static bool read_list(const struct json_place *place, const char *key, size_t most,
                      struct flow_spec *flow, read_item *item, size_t *count, struct error *error) {
    struct json_place member = json_member(place, key);
    *count = 0;
    if (member.value == NULL)
        return true;
    if (!json_get_array(&member, error))
        return false;
    size_t given = json_array_size(member.value);
    if (given > most)
        return json_fail(error, &member, "has %zu items; accepted: at most %zu", given, most);
    for (; *count < given; ++*count) {
        struct json_place element = json_element(&member, *count);
        if (!item(&element, flow, *count, error))
            return false;
    }
    return true;
}

/* ---- Fields and constants ---- */

/* Reads an element type; the default is the type of activations. */
static bool read_dtype(const struct json_place *place, const kvmill_flow *flow, DLDataType *type,
                       struct error *error) {
    const char *words[KVMILL_MOST_FORMATS + 2];
    struct json_place member = json_member(place, "dtype");
    size_t count = 0;
    kvmill_format_words(KVMILL_WITHOUT_SCALES, words);
    while (words[count] != NULL)
        count++;
    words[count] = json_object_get(place->value, "scales") != NULL ? "int8" : NULL;
    words[count + 1] = NULL;
    *type = flow->attention->T1;
    return member.value == NULL || spec_read_type(&member, words, type, error);
}

/* Reads how many kv heads' matrices the field has. */
static bool read_heads(const struct json_place *place, struct flow_spec *flow, size_t i,
                       struct error *error) {
    struct json_place heads = json_member(place, "heads");
    if (heads.value == NULL)
        return true;
    flow->flow.field_heads = flow->field_heads;
    return json_get_integer(&heads, INT32_MIN, INT32_MAX, &flow->field_heads[i], error);
}

/* Reads which field has this field's scales, and whether the scales are powers of two. */
static bool read_scales(const struct json_place *place, struct flow_spec *flow, size_t i,
                        struct error *error) {
    struct json_place scales = json_member(place, "scales");
    struct json_place powers = json_member(place, "powers_of_two");
    int32_t are_powers = 0;
    if (scales.value != NULL)
        flow->flow.field_scales = flow->field_scales;
    if ((scales.value != NULL && !json_get_string(&scales, &flow->field_scales[i], error)) ||
        (powers.value != NULL && !spec_read_flag(&powers, &are_powers, error)))
        return false;
    flow->flow.powers |= (int64_t)(are_powers != 0) << i;
    return true;
}

static bool read_field(const struct json_place *place, struct flow_spec *flow, size_t i,
                       struct error *error) {
    static const char *const known[] = {"name",  "shape",  "dtype",         "appended",
                                        "heads", "scales", "powers_of_two", NULL};
    struct json_place appended = json_member(place, "appended");
    kvmill_flow_field *field = &flow->fields[i];
    int32_t is_appended = 0;
    int64_t dims[3];
    struct json_place name = json_member(place, "name"), shape = json_member(place, "shape");
    if (!json_get_object(place, error) || !json_only_keys(place, known, error) ||
        !json_get_string(&name, &field->name, error) ||
        !flow_read_dims(&shape, flow, 2, 2, dims, error) || !read_heads(place, flow, i, error) ||
        !read_scales(place, flow, i, error) ||
        (appended.value != NULL && !spec_read_flag(&appended, &is_appended, error)))
        return false;
    flow->flow.appended |= (int64_t)(is_appended != 0) << i;
    field->rows = dims[0];
    field->columns = dims[1];
    return read_dtype(place, &flow->flow, &field->dtype, error);
}

static bool read_float(const struct json_place *place, float *value, struct error *error) {
    double real;
    if (!spec_read_real(place, &real, error))
        return false;
    *value = (float)real;
    return isfinite(*value) || json_fail(error, place, "is %g; accepted: a finite float32", real);
}

/* Reads one number for all values, or a list of them in row-major order. */
static bool read_values(const struct json_place *place, size_t count, float *values,
                        struct error *error) {
    bool one = json_is_number(place->value);
    if (json_is_string(place->value))
        return json_fail(error, place,
                         "is \"%.40s\"; accepted: a number, a list of them, \"input\"",
                         json_string_value(place->value));
    if (!one && !json_get_array(place, error))
        return false;
    if (!one && json_array_size(place->value) != count)
        return json_fail(error, place, "has %zu numbers; accepted: one for all, or %zu",
                         json_array_size(place->value), count);
    for (size_t i = 0; i < count; i++) {
        struct json_place element = one ? *place : json_element(place, i);
        if (!read_float(&element, &values[i], error))
            return false;
    }
    return true;
}

static bool read_constant_shape(const struct json_place *place, const struct flow_spec *flow,
                                kvmill_flow_constant *constant, size_t *count,
                                struct error *error) {
    int64_t dims[3] = {1, 1, 1}, elements = 1;
    if (!flow_read_dims(place, flow, 2, 3, dims, error))
        return false;
    for (int d = 0; d < 3; d++) {
        if (dims[d] < 1 || dims[d] > KVMILL_MOST_FLOW_ELEMENTS / elements)
            return json_fail(error, place,
                             "has a dim of %" PRId64 "; accepted: positive dims, %d "
                             "elements at most",
                             dims[d], (int)KVMILL_MOST_FLOW_ELEMENTS);
        elements *= dims[d];
    }
    *constant = (kvmill_flow_constant){constant->name, dims[0], dims[1], dims[2], NULL};
    *count = (size_t)elements;
    return true;
}

/* Whether the values come with each step. */
static bool is_input(const struct json_place *values) {
    const char *word = json_string_value(values->value);
    return word != NULL && strcmp(word, "input") == 0;
}

static bool read_constant(const struct json_place *place, struct flow_spec *flow, size_t i,
                          struct error *error) {
    static const char *const known[] = {"name", "shape", "values", NULL};
    kvmill_flow_constant *constant = &flow->constants[i];
    size_t count = 0;
    struct json_place name = json_member(place, "name"), shape = json_member(place, "shape");
    struct json_place values = json_member(place, "values");
    if (!json_get_object(place, error) || !json_only_keys(place, known, error) ||
        !json_get_string(&name, &constant->name, error) ||
        !read_constant_shape(&shape, flow, constant, &count, error))
        return false;
    if (is_input(&values))
        return true;
    flow->values[i] = malloc(count * sizeof *flow->values[i]);
    constant->values = flow->values[i];
    return flow->values[i] != NULL ? read_values(&values, count, flow->values[i], error)
                                   : out_of_memory(error);
}

/* ---- Programs ---- */

static bool read_cache_op(const struct json_place *place, struct flow_spec *flow, size_t i,
                          struct error *error) {
    return flow_read_op(place, flow, &flow->ops[KVMILL_CACHE_PROGRAM][i], error);
}

static bool read_index_op(const struct json_place *place, struct flow_spec *flow, size_t i,
                          struct error *error) {
    return flow_read_op(place, flow, &flow->ops[KVMILL_INDEX_PROGRAM][i], error);
}

/* ---- Selection ---- */

static bool read_count(const struct json_place *place, const char *key, int64_t *count,
                       struct error *error) {
    struct json_place member = json_member(place, key);
    return member.value == NULL || json_get_integer(&member, INT64_MIN, INT64_MAX, count, error);
}

/* Reads a count, "all", or a word of dims. */
static bool read_topk_val(const struct json_place *place, const struct flow_spec *flow, int64_t *k,
                          struct error *error) {
    struct json_place member = json_member(place, "topk_val");
    const char *word = json_string_value(member.value);
    if (word == NULL)
        return read_count(place, "topk_val", k, error);
    *k = strcmp(word, "all") == 0 ? KVMILL_FLOW_ALL : flow_word(flow, word, strlen(word));
    return *k > 0 || json_fail(error, &member,
                               "is \"%.40s\"; accepted: a count, \"all\", a word of dims", word);
}

/* Reads a ratio as an exact fraction: floats would be off, and 0.1 of 30 pages is 3 of them. */
static bool read_ratio(const struct json_place *place, kvmill_flow_select *select,
                       struct error *error) {
    struct json_place member = json_member(place, "topk_ratio");
    const char *text = json_string_value(member.value);
    int used = 0;
    if (member.value == NULL)
        return true;
    select->ratio_denominator = 1;
    if (json_is_integer(member.value))
        return json_get_integer(&member, 0, 1, &select->ratio_numerator, error);
    bool is_fraction = text != NULL && strspn(text, "-0123456789/") == strlen(text) &&
                       strlen(text) < 20 &&
                       sscanf(text, "%" SCNd64 "/%" SCNd64 "%n", &select->ratio_numerator,
                              &select->ratio_denominator, &used) == 2;
    return (is_fraction && text[used] == '\0') ||
           json_fail(error, &member, "is not a fraction; accepted: \"1/16\" and the like, 0, 1");
}

static bool read_select(const struct json_place *place, const struct flow_spec *flow,
                        kvmill_flow_select *select, struct error *error) {
    static const char *const known[] = {"topk_val",   "reserved_bos", "reserved_eos",
                                        "topk_ratio", "cap",          "dense_below",
                                        "order",      "scope",        NULL};
    struct json_place member = json_member(place, "select");
    *select = (kvmill_flow_select){.topk_val = 30, .reserved_bos = 1, .reserved_eos = 1};
    if (member.value == NULL)
        return true;
    return json_get_object(&member, error) && json_only_keys(&member, known, error) &&
           read_topk_val(&member, flow, &select->topk_val, error) &&
           read_count(&member, "reserved_bos", &select->reserved_bos, error) &&
           read_count(&member, "reserved_eos", &select->reserved_eos, error) &&
           read_count(&member, "cap", &select->cap, error) &&
           read_count(&member, "dense_below", &select->dense_below, error) &&
           read_ratio(&member, select, error) &&
           flow_read_word(&member, "order", &select->order, error) &&
           flow_read_word(&member, "scope", &select->scope, error);
}

/* ---- The whole flow ---- */

/* Reports a message of ops/flow.c at its place in the file. */
static bool say_at(const struct spec *spec, const struct kvmill_flow_place *place,
                   const kvmill_error *reason, struct error *error) {
    const char *slash = spec->where[strlen(spec->where) - 1] == '/' ? "" : "/";
    if (place->list == NULL)
        return fail(error, EXIT_USER, "%s: %s", spec->where, reason->message);
    if (place->number < 0)
        return fail(error, EXIT_USER, "%s%s%s: %s", spec->where, slash, place->list,
                    reason->message);
    return fail(error, EXIT_USER, "%s%s%s/%d: %s", spec->where, slash, place->list, place->number,
                reason->message);
}

static bool check_flow(const struct spec *spec, struct error *error) {
    struct kvmill_flow_problem problem;
    struct kvmill_flow_place place = {0};
    kvmill_error reason;
    kvmill_status status = kvmill_flow_check(&spec->flow->flow, &problem, &place, &reason);
    if (status == KVMILL_OK)
        return true;
    say_at(spec, &place, &reason, error);
    error->status = status;
    return false;
}

static bool read_lists(const struct json_place *place, struct flow_spec *spec,
                       struct error *error) {
    kvmill_flow *flow = &spec->flow;
    flow->fields = spec->fields;
    flow->constants = spec->constants;
    flow->cache = spec->ops[KVMILL_CACHE_PROGRAM];
    flow->index = spec->ops[KVMILL_INDEX_PROGRAM];
    return read_list(place, "fields", KVMILL_MOST_FLOW_FIELDS, spec, read_field, &flow->field_count,
                     error) &&
           read_list(place, "constants", KVMILL_MOST_FLOW_CONSTANTS, spec, read_constant,
                     &flow->constant_count, error) &&
           read_list(place, "cache", KVMILL_MOST_FLOW_OPS, spec, read_cache_op, &flow->cache_count,
                     error) &&
           read_list(place, "index", KVMILL_MOST_FLOW_OPS, spec, read_index_op, &flow->index_count,
                     error);
}

static bool read_layer(const struct json_place *place, struct flow_spec *spec, size_t i,
                       struct error *error) {
    return json_get_integer(place, 0, INT32_MAX, &spec->layers_skip[i], error);
}

static bool read_layers(const struct json_place *place, struct flow_spec *spec,
                        struct error *error) {
    spec->flow.layers_skip = spec->layers_skip;
    return read_list(place, "layers_skip", KVMILL_MOST_FLOW_LAYERS, spec, read_layer,
                     &spec->flow.layers_skip_count, error);
}

static bool begin_flow(struct spec *spec, struct error *error) {
    struct flow_spec *flow = spec->flow = calloc(1, sizeof *flow);
    if (flow == NULL)
        return out_of_memory(error);
    spec_init_parts(spec);
    return true;
}

static void *flow_part(struct spec *spec, int number) {
    (void)number;
    return &spec->flow->flow;
}

/* Reads dims.  complete_flow() reads the members that depend on others. */
static bool read_own(const struct json_place *place, struct spec *spec,
                     const struct op_member *member, struct error *error) {
    const char *word;
    json_t *value;
    if (strcmp(member->name, "dims") != 0)
        return true;
    if (!json_get_object(place, error))
        return false;
    json_object_foreach(place->value, word, value) {
        struct json_place entry = json_member(place, word);
        int64_t number;
        if (!json_get_integer(&entry, 1, INT32_MAX, &number, error))
            return false;
    }
    spec->flow->dims = place->value;
    return true;
}

/* Reads members that depend on each other, in this order. */
static bool complete_flow(const struct json_place *place, struct spec *spec, struct error *error) {
    struct flow_spec *flow = spec->flow;
    flow->source = json_incref(place->value);
    return read_attention(place, flow, error) &&
           read_select(place, flow, &flow->flow.select, error) && read_layers(place, flow, error) &&
           read_lists(place, flow, error) &&
           (attention_spec_is_open(&flow->attention) || check_flow(spec, error));
}

/* ---- Writing ---- */

/* Writes fields, programs and selection as they were read. */
static void write_flow(const struct spec *spec, json_t *object) {
    const char *key;
    json_t *value, *attention = json_object();
    json_object_foreach(spec->flow->source, key, value) {
        if (json_object_get(object, key) == NULL)
            json_object_set(object, key, value);
    }
    spec_write_op(&spec->flow->attention, attention);
    json_object_set_new(object, "attention", attention);
}

/* ---- The op ---- */

static void free_flow(struct spec *spec) {
    if (spec->flow != NULL)
        flow_spec_free(&spec->flow->flow);
}

void flow_spec_free(const kvmill_flow *flow) {
    char *member = (char *)(uintptr_t)flow;
    struct flow_spec *spec =
        (struct flow_spec *)(void *)(member - offsetof(struct flow_spec, flow));
    for (int i = 0; i < KVMILL_MOST_FLOW_CONSTANTS; i++)
        free(spec->values[i]);
    json_decref(spec->source);
    free(spec);
}

const struct spec_family flow_specs = {
    .begin = begin_flow,
    .part = flow_part,
    .read_own = read_own,
    .complete = complete_flow,
    .write = write_flow,
    .free = free_flow,
    .check = check_flow,
};
