m4_divert(-1)
m4_dnl accumulate_codes.m4 -- values as integer codes.  The weights of a row, times the scales of a group, become
m4_dnl km_limbs unsigned digits of base 256.  One instruction adds the products for four positions, and these sums are
m4_dnl exact.

m4_define(«km_value_halves», «m4_eval(km_word_dims(km_value) / 4)»)
m4_dnl The vectors of a strip share a scale.  If registers cannot hold the sums of a whole tile, half a tile is used.
m4_define(«km_value_strip», «km_if(km_group_of(«value») % (2 * km_lanes) == 0 && km_value_vectors % 2 == 0, 2, 1)»)
m4_define(«km_value_rows», «km_if(km_tile * km_value_strip * km_limbs > km_most_sums && km_tile % 2 == 0,
    «m4_eval(km_tile / 2)», km_tile)»)
m4_define(«km_value_strips», «m4_eval(km_value_vectors / km_value_strip)»)

m4_dnl km_values_at_once -- codes of four positions must be interleaved.  In tiles they already are.  Otherwise they are
m4_dnl interleaved where they are multiplied, if there are few query rows (for nibbles: one tile) and registers hold the
m4_dnl sums of two vectors for each; else once, in the workspace.
m4_define(«km_values_at_once», «(km_in_tiles(km_value) || (km_value_strip == 2 && km_value_rows == km_tile &&
    (km_one_tile || (km_few_rows && km_value_halves == 1))))»)

m4_dnl Codes of four rows are interleaved by whole vectors of a group, or by half vectors, which takes half the
m4_dnl instructions, or by LANES bytes of each row.
m4_define(«km_whole_vectors», «(!km_values_at_once && km_group_of(«value») % (4 * km_lanes * km_value_halves) == 0)»)
m4_define(«km_rows_by_half», «(km_values_at_once && !km_in_tiles(km_value) && km_value_strip > km_value_halves)»)
m4_define(«km_value_piece»,
    «m4_eval(km_lanes * km_value_halves * km_if(km_whole_vectors, 4, «km_if(km_rows_by_half, 2, 1)»))»)
m4_define(«km_work_as_codes», «km_if(km_values_at_once, «    int has_signs; /* of the scales of the block */
», «    km_aligned int32_t value[BLOCK / 4][VALUE_DIM]; /* each word: a code of each of four positions */
»)m4_dnl
    km_aligned int32_t weight[TILE][km_value_groups][BLOCK]; /* each word: one digit of four positions */
km_unit_work«»»)

m4_dnl _km_four_rows(DIM) -- the addresses of an element in four rows.
m4_define(«_km_row_of_four», «row[$1] + km_bytes_before(km_value, «$2»)»)
m4_define(«_km_four_rows»,
    «_km_row_of_four(0, «$1»), _km_row_of_four(1, «$1»), _km_row_of_four(2, «$1»), _km_row_of_four(3, «$1»)»)

m4_dnl _km_store_codes(FIRST, WORDS) -- stores the words as vectors from FIRST on; of nibbles, first the low ones, then
m4_dnl the high ones.
m4_define(«_km_store_codes», «km_if(km_value_halves == 1, «_km_store_value($1, «$2»)»,
    «_km_store_value($1, «low_codes($2)»)_km_store_value(m4_eval($1 + 1), «low_codes($2 >> 4)»)»)»)
m4_define(«_km_store_value», «            store_words(&w->value[t / 4][d + km_vector($1)],
                has_signs ? with_signs($2, signs) : $2);
»)
m4_define(«_km_value_flip»,
    «km_if(km_value_halves == 2 && km_part(«is_signed», km_value), « ^ km_word_flip(km_value)»)»)

m4_define(«km_load_as_codes», «km_load_scales(«value»)
km_set_sizes
km_if(km_values_at_once, «_km_load_scales_alone», «_km_load_codes»)»)

m4_define(«_km_load_scales_alone», «km_inline(«void», «load_values(struct work *w, int64_t n)»)
{
    load_value_scales(w, n);
    w->has_signs = set_sizes(w, n);
}
»)

