/* PMX cache attention in spec files: KeyValueCache, MultiHeadAttention, MultiHeadCacheAttention,
   and the same with dynamic batching.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "attend_family.h"
#include "convert_family.h"
#include "spec.h"

/* ---- Attributes ---- */

enum {
    OF_CACHE = 1 << KVMILL_KEY_VALUE_CACHE,
    OF_INPUTS = 1 << KVMILL_MULTI_HEAD_ATTENTION,
    OF_FUSED = 1 << KVMILL_MULTI_HEAD_CACHE_ATTENTION,
    OF_STORE = OF_CACHE | OF_FUSED,
    OF_SCORES = OF_INPUTS | OF_FUSED,
    OF_ALL = OF_CACHE | OF_INPUTS | OF_FUSED,
    DYNAMIC_ONLY = 8
};

enum kind { COUNT, FLAG, REAL, TYPE, MATH, FORMAT };

/* A key of the JSON object and the member of kvmill_cache_attention it sets. */
struct attribute {
    const char *name;
    enum kind kind;
    unsigned ops;
    size_t offset;
    bool ours; /* written only where it is not the default */
};

#define SOURCE(NAME, KIND, OPS)                                                                    \
    { #NAME, KIND, OPS, offsetof(kvmill_cache_attention, NAME), false }
#define OURS(NAME, KIND, OPS)                                                                      \
    { #NAME, KIND, OPS, offsetof(kvmill_cache_attention, NAME), true }
static const struct attribute attributes[] = {
    SOURCE(num_heads, COUNT, OF_SCORES),
    SOURCE(head_dim, COUNT, OF_ALL),
    SOURCE(is_causal, FLAG, OF_SCORES),
    SOURCE(is_alibi, FLAG, OF_SCORES),
    SOURCE(num_kv_heads, COUNT, OF_ALL),
    SOURCE(num_layer, COUNT, OF_STORE),
    SOURCE(layer_idx, COUNT, OF_STORE),
    SOURCE(quant_bit, COUNT, OF_STORE),
    SOURCE(quant_group, COUNT, OF_STORE),
    SOURCE(cache_layout, COUNT, OF_STORE),
    SOURCE(cache_mode, COUNT, OF_STORE | DYNAMIC_ONLY),
    SOURCE(page_size, COUNT, OF_STORE | DYNAMIC_ONLY),
    SOURCE(num_repeat, COUNT, OF_CACHE),
    SOURCE(T1, TYPE, OF_ALL),
    SOURCE(T2, TYPE, OF_STORE),
    SOURCE(T3, TYPE, OF_STORE),
    OURS(softmax_scale, REAL, OF_SCORES),
    OURS(window, COUNT, OF_SCORES),
    OURS(softcap, REAL, OF_SCORES),
    OURS(math, MATH, OF_SCORES),
    OURS(partial, FLAG, OF_SCORES),
    OURS(empty_is_nan, FLAG, OF_SCORES),
    OURS(alibi_heads, COUNT, OF_SCORES),
    OURS(alibi_first, COUNT, OF_SCORES),
    OURS(alibi_scale, REAL, OF_SCORES),
    OURS(cache_format, FORMAT, OF_STORE),
    OURS(value_head_dim, COUNT, OF_ALL),
    OURS(value_quant_bit, COUNT, OF_STORE),
    OURS(value_quant_group, COUNT, OF_STORE),
    OURS(value_T2, TYPE, OF_STORE),
    OURS(value_T3, TYPE, OF_STORE),
    OURS(value_cache_format, FORMAT, OF_STORE),
};
enum { ATTRIBUTE_COUNT = sizeof attributes / sizeof *attributes };

static bool is_of_value(const struct attribute *attribute) {
    return strncmp(attribute->name, "value_", 6) == 0;
}

static void *member_of(const struct attribute *attribute, kvmill_cache_attention *op) {
    return (char *)op + attribute->offset;
}

static const void *value_of(const struct attribute *attribute, const kvmill_cache_attention *op) {
    return (const char *)op + attribute->offset;
}

/* ---- Which op ---- */

bool is_attention_spec(const struct spec *spec) {
    return spec->op >= attention_spec_ops && spec->op < attention_spec_ops + ATTENTION_OPS;
}

enum kvmill_cache_op attention_op_of(const struct spec *spec) {
    return (enum kvmill_cache_op)((spec->op - attention_spec_ops) % (ATTENTION_OPS / 2));
}

static bool is_dynamic(const struct spec *spec) {
    return spec->op - attention_spec_ops >= ATTENTION_OPS / 2;
}

static bool has(const struct spec *spec, const struct attribute *attribute) {
    return (attribute->ops >> attention_op_of(spec) & 1) != 0 &&
           (!(attribute->ops & DYNAMIC_ONLY) || is_dynamic(spec));
}

static bool has_scores(const struct spec *spec) {
    return attention_op_of(spec) != KVMILL_KEY_VALUE_CACHE;
}

static bool has_cache(const struct spec *spec) {
    return attention_op_of(spec) != KVMILL_MULTI_HEAD_ATTENTION;
}

/* ---- Defaults ---- */

void attention_spec_begin(struct spec *spec, enum kvmill_cache_op which, bool dynamic) {
    struct attention_spec *attention = &spec->attention;
    spec->op = &attention_spec_ops[which + (dynamic ? ATTENTION_OPS / 2 : 0)];
    *attention = (struct attention_spec){.masked = has_scores(spec)};
    kvmill_cache_attention_init(&attention->op);
    attention->op.dynamic_batching = dynamic;
    attention->op.value_quant_bit = UNSET_QUANT_BIT;
}

static bool is_set(DLDataType type) {
    return type.bits != 0;
}

static DLDataType type_named(const char *name) {
    return kvmill_dtype_by_name(name)->dl;
}

static DLDataType cache_type_of(int64_t quant_bit, const char *format, DLDataType T1) {
    if (format != NULL)
        return type_named("uint8");
    return quant_bit == 8 ? type_named("int8") : quant_bit == 4 ? type_named("int4") : T1;
}

/* V's cache is as K's where nothing is said about it. */
static void complete_value(kvmill_cache_attention *op) {
    bool same =
        op->value_quant_bit == UNSET_QUANT_BIT && !is_set(op->value_T2) && !op->value_cache_format;
    if (op->value_head_dim == 0)
        op->value_head_dim = op->head_dim;
    if (op->value_quant_group == 0)
        op->value_quant_group = op->quant_group;
    if (!is_set(op->value_T3))
        op->value_T3 = op->T3;
    if (same) {
        op->value_quant_bit = op->quant_bit;
        op->value_T2 = op->T2;
        op->value_cache_format = op->cache_format;
    }
    if (op->value_quant_bit == UNSET_QUANT_BIT)
        op->value_quant_bit = 0;
    if (!is_set(op->value_T2))
        op->value_T2 = cache_type_of(op->value_quant_bit, op->value_cache_format, op->T1);
}

void attention_spec_complete(struct spec *spec) {
    kvmill_cache_attention *op = &spec->attention.op;
    bool scaled = op->quant_bit != 0 || op->value_quant_bit > 0;
    if (has_cache(spec) && !is_set(op->T2))
        op->T2 = cache_type_of(op->quant_bit, op->cache_format, op->T1);
    if (has_cache(spec) && !is_set(op->T3) && scaled)
        op->T3 = type_named(op->T1.bits == 16 ? "float16" : "float32");
    if (op->value_differs)
        complete_value(op);
    else
        op->value_quant_bit = 0;
}

/* ---- Checking ---- */

static kvmill_status find_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                                   kvmill_error *reason) {
    return kvmill_cache_attention_check(&spec->attention.op, attention_op_of(spec), geometry,
                                        reason);
}

static bool check_geometry(const struct spec *spec, struct kvmill_cache_geometry *geometry,
                           struct error *error) {
    kvmill_error reason;
    return find_geometry(spec, geometry, &reason) == KVMILL_OK ||
           fail(error, EXIT_USER, "%s: %s", spec->where, reason.message);
}

static bool check(const struct spec *spec, struct error *error) {
    struct kvmill_cache_geometry geometry;
    return check_geometry(spec, &geometry, error);
}

/* KeyValueCache has its sizes from its inputs; and a layer that is not the first is one of the
   cache's. */
bool attention_spec_is_open(const struct spec *spec) {
    const kvmill_cache_attention *op = &spec->attention.op;
    return (!has_scores(spec) && (op->head_dim == 0 || op->num_kv_heads == 0)) ||
           (spec->attention.layers_open && op->layer_idx >= op->num_layer);
}

/* ---- Reading ---- */

static bool read_flag(const struct json_place *place, int32_t *flag, struct error *error) {
    bool number = json_is_integer(place->value) &&
                  (json_integer_value(place->value) == 0 || json_integer_value(place->value) == 1);
    if (!number && !json_is_boolean(place->value))
        return json_fail(error, place, "is no truth value; accepted: true, false, 1, 0");
    *flag = number ? json_integer_value(place->value) != 0 : json_is_true(place->value);
    return true;
}

bool spec_read_real(const struct json_place *place, double *value, struct error *error) {
    if (!json_is_number(place->value))
        return json_fail(error, place, "is no number; accepted: a number");
    *value = json_number_value(place->value);
    return true;
}

bool spec_read_word(const struct json_place *place, const char *const *words, const char *what,
                    const char **word, struct error *error) {
    char accepted[128] = "";
    const char *text;
    if (!json_get_string(place, &text, error))
        return false;
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0) {
            *word = words[i];
            return true;
        }
        snprintf(accepted + strlen(accepted), sizeof accepted - strlen(accepted), "%s%s",
                 i ? ", " : "", words[i]);
    }
    char suggestion[SUGGESTION_SIZE];
    suggest_word(text, words, suggestion);
    return json_fail(error, place, "\"%.40s\" is not %s; %saccepted: %s", text, what, suggestion,
                     accepted);
}

