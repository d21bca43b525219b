/* What words ask of their arguments.

   SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "words_cases.h"

#define FIT_LANES(NAME, STATEMENTS)                                                                \
    static void NAME(union value *v, int lanes) {                                                  \
        for (int i = 0; i < lanes; i++) {                                                          \
            STATEMENTS                                                                             \
        }                                                                                          \
    }

FIT_LANES(moderate, v[1].floats[i] = moderate_float();)
FIT_LANES(not_to_zero, v[1].floats[i] = beyond_half();)
FIT_LANES(exponents, v[1].floats[i] = any_exponent();)
FIT_LANES(powers, bool is_zero = below(10) == 0;
          v[1].floats[i] = is_zero ? 1 : 0.5f + (float)below(1500001) / 1000000;
          v[2].floats[i] = is_zero ? -127 : (float)(below(252) - 125);)
FIT_LANES(near_integers, v[1].floats[i] = near_integer();)
FIT_LANES(quotients_f32, make_quotient(v, i, 0);)
FIT_LANES(quotients_f16, make_quotient(v, i, 13);)
FIT_LANES(quotients_bf16, make_quotient(v, i, 16);)
FIT_LANES(nibbles, for (int k = 2; k <= 5; k++) v[k].words[i] = below(15) - 7;)
FIT_LANES(quarters, v[1].words[i] /= 4;)
FIT_LANES(magnitudes_u16, for (int k = 1; k <= 4; k++) v[k].words[i] &= 0x7fff7fff;)
FIT_LANES(magnitudes_u32, for (int k = 1; k <= 4; k++) v[k].words[i] &= 0x7fffffff;)

/* The magnitude of one of 32 elements, which others have with either sign. */
static void one_of_u16(union value *v, int lanes) {
    uint16_t *x = v[1].pointer, magnitude = x[below(32)] & 0x7fff;
    (void)lanes;
    for (int k = below(4); k > 0; k--)
        x[below(32)] = (uint16_t)(magnitude | below(2) << 15);
    v[2].words[0] = magnitude;
}

static void one_of_u32(union value *v, int lanes) {
    uint32_t *x = v[1].pointer, magnitude = x[below(32)] & 0x7fffffff;
    (void)lanes;
    for (int k = below(4); k > 0; k--)
        x[below(32)] = magnitude | (uint32_t)below(2) << 31;
    v[2].bits[0] = magnitude;
}

static void near_a_lane(union value *v, int lanes) {
    v[2].words[0] = below(2) ? v[1].words[below(lanes)] : some_word();
    v[2].words[0] += v[2].words[0] == INT32_MIN;
}

static void bits_of_lanes(union value *v, int lanes) {
    v[2].bits[0] &= (1u << lanes) - 1;
}

static void step_of_quads(union value *v, int lanes) {
    (void)lanes;
    v[2].wide = 4 + below(13);
}

static void either_nibble(union value *v, int lanes) {
    (void)lanes;
    v[3].count = below(2) ? 4 : 0;
}

static void even_count(union value *v, int lanes) {
    (void)lanes;
    v[2].count &= ~(size_t)1;
}

static void power_of_two(union value *v, int lanes) {
    (void)lanes;
    v[2].count = (size_t)1 << below(6);
}

static const struct rule rules[] = {
    {.words = "sum_of", .fit = moderate, .tolerance = 1e-5f},
    {.words = "largest_of", .fit = moderate},
    {.words = "nearest_whole", .fit = not_to_zero},
    {.words = "power_of_2", .fit = exponents},
    {.words = "times_power", .fit = powers},
    {.words = "round_even round_away truncate", .fit = near_integers},
    {.words = "code_f32", .fit = quotients_f32},
    {.words = "code_f16", .fit = quotients_f16},
    {.words = "code_bf16", .fit = quotients_bf16},
    {.words = "store_i4 stream_i4", .fit = nibbles},
    {.words = "starts_negative_u16", .fit = one_of_u16, .read_bits = 16, .read_elements = 32},
    {.words = "starts_negative_u32", .fit = one_of_u32, .read_bits = 32, .read_elements = 32},
    {.words = "any_from", .fit = near_a_lane},
    {.words = "pack_lanes", .fit = bits_of_lanes},
    {.words = "store_quads", .fit = step_of_quads},
    {.words = "load_table", .fit = either_nibble, .read_bits = 8, .read_elements = 16},
    {.words = "add_products", .fit = quarters},
    {.words = "largest_u16", .fit = magnitudes_u16},
    {.words = "largest_u32", .fit = magnitudes_u32},
    {.words = "spread_halves", .fit = power_of_two, .read_bits = 32},
    {.words = "value_f16 value_bf16 narrowed element_of_key_u16", .kind = 'k'},
    {.words = "load_some_i4", .fit = even_count, .read_bits = 4, .read_elements = -1},
    {.words = "load_some_i8", .read_bits = 8, .read_elements = -1},
    {.words = "load_some_f16 load_some_bf16", .read_bits = 16, .read_elements = -1},
    {.words = "load_some_f32", .read_bits = 32, .read_elements = -1},
    {.words = "load_one_f16 load_one_bf16", .read_bits = 16, .read_elements = 1},
    {.words = "broadcast_pair", .read_bits = 32, .read_elements = 2},
    {.words = "load_quad load_quads signs_of_four", .read_bits = 32, .read_elements = 4},
    {.words = "load_i4", .read_bits = 4},
    {.words = "load_i8 load_u8 load_s8 load_four load_vh_i4", .read_bits = 8},
    {.words = "load_f16 load_bf16 load_pairs halves_side_by_side load_vh_i8", .read_bits = 16},
    {.words = "load_f32 load_words rows_side_by_side interleaved load_vh bits_u16 bits_u32 "
              "flipped_u16 flipped_u32 keys_u16 keys_u32 magnitudes_u16 magnitudes_u32",
     .read_bits = 32},
};

/* Whether the word is among words that are separated by spaces. */
static bool has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

struct rule rule_of(const char *word) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (has_word(rules[i].words, word))
            return rules[i];
    return (struct rule){.words = word};
}
