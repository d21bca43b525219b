m4_divert(-1)
m4_dnl scatter_region.m4 -- combines elements of several results with their updates by the steps of a region, in
m4_dnl straight-line code.  Values are kept as in memory: halves and integers as their bits.  Each op converts them to
m4_dnl numbers and rounds once.  The loop over a row is plain C that compilers vectorise; both sides of a choice are
m4_dnl always computed.
km_need_all(«the spec that has the region», «km_region», «km_slots», «km_steps»)
km_default(«km_unroll», 1)

m4_dnl ---- Types ----

m4_dnl km_type_bits(TYPE) -- the number of bits.  km_type_kind(TYPE) -- float, half, truth, signed or unsigned.
m4_define(«km_type_bits», «m4_ifelse(«$1», «bf16», 16, «m4_patsubst(«$1», «[a-z]»)»)»)
m4_define(«km_type_kind», «m4_ifelse(«$1», «f16», «half», «$1», «bf16», «half», «$1», «i1», «truth»,
    m4_substr(«$1», 0, 1), «f», «float», m4_substr(«$1», 0, 1), «i», «signed», «unsigned»)»)
m4_define(«km_is_integer», «m4_ifelse(km_type_kind(«$1»), «signed», 1, km_type_kind(«$1»), «unsigned», 1, 0)»)
m4_define(«km_is_real», «m4_ifelse(km_type_kind(«$1»), «float», 1, km_type_kind(«$1»), «half», 1, 0)»)
m4_define(«km_held_bits», «km_if(km_type_bits(«$1») < 8, 8, «km_type_bits(«$1»)»)»)
m4_define(«km_type_size», «m4_eval(km_held_bits(«$1») / 8)»)
m4_define(«km_type_mask», «m4_eval((1 << km_type_bits(«$1»)) - 1)»)
m4_define(«km_type_sign», «m4_eval(1 << (km_type_bits(«$1») - 1))»)

m4_dnl km_float(TYPE) -- the C type in which floats are computed.
m4_define(«km_float», «m4_ifelse(«$1», «f64», «double», «float»)»)
m4_dnl km_memory(TYPE) -- the C type in memory; km_value(TYPE) -- the C type of a step's result.
m4_define(«km_memory», «m4_ifelse(km_type_kind(«$1»), «float», «km_float(«$1»)», «uint»km_held_bits(«$1»)«_t»)»)
m4_define(«km_value», «m4_ifelse(«$1», «i1», «_Bool», «km_memory(«$1»)»)»)
m4_dnl km_wide(TYPE) -- an unsigned type for shifts that C does not promote to int.
m4_define(«km_wide», «m4_ifelse(km_type_bits(«$1»), 64, «uint64_t», «uint32_t»)»)

m4_dnl km_signed(TYPE, V), km_as_unsigned(TYPE, V) -- the bits V as a signed or an unsigned integer.
m4_define(«km_signed», «km_if(km_type_bits(«$1») < 8,
    «((int8_t)(($2 & km_type_mask(«$1»)) ^ km_type_sign(«$1»)) - km_type_sign(«$1»))»,
    «((int«»km_type_bits(«$1»)_t)$2)»)»)
m4_define(«km_as_unsigned», «km_if(km_type_bits(«$1») < 8, «($2 & km_type_mask(«$1»))», «$2»)»)

m4_dnl km_decode(TYPE, V) -- the number with the bits V; km_encode(TYPE, NUMBER) -- the bits of a number.
m4_define(«km_decode», «m4_ifelse(«$1», «f16», «from_half($2)», «$1», «bf16», «float_of((uint32_t)$2 << 16)»,
    km_type_kind(«$1»), «signed», «km_signed(«$1», «$2»)», km_type_kind(«$1»), «unsigned», «km_as_unsigned(«$1»,
    «$2»)», «$2»)»)
m4_define(«km_encode», «m4_ifelse(«$1», «f16», «to_half($2)», «$1», «bf16», «to_brain($2)», km_type_kind(«$1»),
    «float», «(km_float(«$1»))($2)», «$1», «i1», «$2», km_if(km_type_bits(«$1») < 8, 1,
    0), 1, «(uint8_t)(($2) & km_type_mask(«$1»))», «(km_memory(«$1»))($2)»)»)

