m4_divert(-1)
m4_dnl load.m4 -- loads elements of cache rows as floats, and the scales of a block.
m4_dnl km_load(SIDE, ROW, T, DIM, COUNT) -- LANES elements of a row of SIDE (key or value) as floats, from DIM on, of
m4_dnl which COUNT exist.  T is the row's position in the block.
m4_define(«km_load», «km_codes_of(km_$1, «$2», «$4», $5)m4_dnl
km_if(km_scales(«$1»), « * km_factor(«scale», «$1», «$3», «$4»)»)m4_dnl
km_if(km_minimums(«$1»), « + km_factor(«minimum», «$1», «$3», «$4»)»)»)
m4_define(«km_factor», «km_spread(«km_factor_at(«$1», «$2», «$3», «$4»)», «$4», km_group_of(«$2»))»)

m4_dnl km_value_row(T) -- where the codes of the value at position T of the block are, in order.
m4_define(«km_value_row», «km_if(km_in_tiles(km_value), «w->value_codes[$1]», «km_row(«value», «$1»)»)»)
m4_define(«km_value_codes_work», «km_if(km_values_in_turn, «    unsigned char value_codes[BLOCK][km_value_bytes];
»)»)
m4_define(«km_values_in_turn», «(km_in_tiles(km_value) && !km_value_codes)»)
m4_define(«km_value_bytes», «km_row_bytes_of(km_value, km_value_dim)»)
m4_define(«km_take_from_tiles», «km_if(km_values_in_turn, «m4_dnl
/* Copy the codes of values out of their tiles, row by row.  */
km_inline(«void», «take_from_tiles(struct work *w, int64_t n)»)
{
    for (int64_t t = 0; t < n; t += km_part(«tile», km_value)) {
        const unsigned char *tile = km_row(«value», «t»);
km_fetch_inner(«value», «t», km_part(«tile», km_value))m4_dnl
km_fetch_step(«value», «t / km_part(«tile», km_value)», m4_eval(km_block / km_part(«tile», km_value)))m4_dnl
        for (int i = 0; i < km_value_bytes; i++)
            for (int r = 0; r < km_part(«tile», km_value); r++)
                w->value_codes[t + r][i] = tile[i * km_part(«tile», km_value) + r];
    }
}

»)»)
m4_define(«km_call_take_from_tiles», «km_if(km_values_in_turn, «    take_from_tiles(w, n);
»)»)

m4_dnl km_bytes_before(T, DIM) -- the bytes in a row of format T before the code of element DIM, which begins a byte.
m4_define(«km_bytes_before», «km_if(km_part(«block», $1), «($2) / km_part(«block», $1) * km_part(«block_bytes», $1) +
    km_part(«codes_at», $1) + _km_code_bytes(«$1», «($2) % km_part(«block», $1)»)», «_km_code_bytes(«$1», «($2)»)»)»)
m4_define(«_km_code_bytes», «km_if(km_part(«bits», $1) == 8, «$2», «$2 / m4_eval(8 / km_part(«bits», $1))»)»)

m4_dnl km_code_element(T, I) -- the element whose code is number I, counting by bytes, then by bits.
m4_define(«km_code_element», «km_if(km_part(«in_turn», $1), «$2», «$2 / 32 * 32 + $2 % 32 / 2 + $2 % 2 * 16»)»)

m4_dnl km_flip(T) -- turns codes with an offset into two's complement, by inverting their highest bits.
m4_define(«km_flip», «km_if(km_part(«is_signed», $1), «», « ^ (int32_t)0x88888888»)»)

m4_dnl The scales of a block are stored as scale[group][position] if each vector has a single scale, and otherwise as
m4_dnl scale[position][group].  km_scales(SIDE), km_minimums(SIDE) -- how many of them a row has.
m4_define(«km_scales», «m4_ifelse(km_part(«scales_of», km_$1), «none», 0,
    «m4_eval(km_$1_dim / km_group_of(«$1»))»)»)
