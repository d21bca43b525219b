m4_divert(-1)
m4_dnl accumulate_pairs.m4 -- values as codes of 16 bits.  The weights of a row, times the scales of a group, become one
m4_dnl signed digit of 16 bits.  One instruction adds the products for two positions, and the sums over a block are
m4_dnl exact.

m4_dnl km_pair_of(T, WORDS, I) -- code I of each half of the words, which are of format T, as 16 bits.
m4_define(«km_pair_of», «km_if(km_part(«bits», $1) == 8, «km_if($3, «odd_codes($2)», «even_codes($2)»)»,
    «km_nibbles_of($2, m4_eval(12 - 4 * $3))»)»)
m4_define(«km_nibbles_of», «(vi)(((shorts)($1)m4_ifelse($2, 0, «», « << $2»)) >> 12)»)

m4_dnl Two rows are interleaved by whole vectors, which give two vectors of pairs, if their codes share a scale;
m4_dnl otherwise by half vectors, which give one.  km_pair_codes -- codes in half a word; km_pair_pieces -- vectors of
m4_dnl sums in a step over dims; km_pair_strip -- how many of them are computed at a time.
m4_define(«km_pair_codes», «m4_eval(16 / km_part(«bits», km_value))»)
m4_define(«_km_vector_dims», «m4_eval(2 * km_pair_codes * km_lanes)»)
m4_define(«km_whole_pairs», «km_if(km_group_of(«value») % _km_vector_dims == 0, 1, 0)»)
m4_define(«km_pair_pieces», «m4_eval(km_pair_codes * (1 + km_whole_pairs))»)
m4_define(«km_pair_dims», «m4_eval(km_pair_pieces * km_lanes)»)
m4_define(«km_pair_strip», «km_if(km_tile * km_pair_codes <= km_most_sums, km_pair_codes, 2)»)

m4_dnl With a single tile, rows are interleaved where they are multiplied; with several, once, in the workspace.
m4_define(«_km_pairs_kept», «(!km_one_tile)»)
m4_define(«km_work_as_pairs», «    km_aligned int16_t weight[TILE][km_value_groups][BLOCK];
km_if(_km_pairs_kept, «    km_aligned int32_t value[BLOCK / 2][VALUE_DIM]; /* a word: codes of two positions */
»)m4_dnl
km_unit_work«»»)

m4_define(«km_load_as_pairs», «km_load_scales(«value»)
km_set_sizes
km_take_from_tiles«»m4_dnl
km_inline(«void», «load_values(struct work *w, int64_t n)»)
{
    load_value_scales(w, n);
    set_sizes(w, n);
km_call_take_from_tiles«»m4_dnl
km_if(_km_pairs_kept, «    for (int64_t k = 0; k < (n + 1) / 2; k++) {
km_fetch_inner(«value», «2 * k», 2)km_fetch_step(«value», «k», m4_eval(km_block / 2))m4_dnl
_km_set_rows_of_pair«»m4_dnl
        for (int v = 0; v < VALUE_DIM; v += km_pair_dims) {
km_times(«I», km_pair_pieces, «            store_words(&w->value[k][v + km_vector(I)], _km_pair_of_rows(I));
»)        }
    }
»)m4_dnl
}
»)
m4_define(«_km_set_rows_of_pair», «km_if(_km_lie, «m4_dnl
km_times(«I», 2, «        const unsigned char *km_named(value, I) = km_row(«value», «2 * k + I»);
»)»)»)
m4_define(«_km_pair_of_rows», «km_pair_of(km_value, «_km_two_rows(«$1»)», m4_eval(($1) % km_pair_codes))»)

m4_define(«km_split_weights_in_pairs», «m4_dnl
/* Round the weights of row r + i to 16-bit integers.  */
km_inline(«void», «split_weights(struct work *w, int64_t r, int64_t i, int64_t n)»)
{
    for (int g = 0; g < km_value_groups; g++) {
        float unit = w->per_value_unit[g][r + i];
        for (int64_t t = 0; t < n; t += 2 * LANES) {
            vi low = round_even(km_unit_weights(«scale», «t»));
            vi high = round_even(km_unit_weights(«scale», «t + LANES»));
            store_words((int32_t *)(void *)&w->weight[i][g][t], packed_words(low, high));
        }
    }
}
»)