m4_dnl ---- Ops: km_op_NAME(RESULT, OPERAND, A, B, C) -- C text ----

m4_dnl _km_by_kind(TYPE, FLOAT, INTEGER, TRUTH) -- the text for the kind of TYPE.  Integers wrap, as unsigned ones do.
m4_define(«_km_by_kind»,
    «m4_ifelse(km_is_real(«$1»), 1, «km_encode(«$1», «$2»)», «$1», «i1», «$4», «km_encode(«$1», «$3»)»)»)
m4_define(«_km_infix», «_km_by_kind(«$1», «km_decode(«$1», «$2») $4 km_decode(«$1», «$3»)», «1u * $2 $4 $3», «$5»)»)

m4_define(«km_op_add», «_km_infix(«$1», «$3», «$4», «+», «$3 | $4»)»)
m4_define(«km_op_subtract», «_km_infix(«$1», «$3», «$4», «-»)»)
m4_dnl A product and a sum must not be fused into one instruction, which would round only once.  So the product adds a
m4_dnl zero that the compiler cannot see through.
m4_define(«km_op_multiply»,
    «m4_ifelse(km_type_kind(«$1»), «float», «$3 * $4 + minus_0_«»$1», «_km_infix(«$1», «$3», «$4», «*», «$3 & $4»)»)»)
m4_define(«km_op_negate», «_km_by_kind(«$1», «-km_decode(«$1», «$3»)», «0u - $3»)»)
m4_define(«km_op_abs», «_km_by_kind(«$1», «km_call(«magnitude», «$1», «km_decode(«$1», «$3»)»)»,
    «km_signed(«$1», «$3») < 0 ? 0u - $3 : 1u * $3»)»)
m4_define(«km_op_sign», «_km_by_kind(«$1», «km_call(«sign», «$1», «km_decode(«$1», «$3»)»)»,
    «(km_signed(«$1», «$3») > 0) - (km_signed(«$1», «$3») < 0)»)»)

m4_dnl km_call(NAME, TYPE, ARGUMENTS) -- a function for float or double.
m4_define(«km_call», «$1_«»km_float(«$2»)($3)»)
m4_define(«_km_extreme», «_km_by_kind(«$1», «km_call(«$2», «$1», «km_decode(«$1», «$3»), km_decode(«$1», «$4»)»)»,
    «_km_compare(«$1», «$3», «$4», «$5», 0) ? $3 : $4», «$3 $6 $4»)»)
m4_define(«km_op_maximum», «_km_extreme(«$1», «larger», «$3», «$4», «>», «|»)»)
m4_define(«km_op_minimum», «_km_extreme(«$1», «smaller», «$3», «$4», «<», «&»)»)
m4_define(«km_op_clamp», «_km_by_kind(«$1», «km_call(«smaller», «$1»,
    «km_call(«larger», «$1», «km_decode(«$1», «$3»), km_decode(«$1», «$4»)»), km_decode(«$1», «$5»)»)», «_km_clamp(«$1»,
    «$3», «$4», «$5»)», «($3 | $4) & $5»)»)
m4_dnl The result is never above the upper limit, even if the lower limit is.
m4_define(«_km_clamp», «((_km_compare(«$1», «$4», «$2», «<», 0)) | (_km_compare(«$1», «$4», «$3», «<»,
    0))) ? $4 : _km_compare(«$1», «$3», «$2», «<», 0) ? $2 : $3»)

m4_define(«km_op_floor», «km_encode(«$1», «km_call(«below», «$1», «km_decode(«$1», «$3»)»)»)»)
m4_define(«km_op_ceil», «km_encode(«$1», «km_call(«above», «$1», «km_decode(«$1», «$3»)»)»)»)
m4_define(«km_op_round_nearest_even», «km_encode(«$1», «km_call(«even», «$1», «km_decode(«$1», «$3»)»)»)»)
m4_define(«km_op_round_nearest_afz», «km_encode(«$1», «km_call(«outwards», «$1», «km_decode(«$1», «$3»)»)»)»)
m4_define(«km_op_is_finite», «km_decode(«$2», «$3») - km_decode(«$2», «$3») == 0»)

