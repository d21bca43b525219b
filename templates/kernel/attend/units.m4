m4_divert(-1)
m4_dnl units.m4 -- what the last digit of a number is worth, where queries or weights become integers: of a query row;
m4_dnl of the weights of a block, for each group.

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
    km_aligned float largest_weight[BLOCK]; /* of all query rows, by position */
    float value_unit[km_value_groups], per_value_unit[km_value_groups]; /* of a weight's last digit */
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

m4_dnl km_unit_scales(WHICH, T) -- the scales of group g from T on, or their size, in units of a weight's last digit.
m4_define(«km_unit_scales», «load_f32(w->value_$1[g] + $2) * w->per_value_unit[g]»)

m4_dnl The largest weight of so many digits; three are as many as a float32 has.
m4_define(«_km_most_of_digits_1», «255.f»)
m4_define(«_km_most_of_digits_2», «65535.f»)
m4_define(«_km_most_of_digits_3», «16700000.f»)

m4_dnl The largest product of a weight of the block and a scale of the group decides what a digit is worth: that of any
m4_dnl query row, since an error is measured by the largest weight of all blocks, which is 1 in each row.
m4_define(«km_set_units», «km_inline(«void», «set_units(struct work *w)»)
{
    const float most = km_if(km_value_pairs, «32767.f», «m4_indir(«_km_most_of_digits_»km_limbs)»);
    for (int g = 0; g < km_value_groups; g++) {
        vf top = broadcast(0.f);
        for (int64_t t = 0; t < BLOCK; t += LANES)
            top = max_f32(load_f32(w->largest_weight + t) * load_f32(w->value_size[g] + t), top);
        float largest = largest_of(top);
        w->value_unit[g] = largest / most + w->value_nan[g];
        w->per_value_unit[g] = largest > 0.f ? most / largest : 0.f;
    }
}
»)

m4_divert(0)m4_dnl