m4_define(«km_minimums», «km_if(km_part(«has_minimum», km_$1), «km_scales(«$1»)», 0)»)
m4_define(«km_group_of», «m4_ifelse(km_part(«scales_of», km_$1), «blocks», «km_part(«block», km_$1)»,
    km_part(«scales_of», km_$1), «row», «km_$1_dim», «km_$1_quant_group»)»)
m4_define(«_km_inside», «(km_is_in(km_$1, «blocks») || km_is_in(km_$1, «row»))»)
m4_define(«km_by_group», «(km_group_of($1) % _km_step_of_$1 == 0 || _km_is_$1_by_codes)»)
m4_define(«_km_step_of_key», «km_lanes»)
m4_define(«_km_step_of_value», «m4_eval(km_lanes * (1 + km_half_values))»)
m4_define(«_km_is_key_by_codes», «m4_ifdef(«km_key_by_codes», 1, 0)»)
m4_define(«_km_is_value_by_codes», «km_value_units»)
m4_dnl km_factor_at(WHAT, SIDE, T, DIM) -- the scale or minimum of an element.
m4_define(«km_factor_at», «km_if(km_by_group($2), «w->$2_$1[($4) / km_group_of($2)][$3]»,
    «w->$2_$1[$3] + ($4) / km_group_of($2)»)»)

m4_dnl km_spread(SCALES, DIM, GROUP) -- a vector with the scale of each lane.
m4_define(«km_spread», «m4_indir(«_km_spread_»km_if($3 % km_lanes == 0, «one», «km_if(km_lanes % $3 == 0,
    «some», «any»)»), «$1», «$2», $3)»)
m4_define(«_km_spread_one», «broadcast($1)»)
m4_define(«_km_spread_some»,
    «__builtin_shufflevector(load_f32($1), load_f32($1), km_lane_list(«m4_eval(L / $3)»))»)
m4_define(«_km_spread_any», «((vf){km_lane_list(«($1)[(($2) + L) / $3 - ($2) / $3]»)})»)

m4_dnl km_load_scales(SIDE) -- defines load_SIDE_scales (w, n), which loads the scales of a block as floats.
m4_define(«km_load_scales», «m4_indir(«_km_scales_»_km_how_scales(«$1»), «$1»)»)
m4_define(«_km_how_scales», «km_if(km_scales(«$1») == 0, «absent», «km_if(km_by_group($1),
    «km_if(_km_inside(«$1»), «by_group», «_km_how_rows_of_scales(«$1»)»)», «by_row»)»)»)
m4_define(«_km_how_rows_of_scales», «km_if(km_scales(«$1») % km_lanes == 0, «turned»,
    «km_if(km_scales(«$1») == 1, «alone», «km_if(_km_are_words(«$1») && _km_scale_words(«$1») <= 2, «in_words»,
        «by_group»)»)»)»)
m4_define(«_km_are_words», «(km_scales(«$1») * _km_scale_size(«$1») == 4 * _km_scale_words(«$1»))»)
m4_define(«_km_scales_absent», «»)

m4_define(«_km_scale_type», «m4_ifelse(km_part(«scales_of», km_$1), «blocks», «f16», km_part(«scales_of», km_$1), «row»,
    «f32», «m4_indir(«km_$1_scale»)»)»)
m4_define(«_km_scale_c_type», «m4_ifelse(_km_scale_type(«$1»), «f32», «uint32_t», «uint16_t»)»)
m4_define(«_km_scale_size», «m4_ifelse(_km_scale_type(«$1»), «f32», 4, 2)»)
m4_dnl km_scales_apart(SIDE) -- whether scales have rows of their own, outside of the rows of codes.
m4_define(«km_scales_apart», «(km_scales(«$1») > 0 && !_km_inside(«$1»))»)
m4_define(«_km_scale_row», «km_row(«$1«»km_if(km_scales_apart(«$1»), «_scale»)», «t»)»)
m4_dnl _km_rows_of_scales(SIDE) -- defines SIDE_scale_rows, which returns the scales of LANES positions without gaps:
m4_dnl where they are, if they are adjacent there, and otherwise in a copy.
m4_define(«_km_lie_together», «m4_dnl
run->step == w->$1_scale_step[0] && run->step[1] == m4_eval(km_scales(«$1») * _km_scale_size(«$1»))«»m4_dnl
km_if(km_lanes > 8, « &&
        run[1].step == run->step && run[1].first == run->first + RUN * run->step[1]»)»)
