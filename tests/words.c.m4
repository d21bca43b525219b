m4_divert(-1)
m4_dnl words.c.m4 -- functions that call each word of the vocabulary: words_of_isa() calls the versions of the instruction set, or,
m4_dnl where km_mode is meaning, words_meant() what they mean in plain C.  words.c calls both and compares.

m4_dnl km_fitted(WORD, FUNCTION) -- in words.c, makes arguments fit that may not be just any.
m4_define(«km_fitted», «m4_define(«_km_fitted_$1», «$2»)»)
m4_dnl km_reads(WORD, BITS, ELEMENTS) -- what it reads from each pointer; 0 elements: as many as lanes; -1: as its count says.
m4_define(«km_reads», «m4_define(«_km_bits_read_$1», «$2»)m4_define(«_km_elements_read_$1», «$3»)»)
m4_dnl km_tolerance(WORD, ERROR) -- of the largest argument: sums in another order.
m4_define(«km_tolerance», «m4_define(«_km_tolerance_$1», «$2»)»)

km_tolerance(«sum_of», «1e-5f»)
km_fitted(«sum_of», «moderate»)
km_fitted(«largest_of», «moderate»)
km_fitted(«nearest_whole», «beyond_halves»)
km_fitted(«power_of_2», «exponents»)
km_fitted(«times_power», «mantissa_and_power»)
km_fitted(«round_even», «near_integers»)
km_fitted(«round_away», «near_integers»)
km_fitted(«truncate», «near_integers»)
km_fitted(«code_f32», «quotient_of_floats»)
km_fitted(«code_f16», «quotient_of_halves»)
km_fitted(«code_bf16», «quotient_of_brains»)
km_fitted(«store_i4», «codes_of_4»)
km_fitted(«stream_i4», «codes_of_4»)
km_fitted(«starts_negative_u16», «magnitude_of_16»)
km_fitted(«starts_negative_u32», «magnitude_of_32»)
km_fitted(«value_f16», «below_65536»)
km_fitted(«value_bf16», «below_65536»)
km_fitted(«narrowed», «below_65536»)
km_fitted(«element_of_key_u16», «below_65536»)
km_fitted(«any_from», «least_of_several»)
km_fitted(«pack_lanes», «lanes_of_mask»)
km_fitted(«store_quads», «step_of_quads»)
km_fitted(«load_table», «nibble_shift»)
km_fitted(«load_some_i4», «even_count»)
km_fitted(«add_products», «small_sums»)
km_fitted(«largest_u16», «magnitudes_of_16»)
km_fitted(«largest_u32», «magnitudes_of_32»)
km_fitted(«spread_halves», «group_of_halves»)

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
km_reads(«halves_side_by_side», 16, 0)
km_reads(«load_pairs», 16, 0)
km_reads(«starts_negative_u16», 16, 32)
km_reads(«starts_negative_u32», 32, 32)
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
m4_define(«_km_called», «m4_indir(«$1», m4_shift($@))»)
m4_define(«_km_row», «    {"$1", '_km_result(m4_defn(«_km_type_$1»))', "_km_each_parameter(«$1», «_km_kind(m4_defn(«P»))»)", call_$1, m4_ifelse(km_mode, «meaning», «m4_ifdef(«_km_fitted_$1», «m4_defn(«_km_fitted_$1»)», «NULL»)», «NULL»), m4_ifdef(«_km_bits_read_$1», «m4_defn(«_km_bits_read_$1»), m4_defn(«_km_elements_read_$1»)», «0, 0»), m4_ifdef(«_km_tolerance_$1», «m4_defn(«_km_tolerance_$1»)», 0)},
»)
m4_define(«_km_each_word», «km_for_words(«W», km_vocabulary, «m4_ifelse(_km_is_there(m4_defn(«W»)), 1, «$1(m4_defn(«W»))»)»)»)
m4_divert(0)m4_dnl
m4_ifelse(km_headers, «», «», «km_headers
»)#include "kvmill_kernel.h"
#include "words.h"

km_kernel_begins
_km_each_word(«_km_caller»)m4_dnl
const int m4_ifelse(km_mode, «meaning», «lanes_meant», «lanes_of_isa») = LANES;
const struct word m4_ifelse(km_mode, «meaning», «words_meant», «words_of_isa»)[] = {
_km_each_word(«_km_row»)    {NULL},
};
