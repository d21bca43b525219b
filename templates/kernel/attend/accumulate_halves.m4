m4_divert(-1)
m4_dnl accumulate_halves.m4 -- weights and values as float16.  The sums over a block are float16; those of blocks are
m4_dnl added in float32.  Scores are not affected.

m4_define(«km_halves_of_vector», «m4_eval(2 * km_lanes)»)
m4_define(«km_half_vectors», «m4_eval(km_value_dim / km_halves_of_vector)»)
m4_define(«km_half_scales», «km_if(km_scales(«value») == 0, 0, «km_has_half_codes(km_value)»)»)

m4_dnl Room for stores of whole vectors, and for loads of a vector of float16 from any scale on.
m4_define(«_km_padded_scales», «m4_eval((km_scales(«value») + km_lanes - 1) / km_lanes * km_lanes +
    km_halves_of_vector)»)

m4_dnl Factors are stored twice, in both halves of a word, so that one load of 32 bits can broadcast them.
m4_define(«km_work_as_halves», «    uint32_t weight[TILE][BLOCK];
km_if(km_half_scales, «km_if(km_by_group(«value»), «    uint32_t value_twice[km_scales(«value»)][BLOCK];
», «    _Float16 value_half[BLOCK][_km_padded_scales];
»)»)m4_dnl
km_if(km_direct, «», «    _Float16 value[BLOCK][VALUE_DIM];
»)»)

m4_dnl km_load_half(ROW, T, DIM) -- HALVES elements of a value, from DIM on.
m4_define(«km_load_half», «m4_ifelse(km_value, «f16», «load_vh($1 + 2 * ($3))»,
    «km_if(km_half_scales, «km_half_codes(km_value, «$1», «$3») * _km_half_factor(«$2», «$3»)»,
        «_km_joined_halves(«$1», «$2», «$3»)»)»)»)
m4_define(«_km_joined_halves», «join_halves(km_load(«value», «$1», «$2», «$3», km_lanes),
    km_load(«value», «$1», «$2», «$3 + LANES», km_lanes))»)
m4_define(«_km_half_factor», «km_if(km_by_group(«value»),
    «broadcast_twice(w->value_twice[($2) / km_group_of(«value»)][$1])»,
    «spread_halves(w->value_half[$1] + ($2) / km_group_of(«value»), km_group_of(«value»))»)»)

m4_define(«_km_set_half_scales», «km_if(km_by_group(«value»), «    for (int g = 0; g < km_scales(«value»); g++)
        for (int64_t t = 0; t < n; t += LANES)
            store_twice(w->value_twice[g] + t, load_f32(w->value_scale[g] + t));
», «    for (int64_t t = 0; t < n; t++)
        for (int g = 0; g < km_scales(«value»); g += LANES)
            store_f16(w->value_half[t] + g, load_f32(w->value_scale[t] + g));
»)»)

m4_define(«km_load_as_halves», «km_load_scales(«value»)
km_take_from_tiles«»m4_dnl
km_if(km_loads_values, «km_inline(«void», «load_values(struct work *w, int64_t n)»)
{
km_call_take_from_tiles«»m4_dnl
km_if(km_scales(«value») > 0, «    load_value_scales(w, n);
»)m4_dnl
km_if(km_half_scales, «_km_set_half_scales«»»)m4_dnl
km_if(km_direct, «», «    for (int64_t t = 0; t < n; t++) {
        const unsigned char *row = km_value_row(«t»);
km_if(km_in_tiles(km_value), «», «km_fetch_inner(«value», «t», 1)km_fetch_step(«value», «t», km_block)»)m4_dnl
        for (int d = 0; d < VALUE_DIM; d += HALVES)
            store_vh(w->value[t] + d, km_load_half(«row», «t», «d»));
    }
»)m4_dnl
}
»)»)

m4_define(«_km_half_dim», «v + m4_eval($1 * km_halves_of_vector)»)
m4_define(«_km_half_value», «km_if(km_direct, «km_load_half(«_km_direct_row», «k», «_km_half_dim($1)»)»,
    «load_vh(w->value[k] + _km_half_dim($1))»)»)
m4_dnl Shorter strips after the whole ones share the lines of one strip; the first of them fetches these.
m4_define(«_km_half_strip», «km_product(«accumulate_strip_$1»,
    «struct work *w, int64_t r, int64_t v, int64_t n», $1,
    «about», «Sums of a tile, $1 vectors of float16 from dim v on: add weight times value, position by position.»,
    «begin», «(vh){0}»,
    «steps», «n»,
    «left», «broadcast_twice(w->weight[R][k])»,
    «right», «_km_half_value(V)»,
    «end», «add_halves(w->acc[r + R] + _km_half_dim(V), w->rescale[r + R], km_named(s, R, V))»,
    «values», _km_values_lie,
    «strip», «v / m4_eval(km_strip * km_halves_of_vector)»,
    «strips», _km_strips(m4_eval(km_strip * 2)),
    «starts», «km_if($1 < km_strip, «v % m4_eval(km_strip * km_halves_of_vector) == 0»)»)
»)
m4_define(«_km_half_strips», «km_unroll_values«»m4_dnl
    for (; _km_half_dim(($1 - 1)) < VALUE_DIM; v += m4_eval($1 * km_halves_of_vector))
        accumulate_strip_$1(w, r, v, n);
»)
m4_define(«km_accumulate_as_halves», «km_halving(km_strip, «_km_half_strip»)m4_dnl
km_inline(«void», «accumulate(struct work *w, int64_t r, int64_t n)»)
{
    int64_t v = 0;
    for (int64_t i = 0; i < TILE; i++)
        for (int64_t t = 0; t < n; t += LANES)
            store_twice(w->weight[i] + t, load_f32(w->score[r + i] + t));
km_halving(km_strip, «_km_half_strips»)m4_dnl
}
»)

m4_define(«km_has_order_as_halves», 0)
m4_divert(0)m4_dnl
