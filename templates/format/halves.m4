m4_divert(-1)
m4_dnl halves.m4 -- llama.cpp's blocks of 32 elements with codes of 4 or 5 bits: a float16 scale, of some a float16
m4_dnl minimum; of 5 bits 4 bytes of fifth bits, bit i that of element i; then 16 bytes with the low bits of element i
m4_dnl in the low and of element i + 16 in the high nibble of byte i.

m4_define(«_km_codes_in_halves», «load_$1($2 + km_codes_at_$1, $3, km_shift_of(«$4»))»)

m4_dnl load_T(codes, i, shift) -- from element i on of those whose nibbles are so far up.
m4_define(«_km_halves_words», «m4_define(«km_piece_$1», 16)m4_dnl
m4_define(«km_block_codes_$1», «_km_codes_in_halves(«$1», $»«@)»)m4_dnl
km_word(«load_$1», «vf», «const void *codes, int64_t i, int shift», «
km_if(km_part(«bits», «$1») == 4, «m4_dnl
    return __builtin_convertvector((load_u8((const char *)codes + i) >> shift & 15) - km_part(«offset», «$1»), vf);
», «    const vu lane = {km_lane_list(«L»)};
    uint32_t fifth;
    memcpy(&fifth, codes, sizeof fifth);
    vi low = load_u8((const char *)codes + 4 + i) >> shift & 15;
    vu high = ((vu){0} + (fifth >> (4 * shift + i))) >> lane & 1;
    return __builtin_convertvector((low | (vi)(high << 4)) - km_part(«offset», «$1»), vf);
»)»)»)
km_for_words(«T», «q4_0, q4_1, q5_0, q5_1», «_km_halves_words(T)»)

m4_dnl km_store_halves(T, TO, I, A, B) -- codes from elements I and I + 16 on, of the block TO; their fifth bits go to
m4_dnl `fifth`, which km_fifth_bits declares, and km_store_fifth stores.
m4_define(«km_nibbles_at», «m4_eval(km_part(«block_bytes», $1) - 16)»)
m4_define(«km_fifth_bits», «km_if(km_part(«bits», $1) == 5, «uint32_t fifth = 0;
»)»)
m4_define(«km_store_halves», «km_if(km_part(«bits», $1) == 5, «m4_dnl
store_low_bytes($2 + km_at(km_nibbles_at($1) + $3), ($4 & 15) | ($5 & 15) << 4);
            fifth |= lanes_from($4, broadcast_words(16)) << $3 | m4_dnl
lanes_from($5, broadcast_words(16)) << km_at($3 + 16)», «store_low_bytes($2 + km_at(km_nibbles_at($1) + $3), m4_dnl
$4 | $5 << 4)»);
»)
m4_define(«km_store_fifth», «km_if(km_part(«bits», $1) == 5, «m4_dnl
memcpy($2 + km_part(«codes_at», $1), &fifth, sizeof fifth);
»)»)

m4_dnl quantise_halves(x, low, inverse, most) -- codes from 0 to `most`; 0 for what is not a number.
km_word(«quantise_halves», «vi», «const float *x, float low, float inverse, float most», «
    vf q = max_f32(multiply(load_f32(x) - low, broadcast(inverse)), broadcast(0.f));
    return truncate(min_f32(q, broadcast(most)) + 0.5f);
»)

m4_define(«_km_quantise_range», «/* From the first least element up; NaN where one is not finite.  */
km_inline(«void», «quantise(const float *x, unsigned char *to)»)
{
    vf least = load_f32(x), most = least, none = least - least;
    for (int i = LANES; i < 32; i += LANES) {
        vf v = load_f32(x + i);
        least = min_f32(v, least);
        most = max_f32(v, most);
        none += v - v;
    }
    float low = -largest_of(-least), scale = (largest_of(most) - low) / km_part(«most», «$1»).f, sum = sum_of(none);
    if (sum != sum)
        low = scale = __builtin_nanf("");
    for (int i = 0; low == 0.f; i++)
        if (x[i] == 0.f) {
            low = x[i];
            break;
        }
    float inverse = scale - scale == 0.f && scale != 0.f ? 1.f / scale : 0.f;
    store_one_f16(to, scale);
    store_one_f16(to + 2, low);
    km_fifth_bits(«$1»)m4_dnl
    for (int i = 0; i < 16; i += LANES) {
        vi a = quantise_halves(x + i, low, inverse, km_part(«most», «$1»).f);
        vi b = quantise_halves(x + 16 + i, low, inverse, km_part(«most», «$1»).f);
        km_store_halves(«$1», «to», «i», «a», «b»)m4_dnl
    }
    km_store_fifth(«$1», «to»)m4_dnl
}
»)
m4_define(«km_quantise_q4_1», «_km_quantise_range(«q4_1»)»)
m4_define(«km_quantise_q5_1», «_km_quantise_range(«q5_1»)»)
m4_divert(0)m4_dnl
