/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../defs/dtype.h"
#include "attributes.h"
#include "extent.h"
#include "fail.h"
#include "refuse.h"

/* Kinds of formats, and sets of them.  RAW: int8 codes that are copied. */
enum { RAW = 1, PLAIN = 2, GROUPS = 4, TILES = 8, BLOCKS = 16, TRANSPOSED = 32, ANY = 63 };

/* Larger pages have no advantage, and kernels count in 32 bits. */
enum { MOST_TRANSPOSED_ROWS = 1 << 16 };

/* What is checked: a side; V as a view of K; the places of both. */
enum stage { SIDE, VIEW, PLACE };

/* What rules require. */
enum fact {
    ACTIVATION,
    NO_BITS,
    KNOWN_BITS,
    BITS_OF_WORD, /* of its cache_format */
    NO_WORD,
    PAGES,
    SMALL_PAGES,
    TYPE_OF_FORMAT,
    TYPE_OF_SCALES,
    WHOLE_PIECES,
    LEGAL,
    SAME_T2, /* as K's, or none */
    SAME_T3,
    SAME_BITS,
    SAME_GROUP,
    SAME_WORD,
    ROWS_IN_ORDER,
    PART_OF_KEY,
    NO_TILES,
    ADJACENT_ROWS, /* those of a tile are of one head and one sequence */
    PAGES_OF_TILES,
    RING_OF_TILES,
    FACTS
};

#define IN_VIEW "; accepted with value_view: the same, or none"

/* The first rule of a kind that does not hold says what is wrong.  In its message, a word in braces
   is a term. */
static const struct rule {
    enum stage stage;
    int kinds;
    enum fact fact;
    const char *message;
} rules[] = {
    {SIDE, ANY, ACTIVATION, "T1 is {T1}; accepted: {activations}{copies}"},
    {SIDE, RAW, NO_BITS, "{p}quant_bit is {bit}; accepted: 0, with T1 int8"},
    {SIDE, ANY, KNOWN_BITS, "{p}quant_bit is {bit}; accepted: {bits}"},
    {SIDE, RAW, NO_WORD, "{p}cache_format is \"{word}\"; accepted with T1 int8: NULL"},
    {SIDE, ANY, BITS_OF_WORD,
     "{p}quant_bit is {bit}; accepted with cache_format \"{word}\": {own bits}"},
    {SIDE, TRANSPOSED, PAGES,
     "cache_format is \"{word}\"; accepted in pages: with dynamic batching and cache_mode 1"},
    {SIDE, TRANSPOSED, SMALL_PAGES,
     "page_size is {page}; accepted with cache_format \"{word}\": up to {most rows}"},
    {SIDE, BLOCKS, LEGAL,
     "{p}head_dim is {dim}; accepted with cache_format \"{word}\": multiples of {multiple}"},
    {SIDE, RAW, TYPE_OF_FORMAT, "{p}T2 is {T2}; accepted: int8, with T1 int8"},
    {SIDE, PLAIN | GROUPS | TILES, TYPE_OF_FORMAT,
     "{p}T2 is {T2}; accepted: {types}, with quant_bit {bit}"},
    {SIDE, BLOCKS, TYPE_OF_FORMAT, "{p}T2 is {T2}; accepted: {types}, with a cache_format"},
    {SIDE, TRANSPOSED, TYPE_OF_FORMAT, "{p}T2 is {T2}; accepted: {types}"},
    {SIDE, GROUPS | TILES, TYPE_OF_SCALES, "{p}T3 is {T3}; accepted: {activations}"},
    {SIDE, TILES, WHOLE_PIECES,
     "{p}head_dim is {dim}; accepted with cache_format \"{word}\" and quant_bit {bit}: multiples "
     "of {dim multiple}"},
    {SIDE, GROUPS, LEGAL,
     "{p}quant_group is {group}; accepted: {even}divisors of {p}head_dim, {dim}"},
    {SIDE, TILES, LEGAL,
     "{p}quant_group is {group}; accepted with cache_format \"{word}\": divisors of {p}head_dim, "
     "{dim}, and multiples of {multiple}"},
    {VIEW, ANY, SAME_T2, "value_T2 is not T2" IN_VIEW},
    {VIEW, ANY, SAME_T3, "value_T3 is not T3" IN_VIEW},
    {VIEW, ANY, SAME_BITS, "value_quant_bit is not quant_bit" IN_VIEW},
    {VIEW, ANY, SAME_GROUP, "value_quant_group is not quant_group" IN_VIEW},
    {VIEW, ANY, SAME_WORD, "value_cache_format is not cache_format" IN_VIEW},
    {VIEW, ANY, ROWS_IN_ORDER,
     "cache_format is \"{word}\"; accepted with value_view: NULL, and those of blocks"},
    {VIEW, ANY, PART_OF_KEY,
     "value_head_dim is {dim}; accepted with value_view: multiples of {view multiple} up to "
     "head_dim, {key dim}"},
    {PLACE, TRANSPOSED, NO_TILES, /* no kernels combine these two */
     "value_cache_format is \"tiles\"; accepted with cache_format \"{word}\": NULL, and those of "
     "blocks"},
    {PLACE, TILES | TRANSPOSED, ADJACENT_ROWS,
     "cache_layout is {layout}; accepted with cache_format \"{word}\": {layouts}, where rows of a "
     "head lie side by side"},
    {PLACE, TILES, PAGES_OF_TILES,
     "page_size is {page}; accepted with cache_format \"{word}\": multiples of {tile}"},
    {PLACE, TILES, RING_OF_TILES,
     "capacity is {ring}; accepted with cache_format \"{word}\": multiples of {tile}"},
};

