m4_divert(-1)
m4_dnl combine.m4 -- combines rows of updates with rows of results: by wide vectors, then narrower ones, then single
m4_dnl elements.  km_element is the element type, km_combiner the operation.
km_need_all(«the definitions», «km_combiner», «km_element», «km_element_code», «km_element_bits», «km_unroll»)

m4_define(«km_is_narrow», m4_eval(km_element_bits < 8))
m4_define(«km_wide_bits», km_if(km_is_narrow, 8, km_element_bits))
m4_define(«km_size», m4_eval(km_wide_bits / 8))
m4_define(«km_kind», m4_ifelse(km_combiner, «replace», «bytes», km_element, «i1», «truths», km_element, «f16», «halves»,
    km_element, «bf16», «halves», km_element_code, 2, «floats», km_element_code, 5, «complex», «integers»))
m4_define(«km_is_extreme», m4_ifelse(km_combiner, «minimum», 1, km_combiner, «maximum», 1, 0))
m4_define(«km_operator», m4_ifelse(km_combiner, «subtract», «-», km_combiner, «add», «+», km_combiner, «multiply», «*»,
    km_combiner, «and», «&», km_combiner, «or», «|», km_combiner, «xor», «^», km_combiner, «minimum», «<», «>»))

m4_dnl km_c_type -- the C type that elements are computed in; km_mask -- an integer type of the same width.
m4_define(«km_c_type», m4_ifelse(km_kind, «halves», «float», km_element, «f32», «float», km_element, «c64», «float»,
    km_element, «f64», «double», km_element, «c128», «double», km_element_code, 0,
    «int»km_wide_bits«_t», «uint»km_wide_bits«_t»))
m4_define(«km_mask», «int»m4_ifelse(km_kind, «halves», 32, km_kind, «complex», m4_eval(km_element_bits / 2),
    km_wide_bits)«_t»)

m4_dnl km_widened(NUMBERS), km_narrowed(NUMBERS) -- integers of fewer than 8 bits to integers of 8 bits, and back.
m4_define(«km_bits_mask», «m4_eval((1 << km_element_bits) - 1)»)
m4_define(«km_bits_sign», «m4_eval(1 << (km_element_bits - 1))»)
m4_define(«km_widened», «m4_ifelse(km_is_narrow«»km_element_code, 10,
    «(($1 & km_bits_mask) ^ km_bits_sign) - km_bits_sign», km_is_narrow, 1, «$1 & km_bits_mask», «$1»)»)
m4_define(«km_narrowed», «km_if(km_is_narrow, «($1) & km_bits_mask», «$1»)»)

m4_dnl ---- The operation: C text of a, an element of the result, and b, its update ----

m4_dnl km_one -- on single elements.  1u * makes narrow integers unsigned int, so that products cannot overflow int.
m4_define(«km_one», «m4_ifelse(km_kind«»km_is_extreme, «truths0», «(a != 0) km_operator (b != 0)»,
  km_kind«»km_is_extreme, «integers0», «(km_c_type)(1u * a km_operator b)»,
  km_kind«»km_is_extreme, «integers1», «a km_operator b ? a : b»,
  km_is_extreme, 1, «a != a || a km_operator b ||
      (a == b && m4_ifelse(km_combiner, «maximum», «!»)__builtin_signbit(a)) ? a : b»,
  «a km_operator b»)»)

m4_dnl km_all(VECTOR, MASK) -- on vectors.  Equal zeros may differ in their signs: maximum takes the bits that both
m4_dnl have, minimum those that either has.
m4_define(«km_all», «m4_ifelse(km_kind«»km_is_extreme, «truths0», «($1)((($2)(a != 0) km_operator ($2)(b != 0)) & 1)»,
  km_kind«»km_is_extreme, «integers1», «_km_choose(«$1», «$2», «a km_operator b», «($2)b»)»,
  km_is_extreme, 1, «_km_choose(«$1», «$2», «((a km_operator b) | (a != a))»,
      m4_ifelse(km_combiner, «minimum», ««(($2)b | (($2)a & ($2)(a == b)))»», ««(($2)b & (($2)a | ~($2)(a == b)))»»))»,
  «a km_operator b»)»)
m4_define(«_km_choose», «($1)((($2)($3) & ($2)a) | (~($2)($3) & $4))»)

m4_dnl ---- Functions ----

m4_dnl km_combine_functions -- defines combine_one (to, from), and combine_W (to, from) for every width.
m4_define(«km_combine_functions», «m4_indir(«_km_functions_»km_kind)»)

m4_dnl km_vector_widths -- the bytes of vectors, widest first, down to two elements.
m4_define(«km_vector_widths», «m4_ifelse(km_kind, «halves», «m4_eval(km_lanes * 2)»,
  km_kind, «bytes», «», «_km_widths(km_widest)»)»)
m4_define(«km_least_width», «km_if(km_size < 2, 4, «m4_eval(2 * km_size)»)»)
m4_define(«km_widest», «_km_widest(km_widths)»)
m4_define(«_km_widest», «km_if($1 < 16, 16, $1)»)
m4_define(«_km_widths», «m4_ifelse(m4_eval($1 >= km_least_width), 1,
    «$1«»m4_ifelse(m4_eval($1 / 2 >= km_least_width), 1, «, _km_widths(m4_eval($1 / 2))»)»)»)

