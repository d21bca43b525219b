m4_divert(-1)
m4_dnl halves.m4 -- llama.cpp's blocks of 32 elements with codes of 4 to 6 bits.  A block has a float16 scale; in some
m4_dnl formats a float16 minimum; the upper bits of the codes (all bits above the lowest four); and 16 bytes of nibbles.
m4_dnl The low nibble of byte i belongs to element i, the high nibble to element i + 16.  Codes of 5 bits have 4 bytes
m4_dnl of upper bits: bit i belongs to element i.  Codes of 6 bits have 8 bytes.  The low nibble of byte i has the upper
m4_dnl bits of elements i and i + 16, the high nibble those of elements i + 8 and i + 24.

m4_define(«_km_codes_in_halves», «load_$1($2 + km_codes_at_$1, $3, ($4) * 4)»)

m4_dnl km_bits_above(T) -- the number of upper bits of a code.
m4_define(«km_bits_above», «m4_eval(km_part(«bits», $1) - 4)»)

m4_dnl km_by_bits_above(T, NONE, ONE, TWO) -- one of the three texts, depending on the number of upper bits.
m4_define(«km_by_bits_above», «m4_ifelse(km_bits_above($1), 0, «$2», km_bits_above($1), 1, «$3», «$4»)»)

m4_dnl load_T(codes, i, shift) -- elements from i on; shift is 0 for low nibbles and 4 for high ones.
m4_define(«_km_halves_words», «m4_define(«km_piece_$1», 16)m4_dnl
m4_define(«km_block_codes_$1», «_km_codes_in_halves(«$1», $»«@)»)m4_dnl
km_inline(«vf», «load_$1(const void *codes, int64_t i, int shift)»)
{
km_by_bits_above(«$1», «m4_dnl
    return __builtin_convertvector((load_u8((const char *)codes + i) >> shift & 15) - km_part(«offset», «$1»), vf);
», «    const vu lane = {km_lane_list(«L»)};
    uint32_t above;
    memcpy(&above, codes, sizeof above);
    vu high = ((vu){0} + (above >> (4 * shift + i))) >> lane & 1;
», «    const vu at = (vu){km_lane_list(«L»)} + (uint32_t)i;
    uint32_t above[2];
    memcpy(above, codes, sizeof above);
    vu word = above[0] ^ ((above[0] ^ above[1]) & -(at >> 2 & 1));
    vu high = word >> (at % 4 * 8 + at / 8 * 4 + shift / 2) & 3;
»)m4_dnl
km_if(km_bits_above(«$1»), «_km_join_halves(«$1»)»)}

»)
m4_define(«_km_join_halves», «m4_dnl
    vi low = load_u8((const char *)codes + m4_eval(4 * km_bits_above(«$1»)) + i) >> shift & 15;
    return __builtin_convertvector((low | (vi)(high << 4)) - km_part(«offset», «$1»), vf);
»)
m4_divert(2)km_for_words(«T», «km_halves_formats», «_km_halves_words(T)»)m4_divert(-1)

m4_dnl km_store_halves(T, TO, I, A, B) -- store codes A, of elements from I on, and B, of elements from I + 16 on, in
m4_dnl the block TO.  Upper bits are collected in `above`, which km_declare_above declares and km_store_above stores.
m4_define(«km_nibbles_at», «m4_eval(km_part(«block_bytes», $1) - 16)»)
m4_define(«km_declare_above», «km_by_bits_above($1, «», «uint32_t above = 0;
», «unsigned char above[16];
»)»)
m4_define(«km_store_halves», «m4_dnl
store_low_bytes($2 + km_at(km_nibbles_at($1) + $3), m4_dnl
km_if(km_bits_above($1), «($4 & 15) | ($5 & 15) << 4», «$4 | $5 << 4»));
km_by_bits_above($1, «», «            above |= lanes_from($4, broadcast_words(16)) << $3 | m4_dnl
lanes_from($5, broadcast_words(16)) << km_at($3 + 16);
», «            store_low_bytes(above + $3, $4 >> 4 | $5 >> 4 << 2);
»)»)
m4_define(«km_store_above», «km_by_bits_above($1, «», «m4_dnl
memcpy($2 + km_part(«codes_at», $1), &above, sizeof above);
», «{
                uint64_t low, high;
                memcpy(&low, above, sizeof low);
                memcpy(&high, above + 8, sizeof high);
                low |= high << 4;
                memcpy($2 + km_part(«codes_at», $1), &low, sizeof low);
            }
»)»)

m4_dnl quantise_halves(x, low, inverse, most) -- codes from 0 to `most`; the code of NaN is 0.
m4_divert(2)km_inline(«vi», «quantise_halves(const float *x, float low, float inverse, float most)»)
{
    vf q = max_f32(multiply(load_f32(x) - low, broadcast(inverse)), broadcast(0.f));
    return truncate(min_f32(q, broadcast(most)) + 0.5f);
}

m4_divert(-1)

m4_define(«_km_quantise_range», «/* Codes count up from the least element.  If one is not finite, the scale is NaN.  */
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
    km_declare_above(«$1»)m4_dnl
    for (int i = 0; i < 16; i += LANES) {
        vi a = quantise_halves(x + i, low, inverse, km_part(«most», «$1»).f);
        vi b = quantise_halves(x + 16 + i, low, inverse, km_part(«most», «$1»).f);
        km_store_halves(«$1», «to», «i», «a», «b»)m4_dnl
    }
    km_store_above(«$1», «to»)m4_dnl
}
»)
m4_define(«km_quantise_q4_1», «_km_quantise_range(«q4_1»)»)
m4_define(«km_quantise_q5_1», «_km_quantise_range(«q5_1»)»)
m4_divert(0)m4_dnl