/* What is checked: attributes, and what they mean. */
struct checked {
    const struct kvmill_side *side;
    const struct kvmill_attributes *given; /* of a view, K's */
    const struct kvmill_cache_geometry *geometry;
    const struct kvmill_format_parts *parts;
    struct kvmill_format format;
    int kind;
    bool facts[FACTS];
};

static int kind_of(const struct kvmill_format_parts *parts) {
    return parts->tile > 0                            ? TILES
           : parts->transposed                        ? TRANSPOSED
           : parts->scales == KVMILL_WITHOUT_SCALES   ? PLAIN
           : parts->scales == KVMILL_SCALES_OF_GROUPS ? GROUPS
                                                      : BLOCKS;
}

/* ---- Messages ---- */

/* A term of messages: a text, or a number. */
struct term {
    const char *name, *text;
    int64_t number;
};

/* The types of formats with the same bits and cache_format. */
static const char *list_types(struct kvmill_attributes given, char text[KVMILL_WORDS_SIZE]) {
    const char *words[KVMILL_MOST_FORMATS + 1];
    const struct kvmill_format_parts *parts;
    int count = 0;
    for (int i = 1; (parts = kvmill_format_parts(i)) != NULL; i++) {
        given.T2 = parts->dtype;
        if (kvmill_format_of_attributes(&given, false) == i)
            words[count++] = kvmill_dtype_name(parts->dtype);
    }
    words[count] = NULL;
    return kvmill_list_words(words, "", text);
}

static size_t print_term(const struct term *terms, const char *name, size_t length, char *to,
                         size_t size) {
    while (strlen(terms->name) != length || strncmp(terms->name, name, length) != 0)
        terms++;
    return (size_t)(terms->text != NULL ? snprintf(to, size, "%s", terms->text)
                                        : snprintf(to, size, "%" PRId64, terms->number));
}

static void fill(const char *message, const struct term *terms, char *text, size_t size) {
    for (size_t at = 0; *message != '\0' && at < size;) {
        size_t length = strcspn(message, "{");
        at += (size_t)snprintf(text + at, size - at, "%.*s", (int)length, message);
        message += length;
        if (*message == '\0' || at >= size)
            continue;
        length = strcspn(message, "}");
        at += print_term(terms, message + 1, length - 1, text + at, size - at);
        message += length + 1;
    }
}