m4_define(«_km_rows_of_scales», «m4_dnl
km_inline(«const unsigned char *», «$1_scale_rows(const struct work *w, int64_t t,
    unsigned char copy[LANES][m4_eval(km_scales(«$1») * _km_scale_size(«$1»))])»)
{
    const struct run *run = &w->$1_scale_run[t / RUN];
    if (_km_lie_together(«$1»))
        return row_of(w->$1_scale_run, t);
    for (int i = 0; i < LANES; i++)
        memcpy(copy[i], row_of(w->$1_scale_run, t + i), sizeof copy[i]);
    return copy[0];
}

»)
m4_define(«_km_scale_step», «km_if(_km_inside(«$1»), «km_part(«block_bytes», km_$1)», «_km_scale_size(«$1»)»)»)

m4_dnl _km_factors_by_group(WHAT, SIDE, AT) -- defines load_SIDE_WHATs for scales or minimums, AT bytes into each group.
m4_define(«_km_factors_by_group», «km_inline(«void», «load_$2_$1s(struct work *w, int64_t n)»)
{
    _km_scale_c_type(«$2») raw[km_scales(«$2»)][BLOCK];
    for (int64_t t = 0; t < (n + LANES - 1) / LANES * LANES; t++) {
        const unsigned char *from = _km_scale_row(«$2»);
km_times(«G», km_scales(«$2»), «m4_dnl
        memcpy(&raw[G][t], from + m4_eval(G * _km_scale_step(«$2») + $3), _km_scale_size(«$2»));
»)    }
    for (int g = 0; g < km_scales(«$2»); g++)
        for (int64_t t = 0; t < n; t += LANES)
            store_f32(w->$2_$1[g] + t, km_typed(«load», _km_scale_type(«$2»))(raw[g] + t));
$4}
»)
m4_define(«_km_scales_by_group», «m4_dnl
km_if(km_minimums(«$1»), «_km_factors_by_group(«minimum», «$1», _km_scale_size(«$1»), «»)
»)_km_factors_by_group(«scale», «$1», 0, «km_if(km_minimums(«$1»), «    load_$1_minimums(w, n);
»)»)»)

m4_dnl If all scales of a row are one or two words of 32 bits, those of LANES rows are loaded and split together.
m4_define(«_km_scale_words», «m4_eval((km_scales(«$1») * _km_scale_size(«$1») + 3) / 4)»)
m4_define(«_km_scale_of_f32», «(vf)$1»)
m4_define(«_km_scale_of_f16», «from_halves(__builtin_convertvector($1 >> $2 & 0xffff, halves))»)
m4_define(«_km_scale_of_bf16», «(vf)($1 >> $2 << 16)»)
m4_define(«_km_scale_of_words», «m4_indir(«_km_scale_of_»_km_scale_type(«$1»),
    «word_«»m4_eval($2 / 4)», m4_eval($2 % 4 * 8))»)