static bool read_type(const struct json_place *place, DLDataType *type, struct error *error) {
    static const char *const words[] = {"float32", "float16", "bfloat16", "int8",
                                        "int4",    "uint8",   NULL};
    const char *word;
    if (!spec_read_word(place, words, "an element type of cache attention", &word, error))
        return false;
    *type = type_named(word);
    return true;
}

static bool read_math(const struct json_place *place, const char **math, struct error *error) {
    static const char *const words[] = {"f32", "fast", NULL};
    return spec_read_word(place, words, "a kind of arithmetic", math, error);
}

static bool read_format(const struct json_place *place, const char **format, struct error *error) {
    static const char *const words[] = {"q8_0", "q4_0", NULL};
    return spec_read_word(place, words, "a format of cache rows", format, error);
}

static bool read_attribute(const struct json_place *place, enum kind kind, void *member,
                           struct error *error) {
    switch (kind) {
    case COUNT:
        return json_get_integer(place, INT32_MIN, INT64_MAX, member, error);
    case FLAG:
        return read_flag(place, member, error);
    case REAL:
        return spec_read_real(place, member, error);
    case TYPE:
        return read_type(place, member, error);
    case MATH:
        return read_math(place, member, error);
    case FORMAT:
        return read_format(place, member, error);
    }
    return false;
}

