/* Which layers attend, and to what: the keys from which a config's layers are read.

   SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "config_reader.h"
#include "config_words.h"

static const struct config_key pattern_key = {
    {"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"},
    1,
    MOST_LAYERS};
static const struct config_key first_sliding_key = {{"max_window_layers"}, 0, MOST_LAYERS};
static const struct config_key interval_key = {
    {"full_attention_interval", "layer_group_size"}, 1, MOST_LAYERS};
static const struct config_key offset_key = {{"attn_layer_offset"}, 0, MOST_LAYERS};

struct source;
typedef bool source_reader(struct reader *r, const struct source *source,
                           const struct json_place *place);

/* A key that describes every layer. */
struct source {
    const char *key, *part; /* part: the object that has the key; NULL: the decoder's */
    source_reader *read;
    bool whole;           /* has an entry for each layer, and maybe more for later predictions */
    const char *words[2]; /* of layers with 0 and 1, or of layers that are not listed and listed */
    int64_t base;         /* the number of the first layer in a list */
    bool (*applies)(const json_t *value); /* NULL: to any value */
};

static void set_word(struct reader *r, int layer, const char *text) {
    r->words[layer] = layer_word_of(text);
}

/* ---- Entries of an array or a string, one for each layer ---- */

/* Further layers, which predict tokens after the next one, may have entries, too. */
static bool check_count(struct reader *r, const struct json_place *place, size_t entries) {
    static const struct config_key further_key = {{"num_nextn_predict_layers"}, 0, MOST_LAYERS};
    size_t count = (size_t)r->file_layers;
    int64_t further = 0;
    if (!config_optional(&r->text, &further_key, 0, &further, r->error))
        return false;
    return entries == count || entries == count + (size_t)further ||
           json_fail(r->error, place,
                     "has %zu entries for %zu layers; accepted: one for each layer", entries,
                     count);
}

static bool read_words(struct reader *r, const struct source *source,
                       const struct json_place *place) {
    (void)source;
    if (!json_get_array(place, r->error) || !check_count(r, place, json_array_size(place->value)))
        return false;
    for (int i = 0; i < r->file_layers; i++) {
        struct json_place item = json_element(place, (size_t)i);
        if (!layer_word_read(&item, &r->words[i], r->error))
            return false;
    }
    return true;
}

/* A few words that are repeated over the layers. */
static bool read_cycle(struct reader *r, const struct source *source,
                       const struct json_place *place) {
    (void)source;
    size_t length = json_array_size(place->value);
    if (!json_get_array(place, r->error))
        return false;
    if (length == 0)
        return json_fail(r->error, place, "is empty; accepted: one word or more");
    for (int i = 0; i < r->file_layers; i++) {
        struct json_place item = json_element(place, (size_t)i % length);
        if (!layer_word_read(&item, &r->words[i], r->error))
            return false;
    }
    return true;
}

static bool read_letters(struct reader *r, const struct source *source,
                         const struct json_place *place) {
    const char *letters;
    if (!json_get_string(place, &letters, r->error))
        return false;
    size_t length = strlen(letters);
    if (source->whole && !check_count(r, place, length))
        return false;
    if (length == 0)
        return json_fail(r->error, place, "is empty; accepted: a letter or more");
    for (int i = 0; i < r->file_layers; i++)
        if (!layer_letter_read(place, (size_t)i % length, &r->words[i], r->error))
            return false;
    return true;
}

static bool read_numbers(struct reader *r, const struct source *source,
                         const struct json_place *place) {
    int64_t number = 0;
    if (!json_get_array(place, r->error) || !check_count(r, place, json_array_size(place->value)))
        return false;
    for (int i = 0; i < r->file_layers; i++) {
        struct json_place item = json_element(place, (size_t)i);
        if (!json_get_integer(&item, 0, 1, &number, r->error))
            return false;
        set_word(r, i, source->words[number]);
    }
    return true;
}

/* GPT Neo: [[["global", "local"], 12]], words and how often they are repeated. */
static bool read_repeats(struct reader *r, const struct source *source,
                         const struct json_place *place) {
    (void)source;
    int at = 0;
    if (!json_get_array(place, r->error))
        return false;
    for (size_t i = 0; i < json_array_size(place->value); i++) {
        struct json_place pair = json_element(place, i), list = json_element(&pair, 0),
                          times = json_element(&pair, 1);
        int64_t count = 0;
        if (!json_get_array(&list, r->error) ||
            !json_get_integer(&times, 1, MOST_LAYERS, &count, r->error))
            return false;
        for (size_t j = 0; at < r->file_layers && j < (size_t)count * json_array_size(list.value);
             j++) {
            struct json_place item = json_element(&list, j % json_array_size(list.value));
            if (!layer_word_read(&item, &r->words[at++], r->error))
                return false;
        }
    }
    return check_count(r, place, (size_t)at);
}