m4_define(«_km_functions_bytes», «km_inline(«void», «combine_one(unsigned char *to, const unsigned char *from)»)
{
    m4_indir(«km_move_»km_size, «to», «from»);
}

»)

m4_define(«_km_functions_integers», «typedef km_c_type number __attribute__((may_alias, aligned(1)));
km_for_words(«W», «km_vector_widths», «_km_vector_function(W)»)
km_inline(«void», «combine_one(unsigned char *to, const unsigned char *from)»)
{
    km_c_type a = km_widened(«*(const number *)to»), b = km_widened(«*(const number *)from»);
    *(number *)to = km_narrowed(«km_one»);
}

»)
m4_define(«_km_functions_floats», m4_defn(«_km_functions_integers»))
m4_define(«_km_functions_truths», m4_defn(«_km_functions_integers»))

m4_dnl Two floats at a time, each combined with its own update.
m4_define(«_km_functions_complex», «typedef km_c_type number __attribute__((may_alias, aligned(1)));
km_for_words(«W», «km_vector_widths», «_km_vector_function(W)»)
km_inline(«void», «combine_one(unsigned char *to, const unsigned char *from)»)
{
    for (int i = 0; i < 2; i++) {
        km_c_type a = ((const number *)to)[i], b = ((const number *)from)[i];
        ((number *)to)[i] = km_one;
    }
}

»)

m4_define(«_km_vector_function», «
typedef km_c_type vector_$1 __attribute__((vector_size($1)));
typedef km_mask mask_$1 __attribute__((vector_size($1)));
typedef vector_$1 any_$1 __attribute__((may_alias, aligned(1)));

km_inline(«void», «combine_$1(unsigned char *to, const unsigned char *from)»)
{
    vector_$1 a = km_widened(«*(const any_$1 *)to»), b = km_widened(«*(const any_$1 *)from»);
    *(any_$1 *)to = km_narrowed(«km_all(«vector_$1», «mask_$1»)»);
}
»)

m4_dnl Halves are computed as floats: rounding the float sum or product of two halves gives the correctly rounded
m4_dnl result.
m4_define(«_km_functions_halves»,
    «km_for_words(«W», «km_vector_widths», «typedef km_mask mask __attribute__((vector_size(m4_eval(W * 2))));

km_inline(«void», «combine_«»W«»(unsigned char *to, const unsigned char *from)»)
{
    vf a = km_typed(«load», km_element)(to), b = km_typed(«load», km_element)(from);
    km_typed(«store», km_element)(to, km_all(«vf», «mask»));
}

»)m4_dnl
km_inline(«void», «combine_one(unsigned char *to, const unsigned char *from)»)
{
    float a = km_typed(«load_one», km_element)(to), b = km_typed(«load_one», km_element)(from);
    km_typed(«store_one», km_element)(to, km_one);
}

»)

m4_dnl ---- Rows ----

m4_dnl km_combine_row -- defines combine_row (to, from, count), for adjacent elements.
m4_define(«km_combine_row»,
    «km_function(«void», «combine_row(unsigned char *to, const unsigned char *from, int64_t count)»)
{
m4_ifelse(km_kind, «bytes», «    memcpy(to, from, (size_t)(count * km_size));
», «    int64_t i = 0, bytes = count * km_size;
m4_ifelse(km_variant, «rows», «_km_unrolled(km_vector_widths)»)km_for_words(«W», «km_vector_widths»,
    «    for (; i + W <= bytes; i += W)
        combine_«»W«»(to + i, from + i);
»)    for (; i < bytes; i += km_size)
        combine_one(to + i, from + i);
»)}
»)
m4_define(«_km_unrolled», «m4_ifelse(«$1», «», «», km_unroll, 1, «»,
    «    for (; i + m4_eval($1 * km_unroll) <= bytes; i += m4_eval($1 * km_unroll)) {
km_each(«U», 0, km_unroll - 1, 1, «        combine_$1(to + i + m4_eval(U * $1), from + i + m4_eval(U * $1));
»)    }
»)»)

m4_dnl km_combine_straight(N) -- combines N elements from `from` on with those from `to` on, in straight-line code.
m4_define(«km_combine_straight», «m4_ifelse(km_kind, «bytes»,
    «km_straight(«km_move», «km_widths», m4_eval($1 * km_size), «to», «from»)», «_km_straight_row(0,
    m4_eval($1 * km_size), km_vector_widths)»)»)
m4_define(«_km_straight_row», «km_if($1 < $2, «m4_ifelse(«$3», «», «    combine_one(to + $1, from + $1);
_km_straight_row(m4_eval($1 + km_size), $2)», «_km_straight_vectors($@)»)»)»)
m4_define(«_km_straight_vectors», «km_if($1 + $3 <= $2, «    combine_$3(to + $1, from + $1);
_km_straight_row(m4_eval($1 + $3), m4_shift($@))», «_km_straight_row($1, $2, m4_shift(m4_shift(m4_shift($@))))»)»)
m4_divert(0)m4_dnl