static bool read_attributes(const struct json_place *place, struct spec *spec,
                            struct error *error) {
    kvmill_cache_attention *op = &spec->attention.op;
    for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
        const struct attribute *attribute = &attributes[i];
        struct json_place member = json_member(place, attribute->name);
        if (member.value == NULL || !has(spec, attribute))
            continue;
        if (!read_attribute(&member, attribute->kind, member_of(attribute, op), error))
            return false;
        if (is_of_value(attribute))
            op->value_differs = 1;
    }
    return true;
}

static bool is_layers(const char *text) {
    return text[strspn(text, "0123456789-,. ")] == '\0';
}

static bool read_layers(const struct json_place *place, struct spec *spec, struct error *error) {
    struct attention_spec *attention = &spec->attention;
    return spec_read_label(place, "layers", is_layers,
                           "digits, hyphens, commas, spaces and full stops", attention->layers,
                           sizeof attention->layers, error);
}

static bool read_masked(const struct json_place *place, bool *masked, struct error *error) {
    int32_t flag = *masked;
    struct json_place member = json_member(place, "attn_mask");
    if (member.value != NULL && !read_flag(&member, &flag, error))
        return false;
    *masked = flag;
    return true;
}

/* What the op has, in the order of the table. */
static bool check_keys(const struct json_place *place, const struct spec *spec,
                       struct error *error) {
    const char *known[ATTRIBUTE_COUNT + 6] = {"op"};
    int count = 1;
    for (int i = 0; i < ATTRIBUTE_COUNT; i++)
        if (has(spec, &attributes[i]))
            known[count++] = attributes[i].name;
    if (has_scores(spec))
        known[count++] = "attn_mask";
    known[count++] = "purpose";
    known[count++] = "name";
    known[count++] = "layers";
    return json_only_keys(place, known, error);
}

