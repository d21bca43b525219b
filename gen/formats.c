/* SPDX-License-Identifier: Apache-2.0 */
#include "formats.h"

#include <stdio.h>
#include <string.h>

#include "../defs/format.h"

enum { NAME_SIZE = 64, TABLE_SIZE = 1536 };

static void name_part(const char *part, const struct kvmill_format_parts *parts,
                      char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "%s_%s", part, parts->name);
}

static bool define_number(struct expansion *expansion, const char *part,
                          const struct kvmill_format_parts *parts, int64_t value) {
    char name[NAME_SIZE];
    name_part(part, parts, name);
    return define_integer(expansion, name, value);
}

static bool define_word(struct expansion *expansion, const char *part,
                        const struct kvmill_format_parts *parts, const char *word) {
    char name[NAME_SIZE];
    name_part(part, parts, name);
    return define_text(expansion, name, word);
}

static bool define_codes(struct expansion *expansion, const struct kvmill_format_parts *parts) {
    bool is_float = parts->code == KVMILL_CODE_FLOAT;
    return define_number(expansion, "bits", parts, parts->bits) &&
           define_number(expansion, "is_float", parts, is_float) &&
           define_number(expansion, "is_signed", parts, parts->code == KVMILL_CODE_SIGNED) &&
           define_number(expansion, "in_turn", parts, parts->packing == KVMILL_PACKED_IN_TURN) &&
           define_number(expansion, "word_codes", parts, kvmill_format_word_codes(parts)) &&
           define_number(expansion, "offset", parts, kvmill_format_code_offset(parts)) &&
           define_number(expansion, "most", parts, is_float ? 0 : kvmill_format_most_code(parts)) &&
           define_number(expansion, "exponent", parts, parts->real.exponent) &&
           define_number(expansion, "mantissa", parts, parts->real.mantissa) &&
           define_number(expansion, "is_finite", parts, parts->real.finite);
}

/* Defines the codes' values as "-127, -104, ..."; empty if the codes themselves are numbers. */
static bool define_table(struct expansion *expansion, const struct kvmill_format_parts *parts) {
    char text[TABLE_SIZE] = "";
    size_t at = 0;
    for (int i = 0; parts->table != NULL && i < 1 << parts->bits && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", i > 0 ? ", " : "",
                               parts->table[i]);
    return parts->table == NULL || define_word(expansion, "table", parts, text);
}

/* Rows in tiles have the codes of the format with the same bits and with rows one after another. */
static bool define_order(struct expansion *expansion, const struct kvmill_format_parts *parts) {
    int plain = parts->tile > 0 || parts->transposed ? kvmill_element_of(parts->dtype) : 0;
    return define_number(expansion, "tile", parts, parts->tile) &&
           define_number(expansion, "piece_of_tile", parts, parts->piece) &&
           define_number(expansion, "is_transposed", parts, parts->transposed) &&
           define_word(expansion, "codes", parts,
                       plain > 0 ? kvmill_format_name(plain) : parts->name);
}

static bool define_scales(struct expansion *expansion, const struct kvmill_format_parts *parts) {
    static const char *const rules[] = {
        [KVMILL_RULE_ROUND] = "round",       [KVMILL_RULE_GROUPS] = "groups",
        [KVMILL_RULE_OUTWARDS] = "outwards", [KVMILL_RULE_EXTREME] = "extreme",
        [KVMILL_RULE_RANGE] = "range",       [KVMILL_RULE_SQUARES] = "squares",
        [KVMILL_RULE_EVEN] = "even",
    };
    static const char *const scales[] = {
        [KVMILL_WITHOUT_SCALES] = "none",
        [KVMILL_SCALES_OF_GROUPS] = "groups",
        [KVMILL_SCALES_IN_BLOCKS] = "blocks",
        [KVMILL_SCALES_IN_ROWS] = "row",
    };
    return define_word(expansion, "rule", parts, rules[parts->rule]) &&
           define_word(expansion, "scales_of", parts, scales[parts->scales]) &&
           define_number(expansion, "block", parts, parts->block) &&
           define_number(expansion, "block_bytes", parts, kvmill_format_block_bytes(parts)) &&
           define_number(expansion, "codes_at", parts, kvmill_format_codes_at(parts)) &&
           define_number(expansion, "row_head", parts, kvmill_format_row_head(parts)) &&
           define_number(expansion, "has_minimum", parts, parts->minimum);
}

/* Defines the names of all formats, or of those with arithmetic of their own in this template
   file. */
static bool define_names(struct expansion *expansion, const char *name, const char *template) {
    const struct kvmill_format_parts *parts;
    const char *names[KVMILL_MOST_FORMATS + 1] = {NULL};
    char text[KVMILL_WORDS_SIZE];
    for (int i = 1, count = 0; (parts = kvmill_format_parts(i)) != NULL; i++)
        if (template == NULL || (parts->template != NULL && strcmp(parts->template, template) == 0))
            names[count++] = parts->name;
    return define_text(expansion, name, kvmill_list_words(names, "", text));
}

static bool define_template(struct expansion *expansion, const struct kvmill_format_parts *parts) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, "%s_formats", parts->template);
    return define_names(expansion, name, parts->template);
}

bool define_formats(struct expansion *expansion) {
    const struct kvmill_format_parts *parts;
    bool done = define_names(expansion, "formats", NULL);
    for (int i = 1; done && (parts = kvmill_format_parts(i)) != NULL; i++)
        done = define_codes(expansion, parts) && define_scales(expansion, parts) &&
               define_order(expansion, parts) && define_table(expansion, parts) &&
               (parts->template == NULL || define_template(expansion, parts));
    return done;
}
