m4_divert(-1)
m4_dnl words.c.m4 -- functions that call each word of the vocabulary: words_of_isa() calls the versions of the instruction set, or,
m4_dnl where km_mode is meaning, words_meant() what they mean in plain C.  words.c calls both and compares.

m4_dnl km_fits(WORD, STATEMENTS) -- make arguments fit, v[1] and so on, that may not be just any; km_fits_lanes: the same for every lane i.
m4_define(«km_fits», «m4_define(«_km_fits_$1», «$2»)»)
m4_define(«km_fits_lanes», «km_fits(«$1», «for (int i = 0; i < lanes; i++) {
        $2
    }»)»)
m4_dnl km_kinds(WORD, LETTERS) -- in the place of those that its parameters have.
m4_define(«km_kinds», «m4_define(«_km_kinds_$1», «$2»)»)
m4_dnl km_reads(WORD, BITS, ELEMENTS) -- what it reads from each pointer; 0 elements: as many as lanes; -1: as its count says.
m4_define(«km_reads», «m4_define(«_km_bits_read_$1», «$2»)m4_define(«_km_elements_read_$1», «$3»)»)
m4_dnl km_tolerance(WORD, ERROR) -- of the largest argument: sums in another order.
m4_define(«km_tolerance», «m4_define(«_km_tolerance_$1», «$2»)»)

km_tolerance(«sum_of», «1e-5f»)
km_fits_lanes(«sum_of», «v[1].floats[i] = moderate_float();»)
km_fits_lanes(«largest_of», «v[1].floats[i] = moderate_float();»)
km_fits_lanes(«nearest_whole», «v[1].floats[i] = beyond_half();»)
km_fits_lanes(«power_of_2», «v[1].floats[i] = any_exponent();»)
km_fits_lanes(«times_power», «bool is_zero = below(10) == 0;
        v[1].floats[i] = is_zero ? 1 : 0.5f + (float)below(1500001) / 1000000;
        v[2].floats[i] = is_zero ? -127 : (float)(below(252) - 125);»)
km_for_words(«W», «round_even, round_away, truncate», «km_fits_lanes(W, «v[1].floats[i] = near_integer();»)»)
km_fits_lanes(«code_f32», «make_quotient(v, i, 0);»)
km_fits_lanes(«code_f16», «make_quotient(v, i, 13);»)
km_fits_lanes(«code_bf16», «make_quotient(v, i, 16);»)
km_for_words(«W», «store_i4, stream_i4», «km_fits_lanes(W, «for (int k = 2; k <= 5; k++)
            v[k].words[i] = below(15) - 7;»)»)
m4_dnl The magnitude of one of 32 elements, which others have with either sign.
km_fits(«starts_negative_u16», «uint16_t *x = v[1].pointer, magnitude = x[below(32)] & 0x7fff;
    for (int k = below(4); k > 0; k--)
        x[below(32)] = (uint16_t)(magnitude | below(2) << 15);
    v[2].words[0] = magnitude;»)
km_fits(«starts_negative_u32», «uint32_t *x = v[1].pointer, magnitude = x[below(32)] & 0x7fffffff;
    for (int k = below(4); k > 0; k--)
        x[below(32)] = magnitude | (uint32_t)below(2) << 31;
    v[2].bits[0] = magnitude;»)
km_fits(«any_from», «v[2].words[0] = below(2) ? v[1].words[below(lanes)] : some_word();
    v[2].words[0] += v[2].words[0] == INT32_MIN;»)
km_fits(«pack_lanes», «v[2].bits[0] &= (1u << lanes) - 1;»)
km_fits(«store_quads», «v[2].wide = 4 + below(13);»)
km_fits(«load_table», «v[3].count = below(2) ? 4 : 0;»)
km_fits(«load_some_i4», «v[2].count &= ~(size_t)1;»)
km_fits_lanes(«add_products», «v[1].words[i] /= 4;»)
km_fits_lanes(«largest_u16», «for (int k = 1; k <= 4; k++)
            v[k].words[i] &= 0x7fff7fff;»)
km_fits_lanes(«largest_u32», «for (int k = 1; k <= 4; k++)
            v[k].words[i] &= 0x7fffffff;»)
km_fits(«spread_halves», «v[2].count = (size_t)1 << below(6);»)
km_for_words(«W», «value_f16, value_bf16, narrowed, element_of_key_u16», «km_kinds(W, «k»)»)

km_for_words(«T», «f32, words», «km_reads(«load_»T, 32, 0)»)
km_for_words(«T», «f16, bf16», «km_reads(«load_»T, 16, 0)»)
km_for_words(«T», «i8, u8, s8», «km_reads(«load_»T, 8, 0)»)
km_reads(«load_i4», 4, 0)
km_reads(«load_table», 8, 16)
km_reads(«load_one_f16», 16, 1)
km_reads(«load_one_bf16», 16, 1)
km_reads(«load_some_f32», 32, -1)
km_reads(«load_some_f16», 16, -1)
km_reads(«load_some_bf16», 16, -1)
km_reads(«load_some_i8», 8, -1)
km_reads(«load_some_i4», 4, -1)
km_reads(«load_quad», 32, 4)
km_reads(«load_quads», 32, 4)
km_reads(«broadcast_pair», 32, 2)
km_reads(«signs_of_four», 32, 4)
km_reads(«load_four», 8, 0)
km_reads(«rows_side_by_side», 32, 0)
km_reads(«interleaved», 32, 0)
km_reads(«halves_side_by_side», 16, 0)
km_reads(«load_pairs», 16, 0)
km_reads(«starts_negative_u16», 16, 32)
km_reads(«starts_negative_u32», 32, 32)
km_for_words(«W», «bits, flipped», «km_reads(W«»_u16, 32, 0)km_reads(W«»_u32, 32, 0)»)
km_reads(«keys_u16», 32, 0)
km_reads(«keys_u32», 32, 0)
km_reads(«magnitudes_u16», 32, 0)
km_reads(«magnitudes_u32», 32, 0)
km_reads(«load_vh», 32, 0)
km_reads(«load_vh_i8», 16, 0)
km_reads(«load_vh_i4», 8, 0)
km_reads(«spread_halves», 32, 0)