/* Those that have no default, and that no input of a run can tell. */
static bool check_required(const struct json_place *place, const struct spec *spec,
                           struct error *error) {
    static const char *const keys[] = {"num_heads", "head_dim", "T1"};
    for (int i = has_scores(spec) ? 0 : 2; i < 3; i++) {
        struct json_place member = json_member(place, keys[i]);
        if (member.value == NULL)
            return json_fail(error, &member, "is missing; accepted: %s",
                             i < 2 ? "a count" : "an element type");
    }
    return true;
}

static bool read(const struct json_place *place, struct spec *spec, struct error *error) {
    struct attention_spec *attention = &spec->attention;
    ptrdiff_t op = spec->op - attention_spec_ops;
    attention_spec_begin(spec, attention_op_of(spec), op >= ATTENTION_OPS / 2);
    attention->layers_open = has_cache(spec) && !json_object_get(place->value, "num_layer");
    if (!check_keys(place, spec, error) || !check_required(place, spec, error) ||
        !read_attributes(place, spec, error) || !read_layers(place, spec, error) ||
        (has_scores(spec) && !read_masked(place, &attention->masked, error)))
        return false;
    attention_spec_complete(spec);
    return attention_spec_is_open(spec) || check(spec, error);
}

/* ---- Writing ---- */

static json_t *type_as_json(const DLDataType *type) {
    return is_set(*type) ? json_string(kvmill_dtype_name(*type)) : NULL;
}

static json_t *word_as_json(const char *const *word) {
    return *word ? json_string(*word) : NULL;
}

/* NULL for what is not set. */
static json_t *as_json(enum kind kind, const void *member) {
    switch (kind) {
    case COUNT:
        return json_integer(*(const int64_t *)member);
    case FLAG:
        return json_boolean(*(const int32_t *)member);
    case REAL:
        return json_real(*(const double *)member);
    case TYPE:
        return type_as_json(member);
    case MATH:
    case FORMAT:
        return word_as_json(member);
    }
    return NULL;
}

static bool is_zero(enum kind kind, const void *member) {
    static const double nothing[2] = {0};
    size_t size = kind == FLAG ? sizeof(int32_t) : kind == TYPE ? sizeof(DLDataType) : 8;
    return memcmp(member, nothing, size) == 0;
}

