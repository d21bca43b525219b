m4_divert(-1)
m4_dnl unseen.m4 -- what a query row does not see has no influence on it, whatever its bits.  Its weight is 0, but 0
m4_dnl times infinity or NaN is NaN.  Values that are not finite are therefore taken out of a block before it is
m4_dnl accumulated, and added afterwards for the rows that see them.  Codes are finite, so where values have scales,
m4_dnl only these are taken out.

m4_dnl km_lost_scales -- whether scales are taken out, and not values; km_lost_groups -- how many of them a row has.
m4_define(«km_lost_scales», «(km_value_units || (km_direct && km_scales(«value») > 0))»)
m4_define(«km_lost_groups», «km_if(km_lost_scales, «km_scales(«value»)», 1)»)
m4_define(«km_lost_rows», «(km_direct && !km_lost_scales)»)
m4_dnl The largest magnitude that stays finite where values are multiplied.
m4_define(«km_most_finite», «km_if(km_half_values, «65504.f», «0x1.fffffep127f»)»)

m4_define(«km_unseen_work», «    uint64_t lost[km_lost_groups]; /* a bit for each position that was taken out */
    int has_lost;
km_if(km_value_units, «», «    int hides; /* whether a query row does not see a position of the block */
»)m4_dnl
km_if(km_lost_rows, «    const unsigned char *lost_row[BLOCK];
    unsigned char no_value[km_row_bytes_of(km_value, km_value_dim)]; /* zeros */
»)»)

m4_dnl km_each_of_value(ROW, T, X) -- X(DIM, VECTOR) for each vector of the value at position T, from dim DIM on.
m4_define(«km_each_of_value», «m4_dnl
km_if(km_value_dim >= km_lanes, «    for (int d = 0; d < m4_eval(km_value_dim / km_lanes * km_lanes); d += LANES)
        $3(«d», «km_load(«value», «$1», «$2», «d», km_lanes)»);
»)m4_dnl
km_if(km_value_dim % km_lanes, «    $3(m4_eval(km_value_dim / km_lanes * km_lanes), m4_dnl
«km_load(«value», «$1», «$2», m4_eval(km_value_dim / km_lanes * km_lanes), m4_eval(km_value_dim % km_lanes))»);
»)»)

m4_define(«_km_is_too_large», «bad |= ~(abs_f32($2) <= broadcast(km_most_finite))»)
m4_define(«_km_add_times_weight», «store_f32(w->acc[r] + $1, load_f32(w->acc[r] + $1) + broadcast(weight) * $2)»)
m4_define(«_km_take_value», «m4_dnl
/* Take the value at position t out of the block.  */
km_inline(«void», «take_value(struct work *w, int64_t t)»)
{
km_if(km_lost_rows, «    struct run *run = &w->value_run[t / RUN];
    int64_t *step = w->value_step[2 + t / RUN];
    w->lost_row[t] = row_of(w->value_run, t);
    for (int i = 0; i < RUN; i++)
        step[i] = run->step[i];
    step[t % RUN] = w->no_value - run->first;
    run->step = step;
», «    memset(w->value[t], 0, sizeof w->value[t]);
»)m4_dnl
}

/* Take out the value at position t unless it is finite.  */
km_inline(«void», «check_value(struct work *w, int64_t t)»)
{
    const unsigned char *row = km_value_row(«t»);
    vi bad = {0};
km_each_of_value(«row», «t», «_km_is_too_large»)m4_dnl
    if (is_any_negative(bad)) {
        take_value(w, t);
        w->lost[0] |= (uint64_t)1 << t;
    }
}

/* Add the lost value at position t to the sums of row r.  */
km_inline(«void», «add_value(struct work *w, int64_t r, int64_t t, int g)»)
{
    const unsigned char *row = km_if(km_lost_rows, «w->lost_row[t]», «km_value_row(«t»)»);
    const float weight = w->score[r][t];
    (void)g;
km_each_of_value(«row», «t», «_km_add_times_weight»)m4_dnl
}

»)

m4_define(«_km_lost_scale», «km_if(km_by_group(«value»), «w->value_$1[g][t]», «w->value_$1[t][g]»)»)
m4_define(«_km_lost_half_scale», «km_if(km_by_group(«value»), «w->value_twice[g][t]», «w->value_half[t][g]»)»)
m4_dnl _km_scale_is_lost(SCALE) -- whether a scale or minimum is not finite.
m4_define(«_km_scale_is_lost», «!(__builtin_fabsf(_km_lost_scale(«$1»)) <= km_most_finite)»)

