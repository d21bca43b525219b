m4_divert(-1)
m4_dnl units.m4 -- weights as integers: the weights of a row in a block have one unit for each group, the value of 1 in
m4_dnl the last digit.

m4_define(«km_value_groups», «km_scales(«value»)»)

m4_define(«km_unit_work», «    km_aligned float value_size[km_value_groups][BLOCK]; /* magnitudes of scales */
    km_aligned float value_unit[km_value_groups][ALL_ROWS], m4_dnl
per_value_unit[km_value_groups][ALL_ROWS]; /* units of weights; their inverses */
»)

m4_define(«km_set_sizes», «_km_take_scales«»m4_dnl
/* Set the magnitudes of scales, and take out those that are not finite.  Returns whether a scale is negative.  */
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
        w->lost[g] = 0;
        if (sum_of(none) != 0.f) {
            take_scales(w, g, n);
            w->has_lost = 1;
        }
    }
    return is_any_negative(signs);
}
»)

m4_dnl km_unit_weights(WHICH, T) -- the weights of row r + i from T on, times the scales of group g or their magnitudes
m4_dnl (WHICH), in units.
m4_define(«km_unit_weights», «load_f32(w->score[r + i] + $2) * load_f32(w->value_$1[g] + $2) * unit»)

m4_dnl The largest weight with so many digits; three digits are as many as a float32 has.
m4_define(«_km_most_of_digits_1», «255.f»)
m4_define(«_km_most_of_digits_2», «65535.f»)
m4_define(«_km_most_of_digits_3», «16700000.f»)

m4_dnl The unit follows from the largest product of a weight of the row and a scale of the group.  So if a block has
m4_dnl only one weight, the result is exact.
m4_define(«km_set_units», «km_inline(«void», «set_units(struct work *w, int64_t r, m4_dnl
vf top[km_value_groups][SOFTMAX_ROWS])»)
{
    const float most = km_if(km_value_pairs, «32767.f», «m4_indir(«_km_most_of_digits_»km_limbs)»);
    for (int g = 0; g < km_value_groups; g++) {
        vf max = max_of_each(top[g]);
        store_f32(w->value_unit[g] + r, max / most);
        store_f32(w->per_value_unit[g] + r, choose(max > 0.f, most / max, broadcast(0.f)));
    }
}

»)
m4_divert(0)m4_dnl