/* What only a run tells is left out again. */
static bool is_left_open(const struct spec *spec, const struct attribute *attribute) {
    const kvmill_cache_attention *op = &spec->attention.op;
    if (strcmp(attribute->name, "num_layer") == 0)
        return attention_spec_is_open(spec) && spec->attention.layers_open;
    if (strcmp(attribute->name, "head_dim") == 0 || strcmp(attribute->name, "num_kv_heads") == 0)
        return !has_scores(spec) && is_zero(COUNT, value_of(attribute, op));
    return false;
}

static bool is_written(const struct spec *spec, const struct attribute *attribute) {
    const kvmill_cache_attention *op = &spec->attention.op;
    if (!has(spec, attribute) || is_left_open(spec, attribute))
        return false;
    if (is_of_value(attribute))
        return op->value_differs != 0;
    return !attribute->ours || !is_zero(attribute->kind, value_of(attribute, op));
}

static void write(const struct spec *spec, json_t *object) {
    const struct attention_spec *attention = &spec->attention;
    for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
        const struct attribute *attribute = &attributes[i];
        json_t *value = is_written(spec, attribute)
                            ? as_json(attribute->kind, value_of(attribute, &attention->op))
                            : NULL;
        if (value != NULL)
            json_object_set_new(object, attribute->name, value);
    }
    if (has_scores(spec))
        json_object_set_new(object, "attn_mask", json_boolean(attention->masked));
    if (spec->name[0])
        json_object_set_new(object, "name", json_string(spec->name));
    if (attention->layers[0])
        json_object_set_new(object, "layers", json_string(attention->layers));
}

/* ---- Kernels ---- */

static bool convert_kernels(const struct kvmill_cache_geometry *geometry, const struct isa *isa,
                            struct kernel_list *list, struct error *error) {
    for (int value = 0; value < 2; value++) {
        struct kvmill_convert_shape shape = kvmill_convert_shape_of(geometry, value);
        if (!write_rows_kernels(&shape, isa, list, error) ||
            (geometry->which == KVMILL_KEY_VALUE_CACHE &&
             !read_rows_kernels(&shape, isa, list, error)))
            return false;
    }
    return true;
}

/* A bias costs time in every score: with masks, there are kernels for calls without one as well. */
static bool score_kernels(const struct kvmill_cache_geometry *geometry, bool masked,
                          const struct isa *isa, struct kernel_list *list, struct error *error) {
    struct kvmill_attend_shape plain = kvmill_attend_shape_of(geometry, false);
    struct kvmill_attend_shape biased = kvmill_attend_shape_of(geometry, true);
    return attend_kernels(&plain, geometry->ratio, isa, list, error) &&
           (!masked || attend_kernels(&biased, geometry->ratio, isa, list, error));
}

static bool kernels(const struct spec *spec, const struct isa *isa, struct kernel_list *list,
                    struct error *error) {
    struct kvmill_cache_geometry geometry;
    if (!check_geometry(spec, &geometry, error) ||
        (has_cache(spec) && !convert_kernels(&geometry, isa, list, error)))
        return false;
    return !has_scores(spec) || score_kernels(&geometry, spec->attention.masked, isa, list, error);
}

/* ---- The function of a pack's header ---- */

static const char *code_word(DLDataType type) {
    return type.code == kDLFloat    ? "kDLFloat"
           : type.code == kDLBfloat ? "kDLBfloat"
           : type.code == kDLInt    ? "kDLInt"
                                    : "kDLUInt";
}

static bool define_type(const char *name, DLDataType type, struct text *text) {
    return !is_set(type) ||
           text_print(text, "km_set_type(«%s», «%s», «%d»)", name, code_word(type), type.bits);
}