static int64_t view_multiple(const struct checked *checked) {
    return kvmill_max(kvmill_max(checked->format.quant_group, checked->parts->block), 1);
}

static kvmill_status refuse(const struct checked *checked, const struct rule *rule,
                            kvmill_error *error) {
    enum { SIZE = KVMILL_WORDS_SIZE };
    const struct kvmill_attributes *given = checked->given;
    const struct kvmill_side *side = checked->side;
    const struct kvmill_cache_geometry *geometry = checked->geometry;
    char bits[SIZE], own[SIZE], types[SIZE], activations[SIZE], text[sizeof error->message];
    struct kvmill_type_text T1, T2, T3;
    int multiple = kvmill_format_multiple(checked->parts);
    const struct term terms[] = {
        {"p", side->prefix, 0},
        {"dim", NULL, side->dim},
        {"T1", kvmill_type_words(side->T1, &T1), 0},
        {"activations", kvmill_list_activations(activations), 0},
        {"copies", side->copies ? ", int8" : "", 0},
        {"bit", NULL, given->quant_bit},
        {"bits", kvmill_list_bits(NULL, bits), 0},
        {"own bits", kvmill_list_bits(given->cache_format, own), 0},
        {"word", given->cache_format, 0},
        {"T2", kvmill_type_words(given->T2, &T2), 0},
        {"types", list_types(*given, types), 0},
        {"T3", kvmill_type_words(given->T3, &T3), 0},
        {"group", NULL, given->quant_group},
        {"multiple", NULL, multiple},
        {"even", multiple == 2 ? "even " : "", 0},
        {"dim multiple", NULL, kvmill_format_dim_multiple(checked->parts)},
        {"view multiple", NULL, view_multiple(checked)},
        {"key dim", NULL, side->key != NULL ? side->key->dim : 0},
        {"page", NULL, side->page},
        {"most rows", NULL, MOST_TRANSPOSED_ROWS},
        {"tile", NULL, KVMILL_KEY_TILE},
        {"layout", NULL, geometry->layout},
        {"layouts", geometry->dynamic ? "3, 4" : "1", 0},
        {"ring", NULL, geometry->ring},
    };
    bool of_type =
        rule->fact == ACTIVATION || rule->fact == TYPE_OF_FORMAT || rule->fact == TYPE_OF_SCALES;
    fill(rule->message, terms, text, sizeof text);
    return kvmill_fail(error, of_type ? KVMILL_E_DTYPE : KVMILL_E_ATTRIBUTE, "%s", text);
}

static kvmill_status check(enum stage stage, const struct checked *checked, kvmill_error *error) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].stage == stage && (rules[i].kinds & checked->kind) != 0 &&
            !checked->facts[rules[i].fact])
            return refuse(checked, &rules[i], error);
    return KVMILL_OK;
}

/* ---- K or V ---- */

/* V has the beginning of K's rows: whole groups or blocks, with elements in order. */
static void find_facts_of_view(struct checked *checked) {
    const struct kvmill_attributes *key = checked->given, *value = &checked->side->attributes;
    int64_t dim = checked->side->dim;
    bool *facts = checked->facts;
    facts[SAME_T2] = value->T2.bits == 0 || kvmill_dtype_equal(value->T2, key->T2);
    facts[SAME_T3] = value->T3.bits == 0 || kvmill_dtype_equal(value->T3, key->T3);
    facts[SAME_BITS] = value->quant_bit <= 0 || value->quant_bit == key->quant_bit;
    facts[SAME_GROUP] = value->quant_group <= 0 || value->quant_group == key->quant_group;
    facts[SAME_WORD] = value->cache_format == NULL ||
                       (key->cache_format && strcmp(value->cache_format, key->cache_format) == 0);
    facts[ROWS_IN_ORDER] = checked->parts->tile == 0 && !checked->parts->transposed;
    facts[PART_OF_KEY] =
        dim <= checked->side->key->dim && dim % view_multiple(checked) == 0 && facts[LEGAL];
}