m4_define(«_km_load_codes», «m4_dnl
/* Interleave the codes of a block, four positions at a time.  Weights are unsigned, so if a scale is negative, its sign
   goes to the codes.  */
km_inline(«void», «load_codes(struct work *w, int64_t n, int has_signs)»)
{
    for (int64_t t = 0; t < n; t += 4) {
        const unsigned char *row[4]; /* a copy, which stores of codes do not change */
        for (int i = 0; i < 4; i++)
            row[i] = km_row(«value», «t + i»);
km_fetch_inner(«value», «t», 4)m4_dnl
        for (int d = 0; d < VALUE_DIM; d += km_value_piece) {
            vi signs = has_signs ? signs_of_four(&w->value_scale[d / km_group_of(«value»)][t]) : (vi){0};
km_if(km_whole_vectors, «            vf x[4];
            rows_side_by_side(_km_four_rows(«d»), x);
km_times(«J», 4, «            vi km_named(x, J) = (vi)x[J]_km_value_flip;
_km_store_codes(m4_eval(J * km_value_halves), «km_named(x, J)»)»)», «m4_dnl
            vi x = side_by_side(load_four(_km_four_rows(«d»)))_km_value_flip;
_km_store_codes(0, «x»)»)m4_dnl
        }
    }
}

km_inline(«void», «load_values(struct work *w, int64_t n)»)
{
    load_value_scales(w, n);
    if (set_sizes(w, n))
        load_codes(w, n, 1);
    else
        load_codes(w, n, 0);
}
»)

m4_define(«km_split_weights», «/* Split the weights of row r + i into digits of base 256.  */
km_inline(«void», «split_weights(struct work *w, int64_t r, int64_t i, int64_t n)»)
{
    for (int g = 0; g < km_value_groups; g++) {
        float unit = w->per_value_unit[g][r + i];
        for (int64_t t = 0; t < n; t += LANES)
            store_words(&w->weight[i][g][t], turn_bytes(round_even(km_unit_weights(«size», «t»))));
    }
}
»)

m4_define(«_km_each_value_sum», «km_times(«R», km_value_rows, «km_times(«V», km_value_strip, «$1»)»)»)

m4_dnl _km_step_of_row(R) -- four weights of a row times the values of four positions, digit by digit.
m4_define(«_km_step_of_row», «km_times(«I», km_limbs, «m4_dnl
        vi km_named(a, R, I) = broadcast_words(w->weight[i + R][g][4 * k + I]);
km_times(«V», km_value_strip, «m4_dnl
        km_named(s, R, V, I) = add_products(km_named(s, R, V, I), km_named(a, R, I), km_named(b, V));
»)»)»)

m4_dnl While the first rows are computed, each step prefetches; each strip has a share of the four rows.
m4_define(«_km_first_rows», «km_if(km_value_rows == km_rows, «», «r + i == 0»)»)
m4_define(«_km_rows_of_strip», «m4_eval((4 + km_value_strips - 1) / km_value_strips)»)

m4_dnl _km_lay_values -- interleaves the codes of four values for a strip, where they are multiplied.
m4_define(«_km_lay_values», «m4_dnl
km_if(km_in_tiles(km_value), «m4_dnl
        const unsigned char *tile = km_row(«value», «4 * k») + m4_eval(4 / km_value_halves) * v;
», «_km_lay_four_rows«»»)m4_dnl
        vi signs = has_signs ? signs_of_four(&w->value_scale[g][4 * k]) : (vi){0};
km_times(«V», km_value_strip, «m4_dnl
        vi km_named(x, V) = km_if(km_in_tiles(km_value), «_km_tile_codes(V)», «_km_codes_of_rows(V)»);
        vi km_named(b, V) = has_signs ? with_signs(km_named(x, V), signs) : km_named(x, V);
»)»)
m4_define(«_km_lay_four_rows», «m4_dnl
        const struct run run = run_from(w->value_run, 4 * k);
        const unsigned char *row[] = {km_times(«I», 4, «run.first + run.step[I]km_if(I < 3, «, »)»)};
km_if(km_rows_by_half, «        vf x[2];
        halves_side_by_side(_km_four_rows(«v»), x);
», «        vi x = side_by_side(load_four(_km_four_rows(«v»)))_km_value_flip;
»)»)
m4_define(«_km_codes_of_rows», «km_if(km_rows_by_half, «(vi)x[$1]», «km_if(km_value_halves == 1, «x»,
    «low_codes(x«»km_if($1, « >> 4»))»)»)»)