m4_dnl _km_compare(TYPE, A, B, SIGN, SELF) -- SELF is the result if A and B are the same value and not a float.
m4_define(«_km_compare»,
    «m4_ifelse(km_is_real(«$1»)«$2», «0$3», «((void)$2, $5)», «km_decode(«$1», «$2») $4 km_decode(«$1», «$3»)»)»)
m4_define(«km_op_compare_EQ», «_km_compare(«$2», «$3», «$4», «==», 1)»)
m4_define(«km_op_compare_NE», «_km_compare(«$2», «$3», «$4», «!=», 0)»)
m4_define(«km_op_compare_GE», «_km_compare(«$2», «$3», «$4», «>=», 1)»)
m4_define(«km_op_compare_GT», «_km_compare(«$2», «$3», «$4», «>», 0)»)
m4_define(«km_op_compare_LE», «_km_compare(«$2», «$3», «$4», «<=», 1)»)
m4_define(«km_op_compare_LT», «_km_compare(«$2», «$3», «$4», «<», 0)»)
m4_define(«km_op_select», «km_chosen(«$1», «$3», «$4», «$5»)»)

m4_dnl km_chosen(TYPE, TRUTH, A, B) -- A if TRUTH, otherwise B, by masks: compilers would turn a choice of floats into a
m4_dnl branch.
m4_define(«km_chosen», «m4_ifelse(«$1», «i1», «($2 & $3) | (!$2 & $4)», km_type_kind(«$1»), «float»,
    «_km_of(km_float(«$1»))(chosen_«»km_type_bits(«$1»)($2, _km_bits(km_float(«$1»))($3),
    _km_bits(km_float(«$1»))($4)))», «chosen_«»km_held_bits(«$1»)($2, $3, $4)»)»)

m4_define(«km_op_and», «km_encode(«$1», «$3 & $4»)»)
m4_define(«km_op_or», «km_encode(«$1», «$3 | $4»)»)
m4_define(«km_op_xor», «km_encode(«$1», «$3 ^ $4»)»)
m4_define(«km_op_not», «m4_ifelse(«$1», «i1», «!$3», «km_encode(«$1», «~$3»)»)»)

m4_dnl A shift by at least the number of bits gives 0, or copies of the sign.
m4_define(«_km_most_shift», «m4_ifelse(km_type_bits(«$1»), 64, 63, 31)»)
m4_define(«_km_shift», «km_as_unsigned(«$1», «$3») >= km_type_bits(«$1») ? 0 : km_encode(«$1»,
    «(km_wide(«$1»))km_as_unsigned(«$1», «$2») $4 (km_as_unsigned(«$1», «$3») & _km_most_shift(«$1»))»)»)
m4_define(«km_op_shift_left», «_km_shift(«$1», «$3», «$4», «<<»)»)
m4_define(«km_op_shift_right_logical», «_km_shift(«$1», «$3», «$4», «>>»)»)
m4_define(«_km_last_bit», «m4_eval(km_type_bits(«$1») - 1)»)
m4_define(«km_op_shift_right_arithmetic»,
    «km_encode(«$1», «km_signed(«$1»,
    «$3») >> (km_as_unsigned(«$1», «$4») > _km_last_bit(«$1») ? _km_last_bit(«$1») : km_as_unsigned(«$1», «$4»))»)»)
m4_define(«km_op_popcnt», «km_encode(«$1», «ones(km_as_unsigned(«$1», «$3»))»)»)
m4_define(«km_op_count_leading_zeros»,
    «km_encode(«$1», «leading_zeros(km_as_unsigned(«$1», «$3»)) - m4_eval(64 - km_type_bits(«$1»))»)»)

m4_dnl x / 0 is -1, and x % 0 is x.  The least integer divided by -1 is itself.
m4_define(«_km_divided», «km_decode(«$1», «$3») == 0 ? km_encode(«$1», «$4») : m4_ifelse(km_type_kind(«$1»), «signed»,
    «km_decode(«$1», «$3») == -1 ? km_encode(«$1», «$5») : »)km_encode(«$1»,
    «km_decode(«$1», «$2») $6 km_decode(«$1», «$3»)»)»)
m4_define(«km_op_divide», «m4_ifelse(km_is_real(«$1»), 1, «km_encode(«$1»,
    «km_decode(«$1», «$3») / km_decode(«$1», «$4»)»)», «_km_divided(«$1», «$3», «$4», «~(km_wide(«$1»))0», «0u - $3»,
    «/»)»)»)
