m4_divert(-1)
m4_dnl softmax.m4 -- turns the scores of a block into weights.
m4_define(«km_has_cap», «m4_ifelse(km_terms, «cap», 1, km_terms, «capbias», 1, 0)»)
m4_define(«km_has_bias», «m4_ifelse(km_terms, «bias», 1, km_terms, «capbias», 1, 0)»)

m4_dnl km_softmax_rows -- the number of query rows that are handled together, one per lane: a power of 2.
m4_define(«km_softmax_rows», «km_smaller(km_lanes, _km_power(4))»)
m4_define(«_km_power», «km_if($1 < km_rows, «_km_power(m4_eval(2 * $1))», $1)»)

m4_dnl km_across(NAME, FOUR, TWO) -- defines NAME_of_each, which reduces several vectors at once: lane i of the result
m4_dnl has NAME of the lanes of x[i % SOFTMAX_ROWS].  FOUR reduces four vectors to one, TWO continues with two such
m4_dnl results.
m4_define(«km_across», «km_inline(«vf», «$1_of_each(const vf x[SOFTMAX_ROWS])»)
{
    vf y = _km_fold(«$2», «$3», 0, km_softmax_rows);
_km_repeat_quads(«$3», km_softmax_rows)    return y;
}
»)
m4_define(«_km_repeat_quads», «km_if($2 < km_lanes, «    y = $1(y, y);
_km_repeat_quads(«$1», m4_eval(2 * $2))»)»)
m4_define(«_km_fold», «m4_ifelse($4, 4, «$1(x[$3], x[m4_eval($3 + 1)], x[m4_eval($3 + 2)], x[m4_eval($3 + 3)])»,
    «$2(_km_fold(«$1», «$2», $3, m4_eval($4 / 2)), _km_fold(«$1», «$2», m4_eval($3 + $4 / 2), m4_eval($4 / 2)))»)»)

m4_dnl km_first_seen -- the first position that a row sees.  If rows are in tiles, the first block of a call may begin
m4_dnl with rows before p->first, which are hidden.
m4_define(«km_first_seen», «km_if(km_tile_rows > 1, «(row->first > p->first ? row->first : p->first)», «row->first»)»)

m4_dnl km_softmax -- defines softmax, for the block that begins at position `from`.
m4_define(«km_softmax», «m4_dnl
km_if(km_has_cap, «km_inline(«vf», «capped(vf x, float cap)»)
{
    vf t = power_of_2(abs_f32(x) * (-2.f * log2_e / cap)), y = (1.f - t) / (1.f + t) * cap;
    return choose(x < 0.f, -y, y);
}

»)m4_dnl
km_if(km_has_bias, «km_inline(«vf», «load_mask(const unsigned char *from, int64_t count)»)
{
    if (count >= LANES)
        return km_typed(«load», km_activation)(from);
    return km_typed(«load_some», km_activation)(from, (size_t)count);
}

/* ALiBi and mask for `count` positions from `position` on.  */
km_inline(«vf», «bias(const struct kvmill_query_row *row, int64_t position, int64_t count)»)
{
    const vi lane = {km_lane_list(«L»)};
    vi distance = lane + (int32_t)(position - row->origin);
    vf x = __builtin_convertvector(distance, vf) * row->slope;
    return row->mask == NULL ? x : x + load_mask(row->mask + position * km_size(km_activation), count);
}

»)m4_dnl
/* Add the terms of row r to its scores, and hide what it does not see.  Returns the largest score in each lane.  */
km_inline(«vf», «finish_scores(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t from)»)
{
    const struct kvmill_query_row *row = &p->row[r];
    int64_t n = w->seen[r], low = km_first_seen - from, high = smaller(row->last - from, n);
    vf top = broadcast(-__builtin_inff());
km_if(km_value_units, «», «    w->hides |= low > 0 || high < n;
km_if(km_has_bias, «    vi hidden = {0};
»)»)m4_dnl
    for (int64_t t = 0; t < n; t += LANES) {
        vf x = load_f32(w->score[r] + t);
km_if(km_has_cap, «        if (p->softcap != 0.f)
            x = capped(x, p->softcap * log2_e);
»)km_if(km_has_bias, «        vf add = bias(row, from + t, n - t);
        vi out = add == broadcast(-__builtin_inff()); /* whatever the score is, even NaN */
        x = choose(out, add, x + add * log2_e);
km_if(km_value_units, «», «        hidden |= out;
»)»)m4_dnl
        if (low > t || high < t + LANES)
km_if(km_has_cap || km_has_bias, «            x = hide_outside(x, low - t, high - t);
        store_f32(w->score[r] + t, x);
», «            store_f32(w->score[r] + t, x = hide_outside(x, low - t, high - t));
»)m4_dnl
        top = max_f32(top, x);
    }
km_if(km_has_bias && !km_value_units, «    w->hides |= is_any_negative(hidden);
»)m4_dnl
    return top;
}

/* Turn the scores of row r into weights.  Returns the sum of the weights in each lane.  */
km_inline(«vf», «exponentials(struct work *w, int64_t r, float base«»m4_dnl
km_if(km_value_units, «, vf top[km_value_groups][SOFTMAX_ROWS]»))»)
{
    vf sum = broadcast(0.f)km_if(km_value_units, «, max[km_value_groups] = {{0}}»);
    for (int64_t t = 0; t < w->seen[r]; t += LANES) {
        vf x = power_of_2(load_f32(w->score[r] + t) - base);
        store_f32(w->score[r] + t, x);
        sum += x;
km_if(km_value_units, «        for (int g = 0; g < km_value_groups; g++)
            max[g] = max_f32(x * load_f32(w->value_size[g] + t), max[g]);
»)m4_dnl
    }
km_if(km_value_units, «    for (int g = 0; g < km_value_groups; g++)
        top[g][r % SOFTMAX_ROWS] = max[g];
»)m4_dnl
    return sum;
}

km_across(«max», «largest_quads», «larger_quads»)
km_across(«sum», «sum_quads», «add_quads»)
km_if(km_value_units, «km_set_units«»»)m4_dnl
/* SOFTMAX_ROWS rows from r on.  They are handled together, so that numbers of which each row has one fill vectors.  */
km_inline(«void», «softmax(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t from)»)
{
    int64_t rows = smaller(SOFTMAX_ROWS, km_at_p(«rows») - r);
    vf x[SOFTMAX_ROWS];
    for (int64_t i = 0; i < SOFTMAX_ROWS; i++)
        x[i] = broadcast(-__builtin_inff());
    for (int64_t i = 0; i < rows; i++)
        x[i] = finish_scores(p, w, r + i, from);
    vf before = load_f32(w->max + r), max = max_f32(before, max_of_each(x));
    vf base = choose(max == -__builtin_inff(), broadcast(0.f), max), rescale = power_of_2(before - base);
    float bases[LANES];
    store_f32(bases, base);
km_if(km_value_units, «    vf top[km_value_groups][SOFTMAX_ROWS] = {{{0}}};
»)m4_dnl
    for (int64_t i = 0; i < rows; i++)
        x[i] = exponentials(w, r + i, bases[i]km_if(km_value_units, «, top»));
    for (int64_t i = rows; i < SOFTMAX_ROWS; i++)
        x[i] = broadcast(0.f);
    store_f32(w->max + r, max);
    store_f32(w->rescale + r, rescale);
    store_f32(w->sum + r, load_f32(w->sum + r) * rescale + sum_of_each(x));
km_if(km_value_units, «    set_units(w, r, top);
»)m4_dnl
}
»)
m4_divert(0)m4_dnl