m4_define(«_km_tile_codes», «km_if(km_value_halves == 1, «_km_tile_words($1)»,
    «low_codes(_km_tile_words(m4_eval($1 / 2))«»km_if($1 % 2, « >> 4»))»)»)
m4_define(«_km_tile_words»,
    «(load_words((const int32_t *)(const void *)(tile + m4_eval($1 * 4 * km_lanes)))_km_value_flip)»)

m4_dnl km_accumulate_as_codes -- defines accumulate.
m4_define(«km_accumulate_as_codes», «km_split_weights
/* Sums of a strip of dims for the rows from r + i on: add weight times value, four positions at a time, as
   integers.  */
km_inline(«void», «accumulate_strip(struct work *w, int64_t r, int64_t i, int strip, int64_t n«»m4_dnl
km_if(km_values_at_once, «, int has_signs»))»)
{
    const int v = strip * m4_eval(km_value_strip * km_lanes), g = v / km_group_of(«value»);
_km_each_value_sum(«km_times(«I», km_limbs, «    vi km_named(s, R, V, I) = {0};
»)»)m4_dnl
    for (int64_t k = 0; k < (n + 3) / 4; k++) {
km_fetch_step(«value», «strip * (BLOCK / 4) + k», m4_eval(km_value_strips * km_block / 4), _km_first_rows)m4_dnl
km_if(km_values_at_once, «km_fetch_inner(«value», «4 * k + strip * _km_rows_of_strip», _km_rows_of_strip,
    _km_first_rows)_km_lay_values«»», «m4_dnl
km_times(«V», km_value_strip, «        vi km_named(b, V) = load_words(&w->value[k][v + km_vector(V)]);
»)»)m4_dnl
km_times(«R», km_value_rows, «_km_step_of_row(R)»)m4_dnl
    }
_km_each_value_sum(«    float *km_named(to, R, V) = w->acc[r + i + R] + v + km_vector(V);
    store_f32(km_named(to, R, V), load_f32(km_named(to, R, V)) * w->rescale[r + i + R] +
        (km_number(«km_named(s, R, V)»)) * w->value_unit[g][r + i + R]);
»)}

km_inline(«void», «accumulate(struct work *w, int64_t r, int64_t n)»)
{
    for (int64_t i = 0; i < TILE; i++)
        split_weights(w, r, i, n);
km_if(km_values_at_once, «    if (w->has_signs)
_km_each_strip(«, 1»)m4_dnl
    else
_km_each_strip(«, 0»)», «_km_each_strip(«»)»)m4_dnl
}
_km_set_order_of_vectors»)

m4_define(«_km_each_strip», «m4_dnl
km_unroll_values    for (int strip = 0; strip < km_value_strips; strip++)
        for (int64_t i = 0; i < TILE; i += km_value_rows)
            accumulate_strip(w, r, i, strip, n$1);
»)

m4_dnl set_order moves sums to the order of elements.  Sum v of a piece is the code in lane v % LANES of vector v /
m4_dnl LANES.
m4_define(«km_has_order_as_codes», «(km_whole_vectors || km_rows_by_half ||
    (km_value_halves == 2 && (km_part(«in_turn», km_value) || km_lanes != 16)))»)
m4_define(«_km_sum_byte», «km_if(km_whole_vectors,
    «(v % LANES / 4 * 16 + v / m4_eval(km_lanes * km_value_halves) * 4 + v % 4)»,
    «km_if(km_rows_by_half, (km_byte_of_half(«v % LANES / 4») + v / LANES * 4 + v % 4), «v % LANES»)»)»)
m4_define(«_km_sum_code», «km_if(km_value_halves == 1, «d + _km_sum_byte»,
    «d + _km_sum_byte * 2 + v / LANES % 2»)»)
m4_define(«_km_set_order_of_vectors», «km_if(km_has_order_as_codes, «
km_inline(«void», «set_order(float *acc)»)
{
    float x[VALUE_DIM];
    memcpy(x, acc, sizeof x);
    for (int d = 0; d < VALUE_DIM; d += km_value_piece)
        for (int v = 0; v < km_value_piece; v++)
            acc[km_code_element(km_value, «(_km_sum_code)»)] = x[d + v];
}
»)»)

m4_divert(0)m4_dnl