m4_define(«km_op_remainder», «_km_divided(«$1», «$3», «$4», «$3», «0», «%»)»)

m4_dnl ---- Conversion: one rounding; integers saturate, NaN becomes 0 ----

m4_define(«km_op_convert», «m4_ifelse(«$1», «$2», «$3», «m4_indir(«_km_convert_to_»m4_ifelse(km_is_real(«$1»), 1,
    «real», «$1», «i1», «truth», «integer»), «$1», «$2», «$3»)»)»)
m4_define(«_km_convert_to_truth», «km_decode(«$2», «$3») != 0»)
m4_define(«_km_convert_to_integer», «m4_ifelse(km_is_real(«$2»), 1, «$1_of_«»km_float(«$2»)(km_decode(«$2», «$3»))»,
    «km_encode(«$1», «km_decode(«$2», «$3»)»)»)»)
m4_dnl A number that becomes a half by way of a float is rounded to odd first: what the float cannot represent sets its
m4_dnl last bit.  Integers of 32 bits need this only for bfloat16: those that a float cannot represent overflow float16.
m4_define(«_km_convert_to_real», «m4_ifelse(km_type_kind(«$1»)«»km_number_is_long(«$1», «$2»), «half1»,
    «km_encode(«$1», «odd_float(_km_double(«$2», «$3»))»)», «km_encode(«$1»,
    «(km_float(«$1»))km_decode(«$2», «$3»)»)»)»)
m4_define(«km_number_is_long», «m4_ifelse(«$2», «f64», 1, «$1», «bf16»,
    «m4_ifelse(km_is_integer(«$2»), 1, «m4_eval(km_type_bits(«$2») >= 32)», 0)», 0)»)
m4_define(«_km_double», «m4_ifelse(«$1», «i64», «signed_double((int64_t)$2)», «$1», «ui64», «odd_double($2)»,
    «(double)km_decode(«$1», «$2»)»)»)

m4_dnl ---- Functions ----

m4_dnl km_region_functions -- the functions that steps call, then combine_one and combine_row.
m4_define(«km_region_functions», «_km_bit_functions«»_km_half_functions«»_km_float_functions(«float», «uint32_t», 23,
    31)«»_km_float_functions(«double», «uint64_t», 52,
    63)«»_km_integer_functions«»_km_conversions«»_km_memory_types«»_km_elements«»_km_combine»)

m4_define(«_km_bit_functions», «km_for_words(«W», «8, 16, 32, 64»,
    «km_inline(«uint«»W«»_t», «chosen_«»W«»(int truth, uint«»W«»_t a, uint«»W«»_t b)»)
{
    return (uint«»W«»_t)(b ^ ((a ^ b) & (uint«»W«»_t)-truth));
}

»)_km_bits_of(«double», «uint64_t», «bits_of_double», «double_of»)»)
m4_define(«_km_bits_of», «km_inline(«$2», «$3($1 value)»)
{
    $2 u;
    memcpy(&u, &value, sizeof u);
    return u;
}

km_inline(«$1», «$4($2 u)»)
{
    $1 value;
    memcpy(&value, &u, sizeof value);
    return value;
}

»)

m4_dnl The exponents of float16 are biased by 112 less than those of float; its subnormals are multiples of 2^-24.
m4_define(«_km_half_functions», «km_inline(«float», «from_half(uint32_t half)»)
{
    uint32_t sign = (half & 0x8000) << 16, u = (half & 0x7fff) << 13;
    uint32_t small = bits_of((float)(int32_t)(half & 0x7fff) * 0x1p-24f), normal = u + (112u << 23);
    uint32_t special = 255u << 23 | u | (uint32_t)(u > 31u << 23) << 22;
    return float_of(sign | chosen_32(u < 1u << 23, small, chosen_32(u < 31u << 23, normal, special)));
}

km_inline(«uint16_t», «to_half(float value)»)
{
    uint32_t sign = bits_of(value) >> 16 & 0x8000, u = bits_of(value) & 0x7fffffff;
    uint32_t small = bits_of(float_of(u) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    uint32_t large = u > 255u << 23 ? 0x7e00 : 0x7c00;
    return (uint16_t)(sign | chosen_32(u < 113u << 23, small, chosen_32(u < 0x477ff000, normal, large)));
}

km_inline(«uint16_t», «to_brain(float value)»)
{
    uint32_t u = bits_of(value), rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 255u << 23 ? (u >> 16 & 0x8000) | 0x7fc0 : rounded);
}

»)