m4_define(«_km_take_scales», «m4_dnl
/* Take out the scales of group g that are not finite.  Positions after the last one repeat it.  */
km_rare(«void», «take_scales(struct work *w, int g, int64_t n)»)
{
    for (int64_t t = 0; t < (n + LANES - 1) / LANES * LANES; t++)
        if (_km_scale_is_lost(«scale»)km_if(km_minimums(«value»), « || _km_scale_is_lost(«minimum»)»)) {
            _km_lost_scale(«scale») = 0;
km_if(km_minimums(«value»), «            _km_lost_scale(«minimum») = 0;
»)km_if(km_value_units, «            w->value_size[g][t] = 0;
»)km_if(km_half_values && km_half_scales, «            _km_lost_half_scale = 0;
»)m4_dnl
            w->lost[g] |= t < n ? (uint64_t)1 << t : 0;
        }
}

»)

m4_dnl No format stores codes other than 0 with a scale that is not finite, so all numbers of the group are NaN.
m4_define(«_km_add_scale», «m4_dnl
/* Make the sums of row r NaN in group g, whose scale at position t was lost.  */
km_inline(«void», «add_value(struct work *w, int64_t r, int64_t t, int g)»)
{
    (void)t;
    for (int d = 0; d < km_group_of(«value»); d++)
        w->acc[r][g * km_group_of(«value») + d] = __builtin_nanf("");
}

»)

m4_dnl km_set_aside -- defines set_aside, which takes out what is not finite where some row has the weight 0.  If
m4_dnl weights become integers, set_sizes takes out scales when they are loaded.
m4_define(«km_set_aside», «km_if(km_value_units, «», «m4_dnl
km_if(km_lost_scales, «_km_take_scales
», «_km_take_value
»)m4_dnl
/* The lanes of positions from t on at which some row has the weight 0.  */
km_inline(«vi», «without_weight(const struct kvmill_attend *p, const struct work *w, int64_t t)»)
{
    (void)p;
    vi none = {0};
    for (int64_t r = 0; r < km_at_p(«rows»); r++)
        if (w->seen[r] > t)
            none |= load_f32(w->score[r] + t) == broadcast(0.f);
    return none;
}

km_rare(«void», «set_aside(const struct kvmill_attend *p, struct work *w, int64_t n)»)
{
    memset(w->lost, 0, sizeof w->lost);
km_if(km_lost_rows, «    memset(w->no_value, 0, sizeof w->no_value);
»)m4_dnl
km_if(km_lost_scales, «    (void)p;
    for (int g = 0; g < km_lost_groups; g++) {
        take_scales(w, g, n);
        w->has_lost |= w->lost[g] != 0;
    }
», «    for (int64_t t = 0; t < n; t += LANES) {
        const vi none = without_weight(p, w, t);
        for (int64_t i = 0; i < smaller(LANES, n - t); i++)
            if (none[i])
                check_value(w, t + i);
    }
    w->has_lost = w->lost[0] != 0;
»)m4_dnl
}

»)m4_dnl
/* Whether query row r sees a position.  */
km_inline(«int», «sees(const struct kvmill_attend *p, int64_t r, int64_t position)»)
{
    const struct kvmill_query_row *row = &p->row[r];
    if (position < row->first || position >= row->last)
        return 0;
km_if(km_has_bias, «    if (row->mask != NULL)
        return load_mask(row->mask + position * km_size(km_activation), 1)[0] != -__builtin_inff();
»)m4_dnl
    return 1;
}

km_if(km_lost_scales, «_km_add_scale«»»)m4_dnl
/* Add what was taken out of the block that begins at position `from` for the rows that see it.  */
km_rare(«void», «add_lost(const struct kvmill_attend *p, struct work *w, int64_t from, int64_t n)»)
{
    for (int64_t r = 0; r < km_at_p(«rows»); r++)
        for (int g = 0; g < km_lost_groups; g++)
            for (int64_t t = 0; t < n; t++)
                if (w->lost[g] >> t & 1 && sees(p, r, from + t))
                    add_value(w, r, t, g);
}

»)
m4_divert(0)m4_dnl
