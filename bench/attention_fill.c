/* SPDX-License-Identifier: Apache-2.0 */
#include "attention_fill.h"

#include <string.h>

#include "../runtime/numbers.h"

/* A sequence of numbers in [-1, 1). */
static float next_number(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return (float)(int32_t)*state * 0x1p-31f;
}

void fill_floats(int element, unsigned char *to, int64_t count, float least, float most,
                 uint32_t *state) {
    for (int64_t i = 0; i < count; i++)
        kvmill_store_float(element, to, i,
                           least + (most - least) * 0.5f * (next_number(state) + 1));
}

/* Codes that quantising gives: the least one is not among them. */
static void fill_bytes(unsigned char *to, int64_t count, uint32_t *state) {
    for (int64_t i = 0; i < count; i++)
        to[i] = (unsigned char)(int)(next_number(state) * 127.5f);
}

static void fill_nibbles(unsigned char *to, int64_t count, int offset, uint32_t *state) {
    for (int64_t i = 0; i < count; i++) {
        int low = (int)(next_number(state) * 7.5f) + offset;
        int high = (int)(next_number(state) * 7.5f) + offset;
        to[i] = (unsigned char)((low & 15) | (high & 15) << 4);
    }
}

/* A block of llama.cpp's: a scale, then codes. */
static void fill_blocks(int element, unsigned char *to, int64_t bytes, uint32_t *state) {
    int64_t block = element == KVMILL_Q8_0 ? 34 : 18;
    for (unsigned char *at = to; at < to + bytes; at += block) {
        float largest = element == KVMILL_Q8_0 ? 127 : 7;
        fill_floats(KVMILL_F16, at, 1, 0.5f / largest, 1 / largest, state);
        if (element == KVMILL_Q8_0)
            fill_bytes(at + 2, block - 2, state);
        else
            fill_nibbles(at + 2, block - 2, 8, state);
    }
}

void fill_rows(const struct kvmill_format *format, unsigned char *to, int64_t bytes,
               uint32_t *state) {
    switch (format->element) {
    case KVMILL_I8:
        fill_bytes(to, bytes, state);
        break;
    case KVMILL_I4:
        fill_nibbles(to, bytes, 0, state);
        break;
    case KVMILL_Q8_0:
    case KVMILL_Q4_0:
        fill_blocks(format->element, to, bytes, state);
        break;
    default:
        fill_floats(format->element, to, bytes / kvmill_activation_bytes(format->element), -1, 1,
                    state);
    }
}

void fill_scales(const struct kvmill_format *format, unsigned char *to, int64_t bytes,
                 uint32_t *state) {
    float largest = format->element == KVMILL_I8 ? 127 : 7;
    fill_floats(format->scale, to, bytes / kvmill_activation_bytes(format->scale), 0.5f / largest,
                1 / largest, state);
}

void fill_repeat(unsigned char *data, int64_t bytes, int64_t part) {
    for (int64_t at = part; at < bytes; at += part)
        memcpy(data + at, data, (size_t)(bytes - at < part ? bytes - at : part));
}