m4_dnl _km_float_functions(TYPE, BITS, MANTISSA, SIGN) -- functions for float or double.  Equal zeros are ordered by
m4_dnl their signs.  From 2^MANTISSA on every float is an integer.
m4_define(«_km_bits», «m4_ifelse(«$1», «float», «bits_of», «bits_of_double»)»)
m4_define(«_km_of», «m4_ifelse(«$1», «float», «float_of», «double_of»)»)
m4_dnl _km_pick(FLOAT, TRUTH, A, B) -- km_chosen for float or double.
m4_define(«_km_pick», «m4_ifelse(«$1», «float», «km_chosen(«f32», «$2», «$3», «$4»)»,
    «km_chosen(«f64», «$2», «$3», «$4»)»)»)
m4_define(«_km_float_functions», «km_inline(«$1», «larger_$1($1 a, $1 b)»)
{
    int takes_a = (a > b) | (a != a) | ((a == b) & !(_km_bits(«$1»)(a) >> $4));
    return _km_pick(«$1», «takes_a», «a», «b»);
}

km_inline(«$1», «smaller_$1($1 a, $1 b)»)
{
    int takes_a = (a < b) | (a != a) | ((a == b) & (int)(_km_bits(«$1»)(a) >> $4));
    return _km_pick(«$1», «takes_a», «a», «b»);
}

km_inline(«$1», «magnitude_$1($1 value)»)
{
    return _km_of(«$1»)(_km_bits(«$1»)(value) & ~(($2)1 << $4));
}

km_inline(«$1», «with_sign_$1($1 magnitude, $1 value)»)
{
    const $2 sign = ($2)1 << $4;
    return _km_of(«$1»)((_km_bits(«$1»)(magnitude) & ~sign) | (_km_bits(«$1»)(value) & sign));
}

km_inline(«$1», «sign_$1($1 value)»)
{
    $1 one = with_sign_$1(1, value);
    return _km_pick(«$1», «(value > 0) | (value < 0)», «one», «value»);
}

km_inline(«$1», «even_$1($1 value)»)
{
    $1 magnitude = magnitude_$1(value), big = 0x1p$3, whole = (magnitude + big) - big;
    return with_sign_$1(_km_pick(«$1», «magnitude < big», «whole», «magnitude»), value);
}

km_inline(«$1», «below_$1($1 value)»)
{
    $1 whole = even_$1(value), less = whole - 1;
    return with_sign_$1(_km_pick(«$1», «whole > value», «less», «whole»), value);
}

km_inline(«$1», «above_$1($1 value)»)
{
    $1 whole = even_$1(value), more = whole + 1;
    return with_sign_$1(_km_pick(«$1», «whole < value», «more», «whole»), value);
}

km_inline(«$1», «outwards_$1($1 value)»)
{
    $1 magnitude = magnitude_$1(value), whole = magnitude_$1(even_$1(value)), more = whole + 1;
    return with_sign_$1(_km_pick(«$1», «magnitude - whole == ($1)0.5», «more», «whole»), value);
}

»)