m4_dnl Words on float16 need a compiler that has it.
m4_define(«_km_is_there», «m4_ifelse(m4_index(m4_defn(«_km_type_$1»)m4_defn(«_km_parameters_$1»), «vh»), -1, 1, km_has_own(«load_vh»))»)

m4_ifelse(km_mode, «meaning», «km_for_words(«W», km_vocabulary, «m4_define(«_km_body_»W, m4_defn(«_km_meaning_»W))»)m4_define(«km_target», «»)m4_define(«km_headers», «»)»)

m4_dnl _km_kind(PARAMETER) -- a letter that tells words.c what to make.
m4_define(«_km_kind», «m4_ifelse(m4_index(«$1», «[»), -1, «_km_kind_of(m4_regexp(«$1», « *\(.*[ *]\)[a-z0-9_]+$», ««\1»»))», «a»)»)
m4_define(«_km_kind_of», «m4_ifelse(m4_index(«$1», «*»), -1, «m4_ifelse(
  «$1», «vf », «v», «$1», «vi », «w», «$1», «halves », «h», «$1», «vh », «x», «$1», «float », «f», «$1», «int32_t », «i»,
  «$1», «uint32_t », «u», «$1», «int64_t », «l», «$1», «uint64_t », «b», «n»)», «m4_ifelse(m4_index(«$1», «const»), -1, «q», «p»)»)»)
m4_define(«_km_c_type», «m4_ifelse(m4_index(«$1», «[»), -1, «m4_regexp(«$1», « *\(.*[ *]\)[a-z0-9_]+$», «\1»)», «vf *»)»)
m4_define(«_km_result», «m4_ifelse(«$1», «vf», «v», «$1», «vi», «w», «$1», «vu», «w», «$1», «halves», «h», «$1», «vh», «x», «$1», «float», «f», «$1», «void», «-», «i»)»)

m4_dnl _km_each_parameter(WORD, BODY of P and I)
m4_define(«_km_each_parameter», «m4_define(«I», 0)km_for_words(«P», m4_defn(«_km_parameters_$1»), «m4_define(«I», m4_incr(I))$2»)»)
m4_define(«_km_caller», «km_function(«void», «call_$1(union value *v)»)
{
_km_each_parameter(«$1», «    _km_c_type(m4_defn(«P»))p«»I;
    memcpy(&p«»I, &v[I], sizeof p«»I);
»)    m4_ifelse(m4_defn(«_km_type_$1»), «void», «», «m4_indir(«_km_type_$1») result = »)_km_called(«$1», _km_each_parameter(«$1», «m4_ifelse(I, 1, «», «, »)p«»I»));
m4_ifelse(m4_defn(«_km_type_$1»), «void», «», «    memcpy(&v[0], &result, sizeof result);
»)}

»)
m4_define(«_km_fit», «m4_ifdef(«_km_fits_$1», «static void fit_$1(union value *v, int lanes)
{
    (void)lanes;
    m4_defn(«_km_fits_$1»)
}

»)»)
m4_define(«_km_called», «m4_indir(«$1», m4_shift($@))»)
m4_define(«_km_row», «    {"$1", '_km_result(m4_defn(«_km_type_$1»))', "m4_ifdef(«_km_kinds_$1», «m4_defn(«_km_kinds_$1»)», «_km_each_parameter(«$1», «_km_kind(m4_defn(«P»))»)»)", call_$1, m4_ifdef(«_km_fits_$1», «fit_$1», «NULL»), m4_ifdef(«_km_bits_read_$1», «m4_defn(«_km_bits_read_$1»), m4_defn(«_km_elements_read_$1»)», «0, 0»), m4_ifdef(«_km_tolerance_$1», «m4_defn(«_km_tolerance_$1»)», 0)},
»)
m4_define(«_km_each_word», «km_for_words(«W», km_vocabulary, «m4_ifelse(_km_is_there(m4_defn(«W»)), 1, «$1(m4_defn(«W»))»)»)»)
m4_divert(0)m4_dnl
m4_ifelse(km_headers, «», «», «km_headers
»)#include "kvmill_kernel.h"
#include "words.h"

km_kernel_begins
_km_each_word(«_km_caller»)_km_each_word(«_km_fit»)m4_dnl
const int m4_ifelse(km_mode, «meaning», «lanes_meant», «lanes_of_isa») = LANES;
const struct word m4_ifelse(km_mode, «meaning», «words_meant», «words_of_isa»)[] = {
_km_each_word(«_km_row»)    {NULL},
};