m4_define(«_km_lie», «(!km_in_tiles(km_value))»)
m4_define(«_km_row_codes», «_km_row_of_pair($1) + km_bytes_before(km_value, «v»)»)
m4_define(«_km_row_of_pair», «km_if(_km_lie, «km_named(value, $1)», «km_value_row(«2 * k + $1»)»)»)
m4_define(«_km_two_rows», «(km_if(km_whole_pairs, «km_if($1 < km_pair_codes, «lower», «upper»)_pairs(m4_dnl
_km_words_of(0), _km_words_of(1))», «load_pairs(_km_row_codes(0), _km_row_codes(1))»)km_flip(km_value))»)
m4_define(«_km_words_of», «load_words((const int32_t *)(const void *)(_km_row_codes($1)))»)

m4_define(«_km_strip_of», «(v / km_pair_dims * _km_strips_of_step + m4_eval($1 / km_pair_strip))»)
m4_define(«_km_strips_of_step», «m4_eval(km_pair_pieces / km_pair_strip)»)

m4_dnl Steps cover whole runs: positions that do not exist have the weight 0.
m4_dnl _km_accumulate_pieces(FIRST) -- pieces FIRST to FIRST + km_pair_strip - 1 of each vector of pairs.
m4_define(«_km_accumulate_pieces», «km_product(«accumulate_pieces_$1»,
    «struct work *w, int64_t r, int64_t v, int64_t n», km_pair_strip,
    «about», «Sums of a tile, from dim v on: add weight times value, two positions at a time, as integers.»,
    «begin», «(vi){0}»,
    «steps», «(n + 1) / 2»,
    «left», «broadcast_words(*(const kvmill_word4 *)&w->weight[R][_km_pair_group][2 * k])»,
    «right», «km_if(_km_pairs_kept, «load_words(&w->value[k][v + km_vector($1 + V)])», «_km_pair_of_rows($1 + V)»)»,
    «end», «_km_add_block(«r + R», «v + km_vector($1 + V)», «km_named(s, R, V)»)»,
    «values», «km_if(_km_lie && !_km_pairs_kept, 2, 0)»,
    «strip», «_km_strip_of($1)»,
    «strips», m4_eval(km_value_dim / km_pair_dims * _km_strips_of_step),
    «add», «_km_add_pairs»)
»)
m4_define(«_km_pair_group», «v / km_group_of(«value»)»)
m4_define(«_km_add_pairs», «$1 = add_pairs($1, $2, $3)»)
m4_define(«_km_add_block», «store_f32(w->acc[$1] + $2, load_f32(w->acc[$1] + $2) * w->rescale[$1] +
    __builtin_convertvector($3, vf) * w->value_unit[_km_pair_group][$1])»)

m4_define(«km_accumulate_as_pairs», «_km_set_order_of_pieces«»km_split_weights_in_pairs
km_each(«S», 0, m4_eval(km_pair_pieces - 1), km_pair_strip, «_km_accumulate_pieces(S)»)m4_dnl
km_inline(«void», «accumulate(struct work *w, int64_t r, int64_t n)»)
{
    for (int64_t i = 0; i < TILE; i++)
        split_weights(w, r, i, n);
km_unroll_values    for (int64_t v = 0; v < VALUE_DIM; v += km_pair_dims) {
km_each(«S», 0, m4_eval(km_pair_pieces - 1), km_pair_strip, «        accumulate_pieces_«»S«»(w, r, v, n);
»)m4_dnl
    }
}
»)

m4_define(«km_has_order_as_pairs», 1)
m4_dnl set_order moves sums to the order of elements.  _km_pair_code(I) -- the code that sum I of a step belongs to.
m4_define(«_km_pair_code», «(_km_pair_half($1) * km_pair_codes + $1 / LANES % km_pair_codes)»)
m4_define(«_km_pair_half», «km_if(km_whole_pairs,
    «($1 % LANES / 4 * 8 + $1 / m4_eval(km_pair_codes * km_lanes) * 4 + $1 % 4)», «$1 % LANES»)»)
m4_define(«_km_set_order_of_pieces», «km_inline(«void», «set_order(float *acc)»)
{
    float x[km_pair_dims];
    for (int d = 0; d < VALUE_DIM; d += km_pair_dims) {
        memcpy(x, acc + d, sizeof x);
        for (int i = 0; i < km_pair_dims; i++)
            acc[d + km_code_element(km_value, «_km_pair_code(i)»)] = x[i];
    }
}

»)
m4_divert(0)m4_dnl
