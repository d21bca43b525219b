/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_keys.h"

#include <stdlib.h>

enum { TOPICS = 48, NEEDLES = 32, SINK = TOPICS + NEEDLES, CENTRES = SINK + 1 };
enum { SINKS = 4, LEAST_SEGMENT = 24, MOST_SEGMENT = 500, OUTLIERS = 3, NEEDLE_HEADS = 4 };

/* Relative to a centre, in which each channel has a standard deviation of 1. */
static const float noise = 0.8f, outlier = 5, asking = 0.5f, doubt = 0.25f, sinking = 0.25f,
                   searching = 0.9f;

/* ---- Numbers ---- */

static uint64_t next(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Returns the state of the random numbers for a row. */
static uint64_t state_of(uint64_t kind, uint64_t head, uint64_t number) {
    uint64_t state = kind << 56 ^ head << 40 ^ number;
    return next(&state);
}

/* Returns a nearly normal number with variance 1: a sum of four uniform numbers. */
static float normal(uint64_t *state) {
    uint64_t bits = next(state);
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (int)(bits >> 16 * i & 0xffff);
    return ((float)sum / 65536 - 2) * 1.7320508f;
}

static void add_normals(uint64_t state, float deviation, int dim, float *row) {
    for (int d = 0; d < dim; d++)
        row[d] += deviation * normal(&state);
}

enum { CENTRE_STATE, KEY_STATE, VALUE_STATE, QUERY_STATE, SEGMENT_STATE };

/* ---- Centres and segments ---- */

static float *centre_of(const struct flow_keys *keys, int head, int which) {
    return keys->centre + ((int64_t)head * CENTRES + which) * keys->dim;
}

static void fill_centres(const struct flow_keys *keys) {
    for (int head = 0; head < keys->kv_heads; head++)
        for (int i = 0; i < CENTRES; i++)
            add_normals(state_of(CENTRE_STATE, (uint64_t)head, (uint64_t)i), 1, keys->dim,
                        centre_of(keys, head, i));
}

static void fill_topics(const struct flow_keys *keys) {
    uint64_t state = state_of(SEGMENT_STATE, 0, 0);
    for (int64_t t = 0, end; t < keys->tokens; t = end) {
        int16_t topic = (int16_t)(next(&state) % TOPICS);
        end = t + LEAST_SEGMENT + (int64_t)(next(&state) % (MOST_SEGMENT - LEAST_SEGMENT));
        for (int64_t i = t; i < end && i < keys->tokens; i++)
            keys->topic[i] = topic;
    }
    for (int i = 0; i < NEEDLES; i++)
        keys->topic[next(&state) % (uint64_t)keys->tokens] = (int16_t)(TOPICS + i);
    for (int64_t t = 0; t < SINKS && t < keys->tokens; t++)
        keys->topic[t] = SINK;
}

int flow_keys_make(struct flow_keys *keys, int64_t tokens, int kv_heads, int group, int dim) {
    *keys = (struct flow_keys){tokens, kv_heads, group, dim, NULL, NULL};
    keys->centre = calloc((size_t)kv_heads * CENTRES * (size_t)dim, sizeof *keys->centre);
    keys->topic = calloc((size_t)tokens, sizeof *keys->topic);
    if (keys->centre == NULL || keys->topic == NULL) {
        flow_keys_free(keys);
        return 0;
    }
    fill_centres(keys);
    fill_topics(keys);
    return 1;
}

void flow_keys_free(struct flow_keys *keys) {
    free(keys->centre);
    free(keys->topic);
    *keys = (struct flow_keys){0};
}

/* ---- Rows ---- */

void flow_key(const struct flow_keys *keys, int kv_head, int64_t token, float *row) {
    const float *centre = centre_of(keys, kv_head, keys->topic[token]);
    for (int d = 0; d < keys->dim; d++)
        row[d] = centre[d] +
                 (d % keys->kv_heads == kv_head && d / keys->kv_heads < OUTLIERS ? outlier : 0);
    add_normals(state_of(KEY_STATE, (uint64_t)kv_head, (uint64_t)token), noise, keys->dim, row);
}

void flow_value(const struct flow_keys *keys, int kv_head, int64_t token, float *row) {
    for (int d = 0; d < keys->dim; d++)
        row[d] = 0;
    add_normals(state_of(VALUE_STATE, (uint64_t)kv_head, (uint64_t)token), 1, keys->dim, row);
}

static void add_centre(const struct flow_keys *keys, int kv_head, int which, float share,
                       float *row) {
    const float *centre = centre_of(keys, kv_head, which);
    for (int d = 0; d < keys->dim; d++)
        row[d] += share * centre[d];
}

void flow_query(const struct flow_keys *keys, int head, int64_t number, float *row) {
    uint64_t state = state_of(QUERY_STATE, 0, (uint64_t)number);
    int kv_head = head / keys->group;
    int topic = keys->topic[next(&state) % (uint64_t)keys->tokens] % TOPICS;
    int needle = TOPICS + (int)(next(&state) % NEEDLES);
    for (int d = 0; d < keys->dim; d++)
        row[d] = 0;
    add_centre(keys, kv_head, topic, asking, row);
    add_centre(keys, kv_head, SINK, sinking, row);
    if (head % NEEDLE_HEADS == 0)
        add_centre(keys, kv_head, needle, searching, row);
    add_normals(state_of(QUERY_STATE, (uint64_t)head + 1, (uint64_t)number), doubt, keys->dim, row);
}
