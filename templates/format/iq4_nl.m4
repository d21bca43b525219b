m4_divert(-1)
m4_dnl iq4_nl.m4 -- llama.cpp's blocks of 32 elements: a float16 scale, then 16 bytes of indices into a table of 16
m4_dnl numbers.  The low nibble of byte i belongs to element i, the high nibble to element i + 16.
m4_define(«km_piece_iq4_nl», 16)
m4_define(«km_block_codes_iq4_nl»,
    «load_table(numbers_of_iq4_nl, $1 + km_codes_at_iq4_nl + $2, ($3) * 4)»)

m4_dnl places_in_iq4_nl(x) -- the index of the number nearest to x, of two equally near ones the greater.  It is the
m4_dnl count of midpoints between neighbours that are not above x.
m4_define(«_km_middles», «m4_ifelse($#, 1, «», «    places -= doubled >= m4_eval($1 + ($2)).0f;
_km_middles(m4_shift($@))»)»)
m4_divert(2)static const int8_t numbers_of_iq4_nl[16] = {km_table_iq4_nl};

km_inline(«vi», «places_in_iq4_nl(vf x)»)
{
    vf doubled = x + x;
    vi places = {0};
_km_middles(km_table_iq4_nl)m4_dnl
    return places;
}

m4_divert(-1)

m4_dnl Sums are added in the order of the elements, as in the reference.
m4_define(«km_quantise_iq4_nl», «m4_dnl
/* Find the nearest number of the table for each element; then compute the scale that minimises the squared errors,
   weighted by x^2.  */
km_inline(«void», «quantise(const float *x, unsigned char *to)»)
{
    vf most = broadcast(0.f), none = most;
    for (int i = 0; i < 32; i += LANES) {
        vf v = load_f32(x + i);
        most = max_f32(abs_f32(v), most);
        none += v - v;
    }
    float largest = largest_of(most), sum = sum_of(none), products = 0.f, squares = 0.f;
    memset(to, 0, km_block_bytes_iq4_nl);
    if (sum != sum || largest < 1e-15f) {
        store_one_f16(to, sum);
        return;
    }
    uint32_t extremes = 0;
    for (int i = 0; i < 32; i += LANES)
        extremes |= lanes_from((vi)abs_f32(load_f32(x + i)), broadcast_words((int32_t)bits_of(largest))) << i;
    const vf inverse = broadcast(1.f / (x[__builtin_ctz(extremes)] / (float)numbers_of_iq4_nl[0]));
    unsigned char places[32];
    float product[32], square[32];
    for (int i = 0; i < 32; i += LANES) {
        vf v = load_f32(x + i);
        store_low_bytes(places + i, places_in_iq4_nl(multiply(v, inverse)));
        vf number = load_table(numbers_of_iq4_nl, places + i, 0), weighted = multiply(multiply(v, v), number);
        store_f32(product + i, multiply(weighted, v));
        store_f32(square + i, multiply(weighted, number));
    }
    for (int i = 0; i < 32; i++) {
        products += product[i];
        squares += square[i];
    }
    store_one_f16(to, products / squares);
    for (int i = 0; i < 16; i++)
        to[km_codes_at_iq4_nl + i] = (unsigned char)(places[i] | places[i + 16] << 4);
}
»)
m4_divert(0)m4_dnl