kvmill_status kvmill_check_side(const struct kvmill_side *side, struct kvmill_convert_shape *shape,
                                kvmill_error *error) {
    static const struct kvmill_cache_geometry none;
    const struct kvmill_attributes *given =
        side->key != NULL ? &side->key->attributes : &side->attributes;
    int activation = kvmill_element_of(side->T1);
    bool raw = side->copies && activation == KVMILL_I8;
    struct kvmill_format format =
        kvmill_rows_of_attributes(given, side->is_value, side->dim, side->page);
    if (raw)
        format = (struct kvmill_format){.element = KVMILL_I8, .dim = format.dim};
    const struct kvmill_format_parts *parts = kvmill_format_parts(format.element);
    bool has_bits = raw || kvmill_format_attributes(parts).quant_bit == given->quant_bit;
    struct checked checked = {
        .side = side,
        .given = given,
        .geometry = &none,
        .parts = parts,
        .format = format,
        .facts = {
            [ACTIVATION] = raw || kvmill_is_activation(activation),
            [NO_BITS] = given->quant_bit == 0,
            [KNOWN_BITS] = has_bits || kvmill_format_has_bits(NULL, given->quant_bit),
            [BITS_OF_WORD] = has_bits,
            [NO_WORD] = given->cache_format == NULL,
            [PAGES] = side->page > 0,
            [SMALL_PAGES] = side->page <= MOST_TRANSPOSED_ROWS,
            [TYPE_OF_FORMAT] = kvmill_dtype_equal(given->T2, parts->dtype),
            [TYPE_OF_SCALES] = kvmill_is_activation(format.scale),
            [WHOLE_PIECES] = side->dim % kvmill_format_dim_multiple(parts) == 0,
            [LEGAL] = kvmill_format_is_legal(&format),
        }};
    *shape = (struct kvmill_convert_shape){activation, format};
    checked.kind = raw ? RAW : kind_of(parts);
    if (side->key != NULL)
        find_facts_of_view(&checked);
    return check(side->key != NULL ? VIEW : SIDE, &checked, error);
}

kvmill_status kvmill_check_sides(const struct kvmill_side *key, const struct kvmill_side *value,
                                 struct kvmill_cache_geometry *geometry, kvmill_error *error) {
    struct kvmill_convert_shape shapes[2] = {{.activation = 0}};
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < 2; i++)
        status = kvmill_check_side(i > 0 ? value : key, &shapes[i], error);
    geometry->activation = shapes[0].activation;
    geometry->key = shapes[0].format;
    geometry->value = shapes[1].format;
    return status;
}

/* ---- Places ---- */

kvmill_status kvmill_check_tiles(const struct kvmill_cache_geometry *geometry,
                                 kvmill_error *error) {
    const struct kvmill_format_parts *sides[] = {kvmill_format_parts(geometry->key.element),
                                                 kvmill_format_parts(geometry->value.element)};
    kvmill_status status = KVMILL_OK;
    for (int i = 0; status == KVMILL_OK && i < 2; i++) {
        const struct kvmill_side side = {.prefix = "",
                                         .page = geometry->page_size,
                                         .attributes = kvmill_format_attributes(sides[i])};
        const struct checked checked = {
            .side = &side,
            .given = &side.attributes,
            .geometry = geometry,
            .parts = sides[i],
            .kind = kind_of(sides[i]),
            .facts = {
                [NO_TILES] = sides[1]->tile == 0,
                [ADJACENT_ROWS] = geometry->dynamic ? geometry->layout >= 3 : geometry->layout == 1,
                [PAGES_OF_TILES] = !geometry->paged || geometry->page_size % KVMILL_KEY_TILE == 0,
                [RING_OF_TILES] = geometry->ring % KVMILL_KEY_TILE == 0}};
        status = check(PLACE, &checked, error);
    }
    return status;
}
