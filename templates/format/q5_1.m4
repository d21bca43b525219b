m4_divert(-1)
m4_dnl q5_1.m4 -- llama.cpp's blocks of 32 elements: a float16 scale, a float16 minimum, 4 bytes of fifth bits, bit i
m4_dnl that of element i, then 16 bytes with the low bits of element i in the low and of element i + 16 in the high
m4_dnl nibble of byte i.
m4_define(«km_piece_q5_1», 16)
m4_define(«km_block_codes_q5_1», «load_q5($1 + km_codes_at_q5_1, $2, km_shift_of(«$3»))»)

m4_dnl load_q5(codes, i, shift) -- from element i on of those whose nibbles are so far up.
km_word(«load_q5», «vf», «const void *codes, int64_t i, int shift», «
    const vu lane = {km_lane_list(«L»)};
    uint32_t fifth;
    memcpy(&fifth, codes, sizeof fifth);
    vi low = load_u8((const char *)codes + 4 + i) >> shift & 15;
    vu high = ((vu){0} + (fifth >> (4 * shift + i))) >> lane & 1;
    return __builtin_convertvector(low | (vi)(high << 4), vf);
»)

m4_dnl quantise_q5_1(x, low, inverse) -- codes; 0 for what is not a number.
km_word(«quantise_q5_1», «vi», «const float *x, float low, float inverse», «
    vf q = max_f32(multiply(load_f32(x) - low, broadcast(inverse)), broadcast(0.f));
    return truncate(min_f32(q, broadcast(31.f)) + 0.5f);
»)

m4_define(«km_quantise_q5_1», «/* From the first least element up; NaN where one is not finite.  */
km_inline(«void», «quantise(const float *x, unsigned char *to)»)
{
    vf least = load_f32(x), most = least, none = least - least;
    for (int i = LANES; i < 32; i += LANES) {
        vf v = load_f32(x + i);
        least = min_f32(v, least);
        most = max_f32(v, most);
        none += v - v;
    }
    float low = -largest_of(-least), scale = (largest_of(most) - low) / 31.f, sum = sum_of(none);
    if (sum != sum)
        low = scale = __builtin_nanf("");
    for (int i = 0; low == 0.f; i++)
        if (x[i] == 0.f) {
            low = x[i];
            break;
        }
    float inverse = scale - scale == 0.f && scale != 0.f ? 1.f / scale : 0.f;
    uint32_t fifth = 0;
    store_one_f16(to, scale);
    store_one_f16(to + 2, low);
    for (int i = 0; i < 16; i += LANES) {
        vi a = quantise_q5_1(x + i, low, inverse), b = quantise_q5_1(x + 16 + i, low, inverse);
        store_low_bytes(to + 8 + i, (a & 15) | (b & 15) << 4);
        fifth |= lanes_from(a, broadcast_words(16)) << i | lanes_from(b, broadcast_words(16)) << (i + 16);
    }
    memcpy(to + 4, &fifth, sizeof fifth);
}
»)
m4_divert(0)m4_dnl