static bool define_member(const struct attribute *attribute, const void *member,
                          struct text *text) {
    switch (attribute->kind) {
    case COUNT:
        return text_print(text, "km_set(«%s», «%" PRId64 "»)", attribute->name,
                          *(const int64_t *)member);
    case FLAG:
        return text_print(text, "km_set(«%s», «%d»)", attribute->name, *(const int32_t *)member);
    case REAL:
        return text_print(text, "km_set(«%s», «%.17g»)", attribute->name, *(const double *)member);
    case TYPE:
        return define_type(attribute->name, *(const DLDataType *)member, text);
    case MATH:
    case FORMAT:
        return text_print(text, "km_set(«%s», «\"%s\"»)", attribute->name,
                          *(const char *const *)member);
    }
    return false;
}

/* kvmill_cache_attention_init has set the defaults of a source's attributes. */
static bool is_default(const struct attribute *attribute, const kvmill_cache_attention *op) {
    kvmill_cache_attention fresh;
    kvmill_cache_attention_init(&fresh);
    const void *have = value_of(attribute, op), *have_not = value_of(attribute, &fresh);
    switch (attribute->kind) {
    case COUNT:
        return *(const int64_t *)have == *(const int64_t *)have_not;
    case FLAG:
        return *(const int32_t *)have == *(const int32_t *)have_not;
    default:
        return is_zero(attribute->kind, have);
    }
}

bool attention_define_members(const struct spec *spec, struct text *text) {
    const kvmill_cache_attention *op = &spec->attention.op;
    bool done = (!op->dynamic_batching || text_print(text, "km_set(«dynamic_batching», «1»)")) &&
                (!op->value_differs || text_print(text, "km_set(«value_differs», «1»)"));
    for (int i = 0; done && i < ATTRIBUTE_COUNT; i++)
        if (is_written(spec, &attributes[i]) && !is_default(&attributes[i], op))
            done = define_member(&attributes[i], value_of(&attributes[i], op), text);
    return done;
}

bool attention_define_comment(const struct spec *spec, struct text *text) {
    const kvmill_cache_attention *op = &spec->attention.op;
    const char *layers = spec->attention.layers;
    int64_t kv_heads = op->num_kv_heads ? op->num_kv_heads : op->num_heads;
    bool done = !layers[0] || text_print(text, "Layers %s: ", layers);
    if (has_scores(spec))
        done = done && text_print(text, "%" PRId64 " query head%s on ", op->num_heads,
                                  op->num_heads == 1 ? "" : "s");
    done = done && text_print(text, "%" PRId64 " KV head%s of %" PRId64, kv_heads,
                              kv_heads == 1 ? "" : "s", op->head_dim);
    return done && (op->window == 0 || text_print(text, ", a window of %" PRId64, op->window));
}

/* km_plan_function(NAME, OP, COMMENT, WHETHER LAYERS ARE COUNTED, MEMBERS) */
static bool define_plan(const struct spec *spec, struct text *text) {
    static const char *const ops[] = {"key_value_cache", "multi_head_attention",
                                      "multi_head_cache_attention"};
    return spec->name[0] == '\0' ||
           (text_print(text, "km_plan_function(«%s», «%s», «", spec->name,
                       ops[attention_op_of(spec)]) &&
            attention_define_comment(spec, text) && text_print(text, "», %d, «", has_cache(spec)) &&
            attention_define_members(spec, text) && text_print(text, "»)m4_dnl\n"));
}

#define ATTENTION_OP(NAME)                                                                         \
    {                                                                                              \
        .name = NAME, .read = read, .check = check, .kernels = kernels,                            \
        .without_kernels = "no family of kernels takes its types", .write = write,                 \
        .define_plan = define_plan                                                                 \
    }
const struct spec_op attention_spec_ops[ATTENTION_OPS] = {
    ATTENTION_OP("KeyValueCache"),
    ATTENTION_OP("MultiHeadAttention"),
    ATTENTION_OP("MultiHeadCacheAttention"),
    ATTENTION_OP("dynamic_batching.KeyValueCache"),
    ATTENTION_OP("dynamic_batching.MultiHeadAttention"),
    ATTENTION_OP("dynamic_batching.MultiHeadCacheAttention"),
};
