m4_divert(-1)
m4_dnl accumulate.m4 -- adds weight times value for the positions of a block to the sums of a tile of rows, in float32.

m4_dnl km_folded -- if a strip has a single scale, the weights are multiplied with it once, and then with the plain
m4_dnl codes.
m4_define(«km_folded», «(km_direct && km_scales(«value») > 0 && km_minimums(«value») == 0 &&
    km_group_of(«value») % (km_strip * km_lanes) == 0)»)

m4_dnl km_nibbles -- in this case a vector of bytes can give two vectors, of its low and of its high nibbles.  Sums are
m4_dnl then in a different order than elements.
m4_define(«km_nibbles», «(km_folded && km_part(«word_codes», km_value) == 8 && km_strip % 2 == 0 &&
    km_value_dim % (2 * km_lanes) == 0)»)

m4_define(«km_work_as_floats», «km_if(km_direct, «», «    float value[BLOCK][VALUE_PADDED];
»)km_if(km_folded, «    float weight[km_scales(«value»)][TILE][BLOCK]; /* times scales */
»)»)

m4_dnl km_value_vector -- vector V of a strip, from dim v on, of the value at position k; km_weight -- its weight for
m4_dnl row R.
m4_define(«_km_dim», «v + km_vector($1)»)
m4_define(«km_value_vector», «km_if(km_folded, «_km_value_codes»,
    «km_if(km_direct, «_km_value_in_cache», «load_f32(w->value[k] + _km_dim(V))»)»)»)
m4_dnl _km_values_lie -- whether values are read from the cache, run by run, and not from a copy without tiles.
m4_define(«_km_values_lie», «km_if(km_direct && !km_in_tiles(km_value), 1, 0)»)
m4_define(«_km_direct_row», «km_if(_km_values_lie, «value_0», «km_value_row(«k»)»)»)
m4_define(«_km_value_in_cache», «km_load(«value», «_km_direct_row», «k», «_km_dim(V)», km_lanes)»)
m4_define(«_km_value_codes», «km_if(km_nibbles, «_km_nibble(V)»,
    «km_codes_of(km_value, «_km_direct_row», «_km_dim(V)», km_lanes)»)»)
m4_define(«km_weight», «km_if(km_folded, «w->weight[v / km_group_of(«value»)][R][k]», «w->score[r + R][k]»)»)

m4_dnl _km_nibble(V) -- the low nibbles (V even) or the high ones (V odd) of the bytes that two vectors share.
m4_define(«_km_nibble», «__builtin_convertvector(km_if($1 % 2, «(_km_bytes($1)) >> 4»,
    «(_km_bytes($1)) << 28 >> 28»), vf)»)
m4_define(«_km_bytes», «load_s8(_km_direct_row + km_bytes_before(km_value, «_km_dim($1 / 2 * 2)»))m4_dnl
km_if(km_part(«is_signed», km_value), «», « ^ ~0x77»)»)

m4_define(«_km_accumulate_strip», «km_product(«accumulate_strip_$1»,
    «struct work *w, int64_t r, int64_t v, int64_t n», $1,
    «about», «Sums of a tile, $1 vectors from dim v on: add weight times value, position by position.»,
    «begin», «broadcast(w->rescale[r + R]) * load_f32(w->acc[r + R] + _km_dim(V))»,
    «steps», «n»,
    «left», «broadcast(km_weight)»,
    «right», «km_value_vector»,
    «end», «store_f32(w->acc[r + R] + _km_dim(V), km_named(s, R, V))»,
    «values», _km_values_lie,
    «strip», «v / km_vector(km_strip)»,
    «strips», _km_strips(km_strip))»)
m4_dnl _km_strips(VECTORS) -- how many strips of so many vectors a value has; the last one may be shorter.
m4_define(«_km_strips», «m4_eval((km_value_vectors + $1 - 1) / $1)»)

m4_define(«km_scale_weights», «km_if(km_folded, «/* The weights of a tile, times the scales of each group.  */
km_inline(«void», «scale_weights(struct work *w, int64_t r, int64_t n)»)
{
    for (int g = 0; g < km_scales(«value»); g++)
        for (int64_t i = 0; i < TILE; i++)
            for (int64_t t = 0; t < n; t += LANES)
                store_f32(w->weight[g][i] + t, load_f32(w->score[r + i] + t) * load_f32(w->value_scale[g] + t));
}

»)»)

m4_dnl km_accumulate_as_floats -- defines accumulate: whole strips, then the rest of a value.
m4_define(«km_rest», «m4_eval(km_value_vectors % km_strip)»)
m4_define(«_km_in_strips», «m4_eval(km_value_vectors - km_rest)»)
m4_define(«km_accumulate_as_floats», «km_scale_weights«»_km_set_order«»m4_dnl
km_if(_km_in_strips > 0, «_km_accumulate_strip(km_strip)
»)km_if(km_rest > 0, «_km_accumulate_strip(km_rest)
»)km_inline(«void», «accumulate(struct work *w, int64_t r, int64_t n)»)
{
km_if(km_folded, «    scale_weights(w, r, n);
»)m4_dnl
km_if(_km_in_strips > 0, «km_unroll_values    for (int64_t v = 0; v < km_vector(_km_in_strips); v += STRIP)
        km_named(accumulate_strip, km_strip)(w, r, v, n);
»)km_if(km_rest > 0, «    km_named(accumulate_strip, km_rest)(w, r, km_vector(_km_in_strips), n);
»)}
»)

m4_dnl set_order moves sums to the order of elements, if km_nibbles has changed it.
m4_define(«km_has_order_as_floats», «km_nibbles»)
m4_define(«_km_set_order», «km_if(km_values(«has_order»),
    «km_if(km_part(«in_turn», km_value), «_km_set_order_of_pairs», «_km_set_order_of_blocks»)»)»)
m4_define(«_km_set_order_of_pairs», «km_inline(«void», «set_order(float *acc)»)
{
    for (int d = 0; d < VALUE_DIM; d += 2 * LANES) {
        vf even = load_f32(acc + d), odd = load_f32(acc + d + LANES);
        store_f32(acc + d, _km_in_turn(0));
        store_f32(acc + d + LANES, _km_in_turn(km_lanes / 2));
    }
}

»)
m4_dnl _km_in_turn(FROM) -- lanes of even and odd, alternating, from lane FROM on.
m4_define(«_km_in_turn», «__builtin_shufflevector(even, odd, km_lane_list(«m4_eval(L / 2 + $1 + L % 2 * km_lanes)»))»)
m4_define(«_km_set_order_of_blocks», «km_inline(«void», «set_order(float *acc)»)
{
    float x[32];
    for (int d = 0; d < VALUE_DIM; d += 32) {
        memcpy(x, acc + d, sizeof x);
        for (int i = 0; i < 32; i++)
            acc[d + i / (2 * LANES) * LANES + i % LANES + i / LANES % 2 * 16] = x[i];
    }
}

»)
m4_divert(0)m4_dnl
