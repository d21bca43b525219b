m4_divert(-1)
m4_dnl lanes.m4 -- arithmetic on km_row_lanes elements at a time, as C functions that kernels ask for with
m4_dnl km_use.  Here: one element at a time, in plain C.  An ISA file with vectors defines these words
m4_dnl anew; km_row_NAME holds the definition of function NAME.

m4_dnl km_use(NAMES...) -- define these functions, and those they call, unless that has been done.
m4_define(«km_use», «m4_ifelse(«$1», «», «», «_km_use_one(«$1»)km_use(m4_shift($@))»)»)
m4_define(«_km_use_one», «m4_ifdef(«_km_used_$1», «», «m4_define(«_km_used_$1»)km_need(«km_row_$1», «templates/isa»)m4_indir(«km_row_$1»)»)»)

m4_dnl km_row_lanes -- elements of a vector; km_row_vector_bytes -- its bytes, 0: no vectors of small integers;
m4_dnl km_row_code_vectors(ELEMENT) -- vectors of codes that store_ELEMENT takes.
m4_dnl km_row_steps -- steps through a row that are unrolled.
m4_define(«km_row_lanes», 1)
m4_define(«km_row_vector_bytes», 0)
m4_define(«km_row_code_vectors», «m4_ifelse(«$1», «i4», 2, 1)»)
m4_define(«km_row_steps», 1)

m4_define(«km_row_types», «typedef float lanes;
typedef int32_t bits;

»)

m4_dnl ---- Bits of a float ----

m4_define(«km_row_float_bits», «km_inline(«uint32_t», «bits_of(float value)»)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return u;
}

km_inline(«float», «float_of(uint32_t u)»)
{
    float value;
    memcpy(&value, &u, sizeof value);
    return value;
}

»)

