/* SPDX-License-Identifier: Apache-2.0 */
#include "other_formats.h"

#include <stdio.h>
#include <string.h>

#define NO_FLOAT4      "is not supported; iq4_nl also has 16 values, in 4.5 bits"
#define NO_ZERO_POINTS "has zero points, which are not supported; q4_1 and q5_1 have minimums"
#define NO_ROTATION    "is not supported; rotate queries and rows, and choose iq4_nl"
#define NO_CHANNELS    "has scales of channels, which are not supported; q5_0,q4_1 takes 5.25 bits"

/* doc/guide/formats.md says more about formats that are not supported. */
static const struct {
    const char *word, *advice;
} others[] = {
    {"f32", "is float32"},      {"fp32", "is float32"},        {"f16", "is float16"},
    {"fp16", "is float16"},     {"bf16", "is bfloat16"},       {"i8", "is int8"},
    {"fp8", "is float8e4m3fn"}, {"e4m3", "is float8e4m3fn"},   {"fp8_e4m3", "is float8e4m3fn"},
    {"e5m2", "is float8e5m2"},  {"fp8_e5m2", "is float8e5m2"}, {"q8_KV", "is q8_kv"},
    {"mxfp4", NO_FLOAT4},       {"nvfp4", NO_FLOAT4},          {"fp4", NO_FLOAT4},
    {"u8", NO_ZERO_POINTS},     {"u4", NO_ZERO_POINTS},        {"uint8", NO_ZERO_POINTS},
    {"uint4", NO_ZERO_POINTS},  {"turbo2", NO_ROTATION},       {"turbo3", NO_ROTATION},
    {"turbo4", NO_ROTATION},    {"turboquant", NO_ROTATION},   {"kivi", NO_CHANNELS},
    {"kvarn", NO_CHANNELS},
};

static const char *advice_of(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i].word) == length && memcmp(others[i].word, word, length) == 0)
            return others[i].advice;
    return NULL;
}

const char *other_format_advice(const char *words, char *text, size_t size) {
    for (const char *word = words; *word != '\0';) {
        size_t length = strcspn(word, ",");
        const char *advice = advice_of(word, length);
        if (advice != NULL) {
            snprintf(text, size, "; %.*s %s", (int)length, word, advice);
            return text;
        }
        word += length + (word[length] == ',');
    }
    return "";
}