/* Windows in tokens; null, 0 and -1: none. */
static bool read_windows(struct reader *r, const struct source *source,
                         const struct json_place *place) {
    (void)source;
    int64_t size = 0;
    if (!check_count(r, place, json_array_size(place->value)))
        return false;
    for (int i = 0; i < r->file_layers; i++) {
        struct json_place item = json_element(place, (size_t)i);
        if (json_given(&item) && !json_get_integer(&item, -1, MOST_POSITIONS, &size, r->error))
            return false;
        bool slides = json_given(&item) && size > 0;
        set_word(r, i, slides ? "sliding_attention" : "full_attention");
        r->model->layers[i].window = slides ? size : 0;
    }
    return true;
}

/* ---- Layers that are listed by number ---- */

bool config_list_has(const struct json_place *list, int64_t number) {
    size_t i;
    json_t *item;
    json_array_foreach(list->value, i, item) {
        if (json_is_integer(item) && json_integer_value(item) == number)
            return true;
    }
    return false;
}

bool config_check_list(struct reader *r, const struct json_place *list, int64_t base) {
    int64_t number = 0;
    if (!json_get_array(list, r->error))
        return false;
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct json_place item = json_element(list, i);
        if (!json_get_integer(&item, base, base + r->file_layers - 1, &number, r->error))
            return false;
    }
    return true;
}

static bool read_listed(struct reader *r, const struct source *source,
                        const struct json_place *place) {
    if (!config_check_list(r, place, source->base))
        return false;
    for (int i = 0; i < r->file_layers; i++)
        set_word(r, i, source->words[config_list_has(place, source->base + i)]);
    return true;
}

/* ---- Layers by period and offset ---- */

/* Jamba: one layer in each period attends. */
static bool read_period(struct reader *r, const struct source *source,
                        const struct json_place *place) {
    int64_t period = 0, offset = 0;
    struct json_place offset_place = config_find(&r->text, offset_key.names);
    if (!json_get_integer(place, 1, MOST_LAYERS, &period, r->error) ||
        !config_optional(&r->text, &offset_key, r->class->attention_offset, &offset, r->error))
        return false;
    if (offset >= period)
        return json_fail(r->error, &offset_place,
                         "is %" PRId64 " with a period of %" PRId64
                         "; accepted: less than the period",
                         offset, period);
    for (int i = 0; i < r->file_layers; i++)
        set_word(r, i, source->words[i % period == offset]);
    return true;
}

/* PLaMo 2: the middle layer of each step attends; in a model of half a step, the last one does. */
static bool read_step(struct reader *r, const struct source *source,
                      const struct json_place *place) {
    int64_t step = 0;
    bool enabled = false;
    if (!json_get_integer(place, 1, MOST_LAYERS, &step, r->error) ||
        !config_flag(&r->text, "mamba_enabled", true, &enabled, r->error))
        return false;
    for (int i = 0; i < r->file_layers; i++) {
        bool attends = r->file_layers <= step / 2 ? i == r->file_layers - 1 : i % step == step / 2;
        set_word(r, i, source->words[!enabled || attends]);
    }
    return true;
}

/* Llama 4: layers without rotary positions see all tokens; an empty list: every fourth layer. */
static bool read_rope_layers(struct reader *r, const struct source *source,
                             const struct json_place *place) {
    if (json_array_size(place->value) > 0)
        return read_numbers(r, source, place);
    for (int i = 0; i < r->file_layers; i++)
        set_word(r, i, source->words[(i + 1) % 4 != 0]);
    return true;
}

/* ---- All keys, in the order in which they count ---- */

static bool is_array(const json_t *value) {
    return json_is_array(value);
}

static bool is_string(const json_t *value) {
    return json_is_string(value);
}

static const struct source sources[] = {
    {"layer_types", .read = read_words, .whole = true},
    {"layers_block_type", .read = read_words, .whole = true},
    {"attention_layers", .read = read_words, .whole = true},
    {"hybrid_override_pattern", .read = read_letters, .whole = true},
    {"attn_type_list", .read = read_numbers, .whole = true,
     .words = {"lightning_attention", "full_attention"}},
    {"hybrid_layer_pattern", .read = read_numbers, .whole = true,
     .words = {"full_attention", "sliding_attention"}},
    {"sliding_window", .read = read_windows, .whole = true, .applies = is_array},
    {"block_types", .read = read_cycle},
    {"_block_types", .read = read_cycle},
    {"attention_types", .read = read_repeats},
    {"sliding_window_pattern", .read = read_letters, .applies = is_string},
    {"full_attn_idxs", .read = read_listed, .words = {"conv", "full_attention"}},
    {"attn_layer_indices", .read = read_listed, .words = {"mamba", "full_attention"}},
    {"hybrid_layer_ids", .read = read_listed, .words = {"mamba", "hybrid"}},
    {"local_layer_ids", .read = read_listed, .words = {"full_attention", "sliding_attention"}},
    {"sliding_window_layers", .read = read_listed,
     .words = {"full_attention", "sliding_attention"}},
    {"full_attn_layers", .part = "linear_attn_config", .read = read_listed, .base = 1,
     .words = {"linear_attention", "full_attention"}},
    {"attn_layer_period", .read = read_period, .words = {"mamba", "full_attention"}},
    {"mamba_step", .read = read_step, .words = {"mamba", "full_attention"}},
};