m4_define(«_km_integer_functions», «km_inline(«int», «ones(uint64_t u)»)
{
    u -= u >> 1 & 0x5555555555555555;
    u = (u & 0x3333333333333333) + (u >> 2 & 0x3333333333333333);
    u = (u + (u >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (int)(u * 0x0101010101010101 >> 56);
}

km_inline(«int», «leading_zeros(uint64_t u)»)
{
    u |= u >> 1;
    u |= u >> 2;
    u |= u >> 4;
    u |= u >> 8;
    u |= u >> 16;
    u |= u >> 32;
    return 64 - ones(u);
}

/* Round towards 0, and set the last bit if that is not exact.  Rounding the result to fewer bits is then exact.  */
km_inline(«float», «odd_float(double value)»)
{
    float nearest = (float)value;
    double back = nearest, distance = magnitude_double(back) - magnitude_double(value);
    uint32_t u = bits_of(nearest), odd = (u - (distance > 0)) | 1;
    return float_of(((distance > 0) | (distance < 0)) ? odd : u);
}

km_inline(«double», «odd_double(uint64_t magnitude)»)
{
    uint64_t odd = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
    return (double)(magnitude >> 53 ? odd : magnitude);
}

km_inline(«double», «signed_double(int64_t value)»)
{
    double magnitude = odd_double(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    return value < 0 ? -magnitude : magnitude;
}

»)

m4_dnl TYPE_of_FLOAT (value), for the conversions that occur.
m4_define(«_km_conversions», «m4_pushdef(«km_step», m4_defn(«_km_conversion»))km_steps«»m4_popdef(«km_step»)»)
m4_define(«_km_conversion», «m4_ifelse(«$2»«»km_is_integer(«$3»)«»km_is_real(«$4»), «convert11»,
    «m4_ifdef(«_km_has_$3_of_«»km_float(«$4»)», «»,
    «m4_define(«_km_has_$3_of_«»km_float(«$4»)»)_km_integer_of(«$3», km_float(«$4»))»)»)»)
m4_define(«_km_c_int», «m4_ifelse(«$1», «ui64», «uint64_t», m4_eval(km_type_bits(«$1») < 32), 1, «int32_t», «$1», «i32»,
    «int32_t», «int64_t»)»)
m4_define(«_km_beyond», «0x1p«»m4_ifelse(km_type_kind(«$1»), «signed», «_km_last_bit(«$1»)», «km_type_bits(«$1»)»)»)
m4_define(«_km_least», «m4_ifelse(km_type_kind(«$1»), «signed», «-«»_km_beyond(«$1»)», 0)»)
m4_define(«_km_least_bits»,
    «m4_ifelse(km_type_kind(«$1»), «signed», «(km_memory(«$1»))((km_wide(«$1»))1 << _km_last_bit(«$1»))», 0)»)
m4_define(«_km_most_bits»,
    «(km_memory(«$1»))(((km_wide(«$1»))1 << _km_last_bit(«$1»)) - 1«»m4_ifelse(km_type_kind(«$1»), «signed», «»,
    « + ((km_wide(«$1»))1 << _km_last_bit(«$1»))»))»)
m4_define(«_km_integer_of», «km_inline(«km_memory(«$1»)», «$1_of_$2($2 value)»)
{
    $2 inside = _km_pick(«$2», «(value > _km_least(«$1»)) & (value < _km_beyond(«$1»))», «value», «0»);
    km_memory(«$1») whole = km_encode(«$1»,
        «(_km_c_int(«$1»))inside»), most = _km_most_bits(«$1»), least = _km_least_bits(«$1»);
    whole = km_chosen(«$1», «(value >= _km_beyond(«$1»))», «most», «whole»);
    return km_chosen(«$1», «(value <= _km_least(«$1»))», «least», «whole»);
}

»)

m4_dnl ---- Steps ----

m4_define(«_km_each_slot», «km_each(«S», 0, km_slots - 1, 1, «$1»)»)
m4_define(«km_result», «m4_indir(«km_result_»S)»)
m4_define(«km_update», «m4_indir(«km_update_»S)»)
m4_define(«km_return», «m4_indir(«km_return_»S)»)

m4_define(«_km_memory_types», «_km_each_slot(«_km_memory_type(km_result)_km_memory_type(km_update)»)
»)
m4_define(«_km_memory_type»,
    «m4_ifdef(«_km_has_$1», «»,
    «m4_define(«_km_has_$1»)typedef km_memory(«$1») memory_$1 __attribute__((may_alias, aligned(1)));
»)»)

m4_dnl _km_from_memory(TYPE, TEXT) -- the value of TEXT, which has the type in memory.
m4_define(«_km_from_memory», «m4_ifelse(«$1», «i1», «$2 != 0», «$2»)»)

m4_dnl Constants and captures are computed before the loop.
m4_define(«_km_number_step», «m4_ifelse(«$2», «constant», «    const km_value(«$3») $1 = _km_constant(«$3», «$5»);
», «$2», «capture», «    const km_value(«$3») $1 = _km_from_memory(«$3», «*(const memory_of_$1 *)slots->capture[$5]»);
»)»)
m4_define(«_km_constant», «m4_ifelse(«$1», «f32», «float_of(0x$2)», «$1», «f64», «double_of(0x$2)», «0x$2»)»)
m4_define(«_km_capture_type»,
    «m4_ifelse(«$2», «capture», «typedef km_memory(«$3») memory_of_$1 __attribute__((may_alias, aligned(1)));
»)»)
m4_define(«_km_loop_step», «m4_ifelse(«$2», «constant», «», «$2», «capture», «»,
    «        const km_value(«$3») $1 = m4_indir(«km_op_$2», «$3», «$4», «$5», «$6», «$7»);
»)»)
m4_define(«_km_steps», «m4_pushdef(«km_step», m4_defn(«$1»))km_steps«»m4_popdef(«km_step»)»)

m4_dnl _km_zero(TYPE) -- -0, which changes no sum, and which the compiler cannot see through.
m4_define(«_km_zero_step», «m4_ifelse(«$2»«»km_type_kind(«$3»), «multiplyfloat»,
    «m4_ifdef(«_km_has_zero_$3», «», «m4_define(«_km_has_zero_$3»)    km_float(«$3») zero_$3 = -(km_float(«$3»))0;
    __asm__("" : "+m"(zero_$3));
    const km_float(«$3») minus_0_$3 = zero_$3;
»)»)»)

m4_dnl elements (slots, to_0, ..., from_0, ..., count): the steps for adjacent elements of all slots.
m4_define(«_km_elements», «_km_steps(«_km_capture_type»)
km_inline(«void», «elements(const struct kvmill_scatter_slots *slots,
    _km_each_slot(«unsigned char *restrict to_«»S, »)m4_dnl
    _km_each_slot(«const unsigned char *restrict from_«»S, »)int64_t count)»)
{
_km_steps(«_km_zero_step»)_km_steps(«_km_number_step»)    (void)slots;
    for (int64_t i = 0; i < count; i++) {
_km_each_slot(«        const km_value(km_result) r«»S = _km_from_memory(km_result,
    «((const memory_«»km_result *)to_«»S)[i]»);
        const km_value(km_update) u«»S = _km_from_memory(km_update, «((const memory_«»km_update *)from_«»S)[i]»);
»)_km_steps(«_km_loop_step»)_km_each_slot(«        ((memory_«»km_result *)to_«»S)[i] = km_return;
»)_km_each_slot(«        (void)r«»S;
        (void)u«»S;
»)    }
_km_each_slot(«    (void)from_«»S;
»)}

»)

m4_dnl The other slots' elements have the same index, counted from the beginning of the slot.
m4_define(«_km_slot_to», «km_if(S, «slots->result[S] + (to - p->result) / km_size * km_type_size(km_result)», «to»)»)
m4_define(«_km_slot_from»,
    «km_if(S, «slots->updates[S] + (from - p->updates) / km_update_size * km_type_size(km_update)», «from»)»)
m4_define(«_km_combine», «km_function(«void», «combine_row(const struct kvmill_scatter_windows *p, unsigned char *to,
    const unsigned char *from, int64_t count)»)
{
    const struct kvmill_scatter_slots *slots = (const struct kvmill_scatter_slots *)(const void *)p;
    elements(slots, _km_each_slot(«_km_slot_to, »)_km_each_slot(«_km_slot_from, »)count);
}

km_inline(«void», «combine_one(const struct kvmill_scatter_windows *p, unsigned char *to, const unsigned char *from)»)
{
    const struct kvmill_scatter_slots *slots = (const struct kvmill_scatter_slots *)(const void *)p;
    elements(slots, _km_each_slot(«_km_slot_to, »)_km_each_slot(«_km_slot_from, »)1);
}

»)

m4_dnl ---- For the walk over points and windows ----

m4_define(«km_size», «km_type_size(km_result_0)»)
m4_define(«km_update_size», «km_type_size(km_update_0)»)
m4_define(«km_context», «p, »)

m4_define(«km_region_head», «km_program_head(«$1», m4_defn(«km_region»), «»)»)

m4_define(«km_region_descriptor», «km_descriptor(«KVMILL_SCATTER_REGION», «kvmill_scatter_region_shape shape = {
    .program = km_program_string(m4_defn(«km_region»)),
    .index_code = km_index_code,
    .index_bits = km_index_bits,
    .components = km_components,
    .row = km_count(km_row),
}», 0)»)
m4_divert(0)m4_dnl
