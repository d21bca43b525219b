m4_divert(-1)
m4_dnl units.m4 -- the value of a number's last digit, where queries or weights become integers: of a query row; of the
m4_dnl weights of a row in a block, for each group.

m4_define(«km_query_magnitude», «/* The largest magnitude of x; NaN where x has one.  */
km_inline(«float», «largest_magnitude(const float *x)»)
{
    vf top = broadcast(0.f), sum = broadcast(0.f);
    for (int d = 0; d < KEY_DIM; d += LANES) {
        top = max_f32(top, abs_f32(load_f32(x + d)));
        sum += load_f32(x + d);
    }
    return largest_of(top) + sum_of(sum) * 0.f;
}
»)

m4_define(«km_value_groups», «km_scales(«value»)»)

m4_define(«km_unit_work», «    km_aligned float value_size[km_value_groups][BLOCK]; /* scales without their sign */
    float value_nan[km_value_groups];         /* 0, or NaN where a scale of the block is none */
    km_aligned float value_unit[km_value_groups][ALL_ROWS], m4_dnl
per_value_unit[km_value_groups][ALL_ROWS]; /* of a weight's last digit; the former NaN with value_nan */
»)

m4_define(«km_set_sizes», «/* What scales are without their sign, and where one is none; whether one is negative.  */
km_inline(«int», «set_sizes(struct work *w, int64_t n)»)
{
    vi signs = {0};
    for (int g = 0; g < km_value_groups; g++) {
        vf none = broadcast(0.f);
        for (int64_t t = 0; t < n; t += LANES) {
            vf scale = load_f32(w->value_scale[g] + t), x = abs_f32(scale);
            signs |= (vi)scale;
            store_f32(w->value_size[g] + t, x);
            none += x * 0.f;
        }
        w->value_nan[g] = sum_of(none);
    }
    return is_any_negative(signs);
}
»)

m4_dnl km_unit_weights(WHICH, T) -- the weights of row r + i from T on, times the scales of group g or their size, in
m4_dnl units.
m4_define(«km_unit_weights», «load_f32(w->score[r + i] + $2) * load_f32(w->value_$1[g] + $2) * unit»)

m4_dnl The largest weight of so many digits; three are as many as a float32 has.
m4_define(«_km_most_of_digits_1», «255.f»)
m4_define(«_km_most_of_digits_2», «65535.f»)
m4_define(«_km_most_of_digits_3», «16700000.f»)

m4_dnl The largest product of a row's weights and the scales of a group decides what a digit is worth: one weight alone
m4_dnl is exact.
m4_define(«km_set_units», «km_inline(«void», «set_units(struct work *w, int64_t r, m4_dnl
vf top[km_value_groups][SOFTMAX_ROWS])»)
{
    const float most = km_if(km_value_pairs, «32767.f», «m4_indir(«_km_most_of_digits_»km_limbs)»);
    for (int g = 0; g < km_value_groups; g++) {
        vf largest = largest_of_each(top[g]);
        store_f32(w->value_unit[g] + r, largest / most + w->value_nan[g]);
        store_f32(w->per_value_unit[g] + r, choose(largest > 0.f, most / largest, broadcast(0.f)));
    }
}

»)
m4_divert(0)m4_dnl
