/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_page.h"

#include "../core/numbers.h"
#include "../core/write_tokens.h"
#include "../portable/cache_row.h"
#include "../portable/portable.h"

/* ---- K and V ---- */

static void load_rows(const struct flow_page *page, const struct kvmill_cache_rows *cache,
                      const struct kvmill_format *format, float *data) {
    int64_t first = flow_first_row(page->problem, page->cache, page->number);
    for (int64_t r = 0; r < page->rows; r++) {
        int64_t slot = first + r;
        const unsigned char *row = cache->data +
                                   kvmill_format_row_at(format, slot, cache->row_stride) +
                                   page->kv_head * cache->head_stride;
        const unsigned char *scale = cache->scale == NULL
                                         ? NULL
                                         : cache->scale + slot * cache->scale_row_stride +
                                               page->kv_head * cache->scale_head_stride;
        kvmill_load_cache_row(format, row, scale, 0, format->dim, data + r * format->dim);
    }
}

/* The cache's row for row r of a page. */
static int64_t row_of(const void *context, int64_t r) {
    const struct flow_page *page = context;
    return flow_first_row(page->problem, page->cache, page->number) + r;
}

void kvmill_flow_store_rows(const struct flow_page *page, int v, float *data) {
    const struct kvmill_cache_geometry *geometry = &page->problem->geometry;
    const struct kvmill_convert_shape shape = kvmill_convert_shape_of(geometry, v);
    struct kvmill_cache_rows rows = v ? page->cache->value : page->cache->key;
    unsigned char *activations = (unsigned char *)data;
    rows.data += page->kv_head * rows.head_stride;
    rows.scale = rows.scale ? rows.scale + page->kv_head * rows.scale_head_stride : NULL;
    for (int64_t i = 0; i < page->rows * shape.format.dim; i++)
        kvmill_store_float(shape.activation, activations, i,
                           data[i]); /* activations fit in floats */
    const struct kvmill_convert convert = {
        .shape = &shape,
        .activation = activations,
        .token_stride = shape.format.dim * kvmill_activation_bytes(shape.activation),
        .cache = rows,
        .heads = 1,
        .repeat = 1,
        .saturate = geometry->saturates,
    };
    kvmill_write_tokens(&kvmill_portable_write_rows, &convert, row_of, page, 0, page->rows);
}

/* ---- Fields ---- */

static unsigned char *field_at(const struct flow_page *page, int field) {
    return flow_field_at(page->problem, page->cache, field, page->number, page->kv_head);
}

static void load_field(const struct flow_page *page, int field, float *data) {
    const struct kvmill_flow_field_data *known = &page->problem->fields[field];
    const unsigned char *from = field_at(page, field);
    for (int64_t i = 0; i < known->rows * known->columns; i++)
        data[i] = kvmill_load_float(known->element, from, i);
}

void kvmill_flow_load(const struct flow_page *page, const struct kvmill_flow_value *value,
                      float *data) {
    const struct kvmill_cache_geometry *geometry = &page->problem->geometry;
    if (value->source == KVMILL_FLOW_FIELD)
        load_field(page, value->number, data);
    else if (value->source == KVMILL_FLOW_KEY)
        load_rows(page, &page->cache->key, &geometry->key, data);
    else
        load_rows(page, &page->cache->value, &geometry->value, data);
}

/* ---- Rounding ---- */

static bool is_maximum(int code) {
    return code == KVMILL_FLOW_MAX || code == KVMILL_FLOW_MAX_INTERLEAVE ||
           code == KVMILL_FLOW_MAXIMUM;
}

static bool is_minimum(int code) {
    return code == KVMILL_FLOW_MIN || code == KVMILL_FLOW_MIN_INTERLEAVE ||
           code == KVMILL_FLOW_MINIMUM;
}

/* Neighbouring numbers of half precision have neighbouring bits. */
static float next_above(int element, float value) {
    unsigned char half[sizeof(float)];
    uint16_t bits;
    kvmill_store_float(element, half, 0, value);
    memcpy(&bits, half, sizeof bits);
    bits = bits & 0x8000 ? (uint16_t)(bits - 1) : (uint16_t)(bits + 1);
    memcpy(half, &bits, sizeof bits);
    return kvmill_load_float(element, half, 0);
}

/* The least number of the type that is not below `value`. */
static float round_up(int element, float value) {
    float nearest = kvmill_round_as(element, value);
    return nearest < value ? next_above(element, nearest) : nearest;
}

static float rounded(int element, int code, float value) {
    if (is_maximum(code))
        return round_up(element, value);
    return is_minimum(code) ? -round_up(element, -value) : kvmill_round_as(element, value);
}

void kvmill_flow_store(const struct flow_page *page, int field, int code, const float *data) {
    const struct kvmill_flow_field_data *known = &page->problem->fields[field];
    unsigned char *to = field_at(page, field);
    for (int64_t i = 0; i < known->rows * known->columns; i++)
        kvmill_store_float(known->element, to, i, rounded(known->element, code, data[i]));
}
