/* SPDX-License-Identifier: Apache-2.0 */
#include "scene_fill.h"

#include <string.h>

#include "../defs/codes.h"
#include "../ops/element.h"
#include "../runtime/core/numbers.h"
#include "../tune/random.h"

/* Lengths of the repeated pattern: primes, so that neighbours in memory differ. */
enum { PATTERN_ROWS = 1021, PATTERN_NUMBERS = 262147 };

/* ---- Elements ---- */

/* Returns the next of a sequence of numbers in [-1, 1). */
static float next_number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (float)(int32_t)*state * 0x1p-31f;
}

static void fill_floats(int element, unsigned char *to, int64_t bytes, float least, float most,
                        uint32_t *state) {
    for (int64_t i = 0; i < bytes * 8 / kvmill_format_parts(element)->bits; i++)
        kvmill_store_float(element, to, i,
                           least + (most - least) * 0.5f * (next_number(state) + 1));
}

/* Returns the largest distance of a code from the middle. */
static float most_from_middle(const struct kvmill_format_parts *parts) {
    return parts->table != NULL ? (float)kvmill_format_most_code(parts)
                                : (float)((1 << (parts->bits - 1)) - 1);
}

/* Fills with codes that quantising can give; the least signed code is not one of them. */
static void fill_codes(const struct kvmill_format_parts *parts, unsigned char *to, int64_t count,
                       uint32_t *state) {
    int middle = parts->code == KVMILL_CODE_UNSIGNED ? 1 << (parts->bits - 1) : 0;
    for (int64_t i = 0; i < count; i++) {
        int code = (int)(next_number(state) * (most_from_middle(parts) + 0.5f)) + middle;
        kvmill_pack_codes(parts, &code, i, 1, to);
    }
}

static void fill_scales(const struct kvmill_format_parts *parts, int type, unsigned char *to,
                        int64_t bytes, uint32_t *state) {
    float most = 1 / most_from_middle(parts);
    fill_floats(type, to, bytes, 0.5f * most, most, state);
}

static void fill_block(const struct kvmill_format_parts *parts, unsigned char *block,
                       uint32_t *state) {
    fill_scales(parts, KVMILL_F16, block, 2, state);
    if (parts->minimum)
        fill_floats(KVMILL_F16, block + 2, 2, -1, -0.5f, state);
    fill_codes(parts, block + kvmill_format_codes_at(parts), parts->block, state);
}

/* The sum of the codes stays 0: nothing reads it here. */
static void fill_row_with_head(const struct kvmill_format *format, unsigned char *row,
                               uint32_t *state) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(format->element);
    memset(row, 0, (size_t)kvmill_format_row_head(parts));
    fill_scales(parts, KVMILL_F32, row, sizeof(float), state);
    fill_codes(parts, row + kvmill_format_codes_at(parts), format->dim, state);
}

static void fill_rows(const struct kvmill_format *format, unsigned char *to, int64_t bytes,
                      uint32_t *state) {
    const struct kvmill_format_parts *parts = kvmill_format_parts(format->element);
    if (parts->scales == KVMILL_WITHOUT_SCALES)
        fill_floats(format->element, to, bytes, -1, 1, state);
    else if (parts->block == 0)
        fill_codes(parts, to, bytes * 8 / parts->bits, state);
    if (parts->scales == KVMILL_SCALES_IN_BLOCKS)
        for (int64_t at = 0; at < bytes; at += kvmill_format_block_bytes(parts))
            fill_block(parts, to + at, state);
    if (parts->scales == KVMILL_SCALES_IN_ROWS)
        for (int64_t at = 0; at < bytes; at += kvmill_format_row_bytes(format))
            fill_row_with_head(format, to + at, state);
}

/* ---- Memory ---- */

/* Repeats the first `part` bytes up to the end. */
static void repeat(struct scene_memory *memory, int64_t part) {
    for (int64_t at = part; at < memory->bytes; at += part)
        memcpy(memory->data + at, memory->data, (size_t)kvmill_min(part, memory->bytes - at));
}

void fill_memory_floats(struct scene_memory *memory, int element, float most, uint32_t seed) {
    int64_t part = kvmill_min(PATTERN_NUMBERS * kvmill_activation_bytes(element), memory->bytes);
    fill_floats(element, memory->data, part, -most, most, &seed);
    repeat(memory, part);
}

void fill_memory_rows(struct scene_memory *memory, const struct kvmill_format *format, bool scales,
                      int64_t row, uint32_t seed) {
    int64_t part = kvmill_min(PATTERN_ROWS * row, memory->bytes / row * row);
    if (scales)
        fill_scales(kvmill_format_parts(format->element), format->scale, memory->data, part, &seed);
    else
        fill_rows(format, memory->data, part, &seed);
    repeat(memory, part);
}

void fill_memory_numbers(struct scene_memory *memory, int64_t number) {
    for (int64_t at = 0; at + (int64_t)sizeof number <= memory->bytes; at += sizeof number)
        memcpy(memory->data + at, &number, sizeof number);
}

void fill_moderate(DLDataType type, unsigned char *data, int64_t bytes, uint64_t *state) {
    int bits = type.code == KVMILL_DL_BOOL ? 1 : type.bits;
    unsigned char mask = (unsigned char)(bits < 8 ? (1 << bits) - 1 : 0xff);
    for (int64_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(0x3c + random_below(state, 4)) & mask;
}

/* ---- Starts of windows ---- */

static int64_t largest_of(DLDataType type) {
    int bits = type.code == kDLInt ? type.bits - 1 : type.bits;
    return bits >= 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
}

/* Counts the starts of each component of an index vector: those that keep the window inside, and
   that fit the type. */
static void count_starts(const struct kvmill_windows *windows, DLDataType type,
                         int64_t count[KVMILL_MOST_RANK]) {
    int64_t most = largest_of(type);
    count[0] = 1;
    for (int d = 0; d < windows->rank; d++)
        if (windows->component[d] != KVMILL_NOT_THERE)
            count[windows->component[d]] =
                kvmill_min(windows->dim[d] - windows->window[d], most) + 1;
}

/* Returns the elements from one component of an index vector to the next. */
static int64_t component_step(const struct kvmill_windows *windows, const DLTensor *indices) {
    int64_t step = 1;
    for (int d = windows->vector_axis + 1;
         windows->vector_axis != KVMILL_NOT_THERE && d < indices->ndim; d++)
        step *= indices->shape[d];
    return step;
}

void fill_memory_indices(struct scene_memory *memory, const struct kvmill_windows *windows,
                         const DLTensor *indices, int run) {
    int64_t size = kvmill_element_bytes(indices->dtype), step = component_step(windows, indices);
    int64_t count[KVMILL_MOST_RANK] = {0}, value = 0;
    int64_t components = windows->components > 0 ? windows->components : 1;
    uint64_t state = 1;
    count_starts(windows, indices->dtype, count);
    for (int64_t i = 0; i < memory->set * memory->sets / size; i++) {
        int64_t starts = count[i / step % components];
        bool goes_on = run > 1 && random_below(&state, (uint64_t)run) > 0;
        value = goes_on ? (value + 1) % starts : (int64_t)random_below(&state, (uint64_t)starts);
        memcpy(memory->data + i * size, &value, (size_t)size);
    }
}