/* Applies only beside attention_chunk_size: other models have no_rope_layers, too. */
static const struct source rope_layers = {"no_rope_layers", .read = read_rope_layers,
                                          .words = {"full_attention", "chunked_attention"}};

static struct json_place find(const struct reader *r, const struct source *source) {
    if (source->part == NULL)
        return json_member(&r->text, source->key);
    struct json_place part = json_member(&r->text, source->part);
    return json_member(&part, source->key);
}

/* Finds the key that counts, or returns NULL.  Looks at all of them, so that none is unknown. */
static const struct source *find_source(const struct reader *r, struct json_place *place) {
    const struct source *found = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct json_place candidate = find(r, &sources[i]);
        bool applies = json_given(&candidate) &&
                       (sources[i].applies == NULL || sources[i].applies(candidate.value));
        if (applies && found == NULL) {
            found = &sources[i];
            *place = candidate;
        }
    }
    return found;
}

int64_t config_implied_layers(const struct reader *r) {
    struct json_place place;
    const struct source *source = find_source(r, &place);
    if (source == NULL || !source->whole)
        return 0;
    return (int64_t)(json_is_array(place.value) ? json_array_size(place.value)
                                                : json_string_length(place.value));
}

/* ---- Layers by counts ---- */

struct rhythm {
    int64_t pattern, first_sliding, interval;
};

static bool read_rhythm(struct reader *r, struct rhythm *rhythm) {
    const struct model_class *class = r->class;
    return config_optional(&r->text, &pattern_key, class->pattern, &rhythm->pattern, r->error) &&
           config_optional(&r->text, &first_sliding_key, class->first_sliding,
                           &rhythm->first_sliding, r->error) &&
           config_optional(&r->text, &interval_key, class->full_interval, &rhythm->interval,
                           r->error);
}

/* Whether a layer of a pattern sees all tokens: the last one of each group, or the first. */
static bool is_full(const struct reader *r, const struct rhythm *rhythm, int layer) {
    if (rhythm->pattern == 0)
        return layer < rhythm->first_sliding;
    return (r->class->full_first ? layer : layer + 1) % rhythm->pattern == 0;
}

static const char *word_in_rhythm(const struct reader *r, const struct rhythm *rhythm, int layer) {
    if (r->class->attends_if_listed ||
        (rhythm->interval != 0 && (layer + 1) % rhythm->interval != 0))
        return "linear_attention";
    bool slides = r->window.active && !is_full(r, rhythm, layer);
    return slides ? "sliding_attention" : "full_attention";
}

static bool read_by_rhythm(struct reader *r) {
    struct rhythm rhythm;
    if (!read_rhythm(r, &rhythm))
        return false;
    for (int i = 0; i < r->file_layers; i++)
        set_word(r, i, word_in_rhythm(r, &rhythm, i));
    return true;
}

static bool read_chunks(struct reader *r) {
    struct json_place chunk = json_member(&r->text, "attention_chunk_size"),
                      place = json_member(&r->text, rope_layers.key);
    if (!r->class->chunked)
        return json_fail(
            r->error, &chunk,
            "does not say which layers attend in chunks; accepted: beside layer_types");
    return rope_layers.read(r, &rope_layers, &place);
}

/* ---- The words of all layers ---- */

static bool read_from_keys(struct reader *r) {
    struct json_place place;
    const struct source *source = find_source(r, &place);
    r->described = source != NULL && source->whole;
    if (source != NULL)
        return source->read(r, source, &place);
    struct json_place linear = json_member(&r->text, "linear_attn_config");
    if (json_given(&linear))
        return json_fail(r->error, &linear,
                         "does not list full_attn_layers; accepted: that, or layer_types");
    return r->chunk != 0 ? read_chunks(r) : read_by_rhythm(r);
}

/* RecurrentGemma, PLaMo 2: all attention has the window, except that of listed layers. */
static bool apply_window_everywhere(struct reader *r) {
    struct json_place full = json_member(&r->text, "full_attention_idx");
    if (!r->window.everywhere)
        return true;
    if (json_given(&full) && !config_check_list(r, &full, 0))
        return false;
    for (int i = 0; i < r->file_layers; i++)
        if (r->words[i]->kind == LAYER_FULL && !config_list_has(&full, i))
            set_word(r, i, "sliding_attention");
    return true;
}

bool config_kinds(struct reader *r) {
    if (!read_from_keys(r) || !apply_window_everywhere(r))
        return false;
    if (r->class->last_full)
        set_word(r, r->file_layers - 1, "full_attention");
    return true;
}
