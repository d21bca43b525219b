m4_divert(-1)
m4_dnl accumulate_codes.m4 -- values as integer codes: the weights of a row, times the scales of a group, become
m4_dnl km_limbs unsigned digits of base 256, and sums of products of four positions are exact.

m4_define(«km_value_halves», «m4_eval(km_word_dims(km_value) / 4)»)
m4_dnl Vectors of a strip share a scale.
m4_define(«km_value_strip», «km_if(km_group_of(«value») % (2 * km_lanes) == 0 &&
    km_value_vectors % 2 == 0, 2, 1)»)
m4_define(«km_value_strips», «m4_eval(km_value_vectors / km_value_strip)»)

m4_define(«km_work_as_codes», «    int32_t value[BLOCK / 4][VALUE_DIM]; /* four positions side by side */
    uint8_t weight[TILE][km_value_groups][km_limbs][BLOCK];
km_unit_work«»m4_dnl
    int has_signs; /* a scale of the block is negative */
»)

m4_dnl _km_four(DIM) -- codes from DIM on of four rows.
m4_define(«_km_four», «km_four(km_value, «row[0]», «row[1]», «row[2]», «row[3]», «$1»)»)

m4_dnl Weights have no sign: that of a scale, which hardly ever has one, goes to the codes.
m4_define(«_km_signed», «(w->has_signs ? with_signs($1, &w->value_scale[d / km_group_of(«value»)][t]) : $1)»)

m4_define(«km_load_as_codes», «km_load_scales(«value»)
km_set_sizes
km_inline(«void», «load_values(struct work *w, int64_t n)»)
{
    load_value_scales(w, n);
    w->has_signs = set_sizes(w, n);
    for (int64_t t = 0; t < n; t += 4) {
        const unsigned char *const *row = w->value_row + t;
km_fetch_inner(«value», «t», 4)km_fetch(«value», «t», 4)m4_dnl
km_if(km_value_halves == 1, «        for (int d = 0; d < VALUE_DIM; d += LANES)
            store_words(&w->value[t / 4][d], side_by_side(_km_signed(«_km_four(«d»)»)));
», «        for (int d = 0; d < VALUE_DIM; d += 2 * LANES) {
            vi x = _km_four(«d») ^ km_word_flip(km_value);
            store_words(&w->value[t / 4][d], side_by_side(_km_signed(«low_codes(x)»)));
            store_words(&w->value[t / 4][d + LANES], side_by_side(_km_signed(«low_codes(x >> 4)»)));
        }
»)m4_dnl
    }
}
»)

m4_define(«km_split_weights», «/* The weights of row i of the tile that begins with row r, as digits of base 256.  */
km_inline(«void», «split_weights(struct work *w, int64_t r, int64_t i, int64_t n)»)
{
    for (int g = 0; g < km_value_groups; g++)
        for (int64_t t = 0; t < n; t += LANES) {
            vi x = round_even(km_scaled_weights(«size») * w->per_value_unit[g][r + i]);
km_times(«I», km_limbs, «            store_low_bytes(&w->weight[i][g][I][t], x >> m4_eval(8 * I));
»)m4_dnl
        }
}
»)

m4_define(«_km_each_value_sum», «km_each_sum(km_value_strip, «$1»)»)

m4_dnl _km_step_of_row(R) -- four weights of a row, times those of the values of four positions, digit by digit.
m4_define(«_km_step_of_row», «km_times(«I», km_limbs, «m4_dnl
        vi km_named(a, R, I) = broadcast_words(*(const kvmill_word4 *)&w->weight[R][g][I][4 * k]);
km_times(«V», km_value_strip, «m4_dnl
        km_named(s, R, V, I) = add_products(km_named(s, R, V, I), km_named(a, R, I), km_named(b, V));
»)»)»)

m4_dnl km_accumulate_as_codes -- defines accumulate.
m4_define(«km_accumulate_as_codes», «km_split_weights
/* Sums of a tile, a strip of dims: add weight times value, four positions at a time, as integers.  */
km_inline(«void», «accumulate_strip(struct work *w, int64_t r, int strip, int64_t n)»)
{
    const int v = strip * m4_eval(km_value_strip * km_lanes), g = v / km_group_of(«value»);
_km_each_value_sum(«km_times(«I», km_limbs, «    vi km_named(s, R, V, I) = {0};
»)»)m4_dnl
    for (int64_t k = 0; k < (n + 3) / 4; k++) {
km_times(«V», km_value_strip, «        vi km_named(b, V) = load_words(&w->value[k][v + km_vector(V)]);
»)km_times(«R», km_tile, «_km_step_of_row(R)»)m4_dnl
    }
_km_each_value_sum(«    float *km_named(to, R, V) = w->sum[r + R] + v + km_vector(V);
    store_f32(km_named(to, R, V), load_f32(km_named(to, R, V)) * w->grow[r + R] +
        (km_number(«km_named(s, R, V)»)) * (w->value_unit[g][r + R] + w->value_nan[g]));
»)}

km_inline(«void», «accumulate(struct work *w, int64_t r, int64_t n)»)
{
    for (int64_t i = 0; i < TILE; i++)
        split_weights(w, r, i, n);
    for (int strip = 0; strip < km_value_strips; strip++)
        accumulate_strip(w, r, strip, n);
}
_km_set_order»)

m4_define(«km_has_order_as_codes», «(km_value_halves == 2 && km_part(«in_turn», km_value))»)

m4_divert(0)m4_dnl