m4_dnl Float16 has exponents 112 less; halves too small for one count 2^-24.
m4_define(«km_row_half», «km_use(«float_bits»)km_inline(«float», «float_of_half(uint32_t half)»)
{
    uint32_t sign = (half & 0x8000) << 16, u = (half & 0x7fff) << 13;
    if (u < 1u << 23)
        return float_of(sign | bits_of((float)(half & 0x7fff) * 0x1p-24f));
    if (u < 31u << 23)
        return float_of(sign | (u + (112u << 23)));
    return float_of(sign | 255u << 23 | u | (uint32_t)(u > 31u << 23) << 22);
}

km_inline(«uint32_t», «half_of(float value)»)
{
    uint32_t sign = bits_of(value) >> 16 & 0x8000, u = bits_of(value) & 0x7fffffff;
    if (u > 255u << 23)
        return sign | 0x7e00 | (u >> 13 & 0x3ff);
    if (u >= 0x477ff000)
        return sign | 0x7c00;
    if (u < 113u << 23)
        return sign | (bits_of(float_of(u) + 0.5f) - bits_of(0.5f));
    return sign | ((u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13);
}

»)

m4_define(«km_row_brain», «km_use(«float_bits»)km_inline(«uint32_t», «brain_of(float value)»)
{
    uint32_t u = bits_of(value);
    return (u & 0x7fffffff) > 255u << 23 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

»)

m4_dnl ---- load_TYPE (from), store_TYPE (to, v), around_TYPE: around the caches ----

m4_define(«km_row_load_f32», «km_use(«float_bits»)km_inline(«lanes», «load_f32(const unsigned char *from)»)
{
    return float_of(*(const kvmill_word4 *)from);
}

»)
m4_define(«km_row_load_f16», «km_use(«half»)km_inline(«lanes», «load_f16(const unsigned char *from)»)
{
    return float_of_half(*(const kvmill_word2 *)from);
}

»)
m4_define(«km_row_load_bf16», «km_use(«float_bits»)km_inline(«lanes», «load_bf16(const unsigned char *from)»)
{
    return float_of((uint32_t)*(const kvmill_word2 *)from << 16);
}

»)
m4_define(«km_row_store_f32», «km_use(«float_bits»)km_inline(«void», «store_f32(unsigned char *to, lanes v)»)
{
    *(kvmill_word4 *)to = bits_of(v);
}

»)
m4_define(«km_row_store_f16», «km_use(«half»)km_inline(«void», «store_f16(unsigned char *to, lanes v)»)
{
    *(kvmill_word2 *)to = (uint16_t)half_of(v);
}

»)
m4_define(«km_row_store_bf16», «km_use(«brain»)km_inline(«void», «store_bf16(unsigned char *to, lanes v)»)
{
    *(kvmill_word2 *)to = (uint16_t)brain_of(v);
}

»)

m4_dnl ---- single_TYPE (from), put_TYPE (to, v): one element, however many lanes there are ----

m4_define(«km_row_single_f16», «km_use(«load_f16», «store_f16»)km_inline(«float», «single_f16(const unsigned char *from)»)
{
    return load_f16(from);
}

km_inline(«void», «put_f16(unsigned char *to, float v)»)
{
    store_f16(to, v);
}

»)
m4_define(«km_row_single_bf16», «km_use(«float_bits»)km_inline(«float», «single_bf16(const unsigned char *from)»)
{
    return float_of((uint32_t)*(const kvmill_word2 *)from << 16);
}

km_inline(«void», «put_bf16(unsigned char *to, float v)»)
{
    uint32_t u = bits_of(v);
    *(kvmill_word2 *)to = (uint16_t)((u & 0x7fffffff) > 255u << 23 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

»)

m4_dnl ---- all (p), each (p), keep (p, v): floats in memory; pairs (p): two, for half of the lanes each ----

m4_define(«km_row_floats», «km_inline(«lanes», «all(const float *p)»)
{
    return *p;
}

km_inline(«lanes», «each(const float *p)»)
{
    return *p;
}

km_inline(«void», «keep(float *p, lanes v)»)
{
    *p = v;
}

»)
m4_define(«km_row_each_bits», «km_inline(«bits», «each_bits(const int32_t *p)»)
{
    return *p;
}

»)

m4_define(«km_row_keep_bits», «km_inline(«void», «keep_bits(int32_t *p, bits b)»)
{
    *p = b;
}

»)

m4_dnl ---- value_TYPE (b): the number with these bits; round_TYPE (v): v as a TYPE ----

m4_define(«km_row_value_f32», «km_use(«float_bits»)km_inline(«lanes», «value_f32(bits b)»)
{
    return float_of((uint32_t)b);
}

»)
m4_define(«km_row_value_f16», «km_use(«half»)km_inline(«lanes», «value_f16(bits b)»)
{
    return float_of_half((uint32_t)b);
}

»)
m4_define(«km_row_value_bf16», «km_use(«float_bits»)km_inline(«lanes», «value_bf16(bits b)»)
{
    return float_of((uint32_t)b << 16);
}

»)
m4_define(«km_row_round_f16», «km_use(«half»)km_inline(«lanes», «round_f16(lanes v)»)
{
    return float_of_half(half_of(v));
}

»)
m4_define(«km_row_round_bf16», «km_use(«brain»)km_inline(«lanes», «round_bf16(lanes v)»)
{
    return float_of(brain_of(v) << 16);
}

»)

m4_dnl ---- Quantising ----

m4_dnl any_from(b, least) -- one is at least that; at_least(v, least) -- the larger one, or NaN.
m4_define(«km_row_any_from», «km_inline(«int», «any_from(bits b, int32_t least)»)
{
    return b >= least;
}

»)
m4_define(«km_row_at_least», «km_inline(«lanes», «at_least(lanes v, float least)»)
{
    return v < least ? least : v;
}

»)

m4_dnl quotient_TYPE(x, s, inverse) -- x / s, where inverse is 1 / s; of types but f32 x / s with as many
m4_dnl bits as a TYPE has, however small it is.  The power of two makes those bits the last of a sum.
m4_define(«km_row_quotient_f32», «km_inline(«lanes», «quotient_f32(lanes x, lanes s, lanes inverse)»)
{
    (void)inverse;
    return x / s;
}

»)
m4_define(«_km_row_quotient», «km_use(«float_bits»)km_inline(«lanes», «quotient_$1(lanes x, lanes s, lanes inverse)»)
{
    lanes q = x / s, power = float_of(bits_of(q) & 0x7f800000) * $2;
    (void)inverse;
    return (q + power) - power;
}

»)
m4_define(«km_row_quotient_f16», «_km_row_quotient(«f16», «0x1.8p13f»)»)
m4_define(«km_row_quotient_bf16», «_km_row_quotient(«bf16», «0x1.8p16f»)»)

m4_dnl nearest(v) -- to integers, half to even; outwards(v) -- half away from zero; whole(v) -- of v >= 0.
m4_dnl At magnitudes of 2^23 floats are the integers.  What is not a number gives any integer.
m4_define(«km_row_nearest», «km_use(«float_bits»)km_inline(«bits», «nearest(lanes v)»)
{
    return (int32_t)bits_of(v + 0x1.8p23f) - 0x4b400000;
}

»)
m4_define(«km_row_outwards», «km_use(«nearest»)km_inline(«bits», «outwards(lanes v)»)
{
    bits n = nearest(v);
    float rest = v - (float)n;
    return n + (v > 0 && rest == 0.5f) - (v < 0 && rest == -0.5f);
}

»)
m4_define(«km_row_whole», «km_use(«nearest»)km_inline(«bits», «whole(lanes v)»)
{
    bits n = nearest(v);
    return n - ((float)n > v);
}

»)
m4_dnl product(x, y) -- rounded, whatever is done with it: products of floats are doubles.
m4_dnl Where products and sums are one instruction, compilers make one of them if they see both.
m4_define(«km_row_product», «km_inline(«lanes», «product(lanes x, lanes y)»)
{
    float v = x * y;
    __asm__("" : "+m"(v));
    return v;
}

»)
m4_define(«km_row_at_most», «km_inline(«bits», «at_most(bits b, int32_t most)»)
{
    return b < most ? b : most;
}

»)

m4_dnl ---- Codes ----

m4_define(«km_row_clamp», «km_inline(«int32_t», «clamp(int32_t code, int32_t most)»)
{
    return code > most ? most : code < -most ? -most : code;
}

»)
m4_define(«km_row_store_i8», «km_use(«clamp»)km_inline(«void», «store_i8(unsigned char *to, bits c)»)
{
    *to = (unsigned char)clamp(c, 127);
}

»)
m4_define(«km_row_store_i4», «km_use(«clamp»)km_inline(«void», «store_i4(unsigned char *to, bits low, bits high)»)
{
    *to = (unsigned char)((clamp(low, 7) & 0x0f) | (clamp(high, 7) & 0x0f) << 4);
}

»)
m4_dnl store_bytes(to, b) -- the lowest byte of each.
m4_define(«km_row_store_bytes», «km_inline(«void», «store_bytes(unsigned char *to, bits b)»)
{
    *to = (unsigned char)b;
}

»)
m4_dnl codes_i8 (from), codes_i4 (from, i) -- codes as floats, element i of a row being the first;
m4_dnl codes_low, codes_high -- of Q4_0, from as many bytes.
m4_define(«km_row_codes_i8», «km_inline(«lanes», «codes_i8(const unsigned char *from)»)
{
    return (float)(int8_t)*from;
}

»)
m4_define(«km_row_codes_i4», «km_inline(«lanes», «codes_i4(const unsigned char *from, int64_t i)»)
{
    int code = from[i / 2] >> (i % 2 * 4) & 0x0f;
    return (float)((code ^ 8) - 8);
}

»)
m4_define(«km_row_codes_low», «km_inline(«lanes», «codes_low(const unsigned char *from)»)
{
    return (float)((*from & 0x0f) - 8);
}

»)
m4_define(«km_row_codes_high», «km_inline(«lanes», «codes_high(const unsigned char *from)»)
{
    return (float)((*from >> 4) - 8);
}

»)
m4_divert(0)m4_dnl
