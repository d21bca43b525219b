m4_dnl elements.m4 -- words that load elements of a type as floats, and store floats as elements of a type.  A new type
m4_dnl needs a load_TYPE, and a store_TYPE if kernels write it.

m4_dnl ---- One element ----

m4_dnl The exponents of float16 are biased by 112 less than those of float32; its subnormals are multiples of 2^-24.
km_helper(«float_of_half», «km_inline(«float», «float_of_half(uint32_t half)»)
{
    uint32_t sign = (half & 0x8000) << 16, u = (half & 0x7fff) << 13;
    if (u < 1u << 23)
        return float_of(sign | bits_of((float)(half & 0x7fff) * 0x1p-24f));
    if (u < 31u << 23)
        return float_of(sign | (u + (112u << 23)));
    return float_of(sign | 255u << 23 | u | (uint32_t)(u > 31u << 23) << 22);
}

»)
km_helper(«half_of», «km_inline(«uint32_t», «half_of(float value)»)
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
km_helper(«brain_of», «km_inline(«uint32_t», «brain_of(float value)»)
{
    uint32_t u = bits_of(value);
    return (u & 0x7fffffff) > 255u << 23 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

»)
m4_dnl load_one_TYPE(from), store_one_TYPE(to, x)
km_word(«load_one_f16», «float», «const void *from», «
    return float_of_half(*(const kvmill_word2 *)from);
»)
km_word(«store_one_f16», «void», «void *to, float x», «
    *(kvmill_word2 *)to = (uint16_t)half_of(x);
»)
km_word(«load_one_bf16», «float», «const void *from», «
    return float_of((uint32_t)*(const kvmill_word2 *)from << 16);
»)
km_word(«store_one_bf16», «void», «void *to, float x», «
    *(kvmill_word2 *)to = (uint16_t)brain_of(x);
»)

m4_dnl ---- 16-bit types: bits to floats and back ----

km_word(«from_halves», «vf», «halves h», «km_by_lane(«vf», «float_of_half(h[i])»)», «
    vu bits = __builtin_convertvector(h, vu), magnitude = bits & 0x7fff;
    vf normal = (vf)((magnitude << 13) + (112U << 23));
    vf special = (vf)((magnitude << 13) | 0x7f800000U);
    vf small = __builtin_convertvector((vi)magnitude, vf) * 0x1p-24f;
    vf x = choose((vi)magnitude >= 0x7c00, special, choose((vi)magnitude < 0x400, small, normal));
    return (vf)((vu)x | (bits & 0x8000) << 16);
»)
km_word(«to_halves», «halves», «vf x», «km_by_lane(«halves», «(uint16_t)half_of(x[i])»)», «
    vu bits = (vu)x, sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    vu normal = (magnitude - (112U << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    vu small = (vu)((vf)magnitude + 0.5f) - (vu)broadcast(0.5f);
    vu nan = (magnitude >> 13 & 0x3ff) | 0x7e00;
    vi is_small = (vi)magnitude < (113 << 23), is_large = (vi)magnitude >= 0x477ff000;
    vi is_nan = (vi)magnitude > 0x7f800000;
    vu result = (vu)choose(is_small, (vf)small, (vf)normal);
    result = (vu)choose(is_large, (vf)((vu){0} + 0x7c00), (vf)result);
    result = (vu)choose(is_nan, (vf)nan, (vf)result);
    return __builtin_convertvector(result | sign, halves);
»)
km_word(«to_brains», «halves», «vf x», «km_by_lane(«halves», «(uint16_t)brain_of(x[i])»)», «
    vu bits = (vu)x, rounded = bits + 0x7fff + (bits >> 16 & 1);
    vu result = (vu)choose(x != x, (vf)(bits | 0x400000), (vf)rounded) >> 16;
    return __builtin_convertvector(result, halves);
»)
m4_dnl widened(h) -- as 32-bit integers; narrowed(b) -- back, for integers below 2^16.
km_word(«widened», «vu», «halves h», «km_by_lane(«vu», «h[i]»)», «
    return __builtin_convertvector(h, vu);
»)
km_word(«narrowed», «halves», «vi b», «km_by_lane(«halves», «(uint16_t)b[i]»)», «
    return __builtin_convertvector(b, halves);
»)

m4_dnl value_TYPE(b) -- the numbers with these bits; round_TYPE(x) -- x as a TYPE.
km_word(«value_f32», «vf», «vi b», «
    return (vf)b;
»)
km_word(«value_f16», «vf», «vi b», «
    return from_halves(narrowed(b));
»)
km_word(«value_bf16», «vf», «vi b», «
    return (vf)(b << 16);
»)
km_word(«round_f16», «vf», «vf x», «
    return from_halves(to_halves(x));
»)
km_word(«round_bf16», «vf», «vf x», «
    return (vf)(widened(to_brains(x)) << 16);
»)

m4_dnl ---- load_TYPE(from), store_TYPE(to, x): LANES elements ----

km_word(«load_f32», «vf», «const void *from», «
    return *(const vf_any *)from;
»)
km_word(«store_f32», «void», «void *to, vf x», «
    *(vf_any *)to = x;
»)
km_word(«load_f16», «vf», «const void *from», «
    halves h;
    memcpy(&h, from, sizeof h);
    return from_halves(h);
»)
km_word(«store_f16», «void», «void *to, vf x», «
    halves h = to_halves(x);
    memcpy(to, &h, sizeof h);
»)
km_word(«load_bf16», «vf», «const void *from», «
    halves h;
    memcpy(&h, from, sizeof h);
    return (vf)(widened(h) << 16);
»)
km_word(«store_bf16», «void», «void *to, vf x», «
    halves h = to_brains(x);
    memcpy(to, &h, sizeof h);
»)
km_word(«load_words», «vi», «const int32_t *from», «
    return *(const vi_any *)from;
»)
km_word(«store_words», «void», «int32_t *to, vi x», «
    *(vi_any *)to = x;
»)
m4_dnl store_kept(to, x) -- makes compilers forget what was stored, so that they load it from memory again: such a load
m4_dnl can broadcast at no cost.
km_word(«store_kept», «void», «float *to, vf x», «
    store_f32(to, x);
»)

m4_dnl load_high_bytes(from) -- a byte for each of four lanes, as the highest byte of the lane.
km_helper(«load_high_bytes», «km_inline(«vi», «load_high_bytes(const void *from)»)
{
    const all_bytes none = {0};
    all_bytes b = (all_bytes)(vu){*(const kvmill_word4 *)from};
    b = __builtin_shufflevector(none, b,
        km_lane_list(«m4_eval(L / 2 + L % 2 * 4 * km_lanes)», «m4_eval(4 * km_lanes)»));
    return (vi)__builtin_shufflevector((all_shorts)none, (all_shorts)b,
        km_lane_list(«m4_eval(L / 2 + L % 2 * 2 * km_lanes)», «m4_eval(2 * km_lanes)»));
}

»)
m4_dnl Codes as floats: int8; and int4 in two's complement, two to a byte, low nibble first.
km_word(«load_i8», «vf», «const void *from», «km_by_lane(«vf», «(float)((const int8_t *)from)[i]»)», «
    return __builtin_convertvector(load_high_bytes(from) >> 24, vf);
»)
km_word(«load_i4», «vf», «const void *from», «
    return load_some_i4(from, LANES);
»)
m4_dnl load_u8(from), load_s8(from) -- a byte for each lane, unsigned and signed.  load_table(table, from, shift) --
m4_dnl looks up the low nibbles (shift 0) or high nibbles (shift 4) of LANES bytes in a table of 16 numbers.
km_word(«load_u8», «vi», «const void *from», «km_by_lane(«vi», «((const uint8_t *)from)[i]»)», «
    return (vi)((vu)load_high_bytes(from) >> 24);
»)
km_word(«load_s8», «vi», «const void *from», «km_by_lane(«vi», «((const int8_t *)from)[i]»)», «
    return load_high_bytes(from) >> 24;
»)
km_word(«load_table», «vf», «const void *table, const void *from, int shift», «m4_dnl
km_by_lane(«vf», «(float)((const int8_t *)table)[((const uint8_t *)from)[i] >> shift & 15]»)»)
m4_dnl twice(bytes) -- repeats each of LANES / 2 bytes in two lanes.
km_word(«twice», «vi», «uint64_t bytes», «
    return (vi){km_lane_list(«(int32_t)(bytes >> m4_eval(L / 2 * 8) & 255)»)};
»)

m4_dnl ---- Fewer than LANES elements: load_some_TYPE gives 0 for the others; no memory after them is touched ----

m4_define(«_km_some», «km_word(«load_some_$1», «vf», «const void *from, size_t count», «
    unsigned char whole[$2 * LANES] = {0};
    memcpy(whole, from, count * $2);
    return load_$1(whole);
»)»)
m4_define(«_km_store_some», «km_word(«store_some_$1», «void», «void *to, vf x, size_t count», «
    unsigned char whole[$2 * LANES];
    store_$1(whole, x);
    memcpy(to, whole, count * $2);
»)»)
_km_some(«f32», 4)
_km_some(«f16», 2)
_km_some(«bf16», 2)
_km_some(«i8», 1)
_km_store_some(«f32», 4)
_km_store_some(«f16», 2)
_km_store_some(«bf16», 2)
km_word(«load_some_i4», «vf», «const void *from, size_t count», «
    vf y = {0};
    for (size_t i = 0; i < count; i++)
        y[i] = (float)(((((const uint8_t *)from)[i / 2] >> i % 2 * 4 & 15) ^ 8) - 8);
    return y;
», «
    const vi left = {km_lane_list(«km_if(L % 2, 24, 28)»)};
    uint64_t pairs = 0;
    memcpy(&pairs, from, count / 2);
    return __builtin_convertvector(twice(pairs) << left >> 28, vf);
»)
km_word(«store_some_words», «void», «int32_t *to, vi x, int count», «
    for (int i = 0; i < count; i++)
        to[i] = x[i];
»)

m4_dnl ---- stream_TYPE(to, x): stores around the caches, if the instruction set has such stores; `to` is aligned ----

m4_define(«_km_stream», «km_word(«stream_$1», «void», «void *to, $2», «
    store_$1(to, $3);
»)»)
km_for_words(«T», «f32, f16, bf16», «_km_stream(T, «vf x», «x»)»)
km_for_words(«T», «i8, i4», «_km_stream(T, «vi c0, vi c1, vi c2, vi c3», «c0, c1, c2, c3»)»)