m4_dnl One scale per row: scales of adjacent rows are adjacent.
m4_define(«_km_scales_alone», «_km_rows_of_scales(«$1»)m4_dnl
km_inline(«void», «load_$1_scales(struct work *w, int64_t n)»)
{
    unsigned char copy[LANES][_km_scale_size(«$1»)];
    for (int64_t t = 0; t < n; t += LANES)
        store_f32(w->$1_scale[0] + t, km_typed(«load», _km_scale_type(«$1»))($1_scale_rows(w, t, copy)));
}
»)
m4_define(«_km_scales_in_words», «_km_rows_of_scales(«$1»)m4_dnl
km_inline(«void», «load_$1_scales(struct work *w, int64_t n)»)
{
    unsigned char copy[LANES][m4_eval(4 * _km_scale_words(«$1»))];
    for (int64_t t = 0; t < n; t += LANES) {
        const void *from = $1_scale_rows(w, t, copy);
        vu word_0 = (vu)load_words((const int32_t *)from);
km_if(_km_scale_words(«$1») == 2, «        vu more = (vu)load_words((const int32_t *)from + LANES);
        vu word_1 = __builtin_shufflevector(word_0, more, km_lane_list(«m4_eval(2 * L + 1)»));
        word_0 = __builtin_shufflevector(word_0, more, km_lane_list(«m4_eval(2 * L)»));
»)km_times(«G», km_scales(«$1»), «m4_dnl
        store_f32(w->$1_scale[G] + t, _km_scale_of_words(«$1», m4_eval(G * _km_scale_size(«$1»))));
»)    }
}
»)

m4_define(«_km_scales_turned», «km_inline(«void», «load_$1_scales(struct work *w, int64_t n)»)
{
    for (int64_t first = 0; first < n; first += LANES) {
        for (int g = 0; g < km_scales(«$1»); g += LANES) {
            vf x[LANES];
            for (int64_t i = 0; i < LANES; i++) {
                int64_t t = first + i;
                x[i] = km_typed(«load», _km_scale_type(«$1»))(_km_scale_row(«$1») + g * _km_scale_size(«$1»));
            }
            transpose(x);
            for (int i = 0; i < LANES; i++)
                store_f32(w->$1_scale[g + i] + first, x[i]);
        }
    }
}
»)

m4_define(«_km_scales_by_row», «km_inline(«void», «load_$1_scales(struct work *w, int64_t n)»)
{
    _km_scale_c_type(«$1») raw[BLOCK][km_scales(«$1»)];
    for (int64_t t = 0; t < (n + LANES - 1) / LANES * LANES; t++) {
        const unsigned char *from = _km_scale_row(«$1»);
km_if(_km_inside($1), «km_times(«G», km_scales(«$1»), «m4_dnl
        memcpy(&raw[t][G], from + m4_eval(G * _km_scale_step(«$1»)), _km_scale_size(«$1»));
»)», «        memcpy(raw[t], from, sizeof raw[t]);
»)    }
    for (int64_t i = 0; i < n * km_scales(«$1»); i += LANES)
        store_f32((float *)w->$1_scale + i,
            km_typed(«load», _km_scale_type(«$1»))((const _km_scale_c_type(«$1») *)raw + i));
}
»)

m4_dnl km_loads_values -- whether a block's values, or their scales, are loaded before they are used.
m4_define(«km_loads_values», «(km_value_units || km_scales(«value») > 0 || km_values_in_turn || !km_direct)»)

m4_dnl km_load_as_floats -- defines load_values: the values of a block as floats, unless they are loaded where they are
m4_dnl used (km_direct).
m4_define(«km_load_as_floats», «km_load_scales(«value»)
km_take_from_tiles«»m4_dnl
km_if(km_loads_values, «km_inline(«void», «load_values(struct work *w, int64_t n)»)
{
km_if(km_scales(«value») > 0, «    load_value_scales(w, n);
»)m4_dnl
km_call_take_from_tiles«»m4_dnl
km_if(km_direct, «», «    for (int64_t t = 0; t < n; t++) {
        const unsigned char *row = km_value_row(«t»);
km_if(km_in_tiles(km_value), «», «km_fetch_inner(«value», «t», 1)km_fetch_step(«value», «t», km_block)»)m4_dnl
km_times(«V», km_value_vectors, «        store_f32(w->value[t] + km_vector(V),
            km_load(«value», «row», «t», km_vector(V), m4_eval(km_value_dim - V * km_lanes)));
»)    }
»)m4_dnl
}
»)»)
m4_divert(0)m4_dnl
