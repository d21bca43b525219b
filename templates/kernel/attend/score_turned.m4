m4_divert(-1)
m4_dnl score_turned.m4 -- scores from codes with positions in the lanes, for `words`, `pairs` and `codes`: each lane
m4_dnl has a word of 32 bits, with several codes, of one key.  To get there, the words of LANES keys are transposed
m4_dnl ("turned").  Each word is then split into pieces, which are multiplied with pieces of the query.  A variant
m4_dnl defines:
m4_dnl   km_sum_type          vf or vi
m4_dnl   km_pieces_of_word    the number of pieces of a word
m4_dnl   km_piece(WORDS, I)   piece I of a vector of words
m4_dnl   km_query_piece(ROW, PIECE, DIGIT)  what the piece is multiplied with
m4_dnl   km_add(SUM, QUERY, PIECE)          adds the product to a sum
m4_dnl   km_sum(SUM)          the sum as floats
m4_dnl   km_unit              a factor for the scores of row R at the end, if any
m4_dnl   km_chains            how many independent sums are needed to hide the latency of km_add
m4_dnl and, if they differ from these defaults:
m4_dnl   km_digits            digits of a query; each has its own sum, SUM_0, SUM_1 ...
m4_dnl   km_first(ROW, DIGIT) the initial value of a sum
m4_dnl   km_turned_flip       what turns words into codes
m4_dnl   km_pieces_kept       whether pieces, not words, are kept in the workspace if there are several tiles
m4_define(«km_digits», 1)
m4_define(«km_pieces_kept», 0)
m4_define(«km_first», «{0}»)
m4_define(«km_turned_flip», «km_flip(km_key)»)

m4_dnl km_at_once -- with a single tile of rows, words are multiplied as soon as they are turned, if that gives enough
m4_dnl independent sums.  Several tiles read them from the workspace.
m4_define(«km_at_once», «(!km_in_tiles(km_key) && km_one_tile && km_tile * km_digits >= km_chains &&
    km_group_of(«key») % (4 * km_key_word_dims) == 0)»)
m4_define(«km_vectors», «km_if(km_at_once, 1, km_words)»)

m4_define(«km_key_word_dims», «km_word_dims(km_key)»)
m4_define(«km_key_groups», «km_scales(«key»)»)
m4_define(«km_group_words», «m4_eval(km_group_of(«key») / km_key_word_dims)»)

m4_dnl Keys in tiles already have words side by side.
m4_define(«_km_is_laid_out», «(!km_at_once && !km_in_tiles(km_key))»)
m4_define(«_km_has_pieces», «(km_pieces_kept && _km_is_laid_out && !km_one_tile)»)
m4_define(«_km_kept», «km_if(_km_has_pieces, km_pieces_of_word, 1)»)
m4_define(«km_turned_keys», «km_if(!_km_is_laid_out, «», «m4_dnl
    km_aligned int32_t key[m4_eval(km_key_dim / km_key_word_dims * _km_kept)][BLOCK];
»)»)

m4_dnl The addresses of LANES keys.
m4_define(«_km_find_keys», «m4_dnl
km_rows_of_keys(«row», 0, km_smaller(km_lanes, 8))km_if(km_lanes > 8, «km_rows_of_keys(«row», 8, 8)»)m4_dnl
    const unsigned char *const row[] = {km_lane_list(«km_named(row, L)»)};
»)

m4_dnl _km_at_a_time -- how many words are turned at a time: a whole vector of them if they are adjacent and the
m4_dnl instruction set can transpose them, else four.  If their number is not a multiple of four, the last four overlap
m4_dnl the others.
m4_define(«_km_key_words», «m4_eval(km_key_dim / km_key_word_dims)»)
m4_define(«_km_at_a_time», «km_if(!km_at_once && km_transposes && !km_part(«block», km_key) &&
    _km_key_words % km_lanes == 0, km_lanes, 4)»)
m4_define(«km_load_turned», «km_load_scales(«key»)
km_if(km_in_tiles(km_key), «_km_find_words», «_km_turn_words»)»)

m4_define(«_km_turn_words», «m4_dnl
/* Turn _km_at_a_time words of LANES rows, from byte `from` on, so that positions are in the lanes.  */
km_inline(«void», «turn(const unsigned char *const *row, int64_t from, vf x[_km_at_a_time])»)
{
km_if(_km_at_a_time == km_lanes, «    for (int i = 0; i < LANES; i++)
        x[i] = load_f32(row[i] + from);
    transpose(x);
», «    for (int i = 0; i < 4; i++)
        x[i] = load_quads(row[i] + from, row[(i + 4) % LANES] + from, row[(i + 8) % LANES] + from,
            row[(i + 12) % LANES] + from);
    transpose_quads(x);
»)m4_dnl
}

km_inline(«void», «load_keys(struct work *w, int64_t n)»)
{
    load_key_scales(w, n);
km_if(km_at_once, «», «    for (int64_t t = 0; t < n; t += LANES) {
_km_find_keys«»m4_dnl
km_fetch_inner(«key», «t», «LANES»)m4_dnl
km_if(km_one_tile, «», «km_fetch_step(«key», «t / LANES», m4_eval(km_block / km_lanes))»)m4_dnl
        vf x[_km_at_a_time];
km_each(«K», 0, m4_eval(_km_key_words - 1), _km_at_a_time, «m4_dnl
_km_load_piece(km_smaller(K, m4_eval(_km_key_words - _km_at_a_time)))»)m4_dnl
    }
»)m4_dnl
}
»)

m4_dnl With keys in tiles nothing is turned: the words of LANES rows are side by side.
m4_define(«_km_find_words», «m4_dnl
km_inline(«const unsigned char *», «words_at(const struct work *w, int64_t t)»)
{
    return km_row(«key», «t / km_tile_rows * km_tile_rows») + t % km_tile_rows * km_part(«piece_of_tile», km_key);
}

km_inline(«void», «load_keys(struct work *w, int64_t n)»)
{
    load_key_scales(w, n);
km_if(km_one_tile, «», «    for (int64_t t = 0; t < n; t += LANES) {
km_fetch_inner(«key», «t», «LANES»)km_fetch_step(«key», «t / LANES», m4_eval(km_block / km_lanes))m4_dnl
    }
»)m4_dnl
}
»)
m4_define(«_km_word_step», «m4_eval(km_part(«tile», km_key) * km_part(«piece_of_tile», km_key))»)
m4_define(«_km_tile_word», «m4_dnl
load_words((const int32_t *)(const void *)(km_named(words, $2) + (k + $1) * _km_word_step))«»km_turned_flip»)

m4_define(«_km_load_piece», «        turn(row, m4_eval(km_word_at($1)), x);
        for (int i = 0; i < _km_at_a_time; i++) {
            vi word = (vi)x[i]km_turned_flip;
km_if(_km_has_pieces, «km_times(«I», km_pieces_of_word, «m4_dnl
            store_words(&w->key[_km_kept * ($1 + i) + I][t], km_piece(word, I));
»)», «            store_words(&w->key[$1 + i][t], word);
»)        }
»)

m4_dnl km_word_at(WORD) -- the bytes of a key before a word of codes.
m4_define(«km_word_at», «km_bytes_before(km_key, «($1) * km_key_word_dims»)»)

m4_define(«_km_each_sum», «km_each_sum(km_vectors, «$1»)»)
m4_define(«_km_each_digit», «km_times(«D», km_digits, «$1»)»)
m4_dnl _km_digit(NAME) -- the name for digit D.
m4_define(«_km_digit», «km_if(km_digits == 1, «$1», «$1«»_«»D»)»)

m4_dnl _km_score_word(W) -- word k + W of the keys, piece by piece, times the query rows of the tile.
m4_define(«_km_key_word»,
    «km_if(km_in_tiles(km_key), «_km_tile_word($1, $2)»,
        «km_if(km_at_once, «(vi)x[$1]km_turned_flip», «load_words(&w->key[k + $1][t + km_vector($2)])»)»)»)
m4_define(«_km_piece_of_word», «km_if(_km_has_pieces,
    «load_words(&w->key[_km_kept * (k + $1) + $2][t + km_vector($3)])», «km_piece(«km_named(k_$1, $3)», $2)»)»)
m4_define(«_km_sum_of_digit», «_km_digit(«km_named(s, R, V)»)»)
m4_define(«_km_query», «_km_digit(«km_named(a_$1, I, R)»)»)
m4_define(«_km_score_word», «m4_dnl
km_if(_km_has_pieces, «», «km_times(«V», km_vectors, «            vi km_named(k_$1, V) = _km_key_word($1, V);
»)»)km_times(«I», km_pieces_of_word, «m4_dnl
km_times(«V», km_vectors, «            km_sum_type km_named(b_$1, I, V) = _km_piece_of_word($1, I, V);
»)km_times(«R», km_tile, «_km_each_digit(«m4_dnl
            km_sum_type _km_query($1) = km_query_piece(«r + R», «(k + $1) * km_pieces_of_word + I», «D»);
km_times(«V», km_vectors, «            km_add(«_km_sum_of_digit», «_km_query($1)», «km_named(b_$1, I, V)»);
»)»)»)»)»)
m4_dnl A step of the loop is km_piece_words words in straight-line code, and prefetches its share.
m4_define(«km_piece_words», «km_if(km_at_once, 4,
    «km_if(km_group_of(«key») % 16 == 0, «m4_eval(16 / km_key_word_dims)», 1)»)»)
m4_define(«_km_strip_positions», «m4_eval(km_vectors * km_lanes)»)
m4_define(«km_pieces_of_strip», «m4_eval(km_key_dim / km_key_word_dims / km_piece_words)»)
m4_define(«km_score_turned», «m4_dnl
/* Scores of a tile for a strip of positions from t on: for each group of dims, query times code, word by word; then the
   group's sum times its scale.  */
km_inline(«void», «score_strip(struct work *w, int64_t r, int64_t t)»)
{
    vf score[TILE][km_vectors] = {{{0}}};
km_if(km_at_once, «_km_find_keys«»m4_dnl
    vf x[4];
km_fetch_inner(«key», «t», «LANES»)»)m4_dnl
km_if(km_in_tiles(km_key), «km_times(«V», km_vectors, «m4_dnl
    const unsigned char *km_named(words, V) = words_at(w, t + km_vector(V));
»)km_if(km_one_tile, «km_fetch_inner(«key», «t», «m4_eval(km_vectors * km_lanes)»)»)»)m4_dnl
km_unroll_keys    for (int g = 0; g < km_key_groups; g++) {
_km_each_sum(«_km_each_digit(«        km_sum_type _km_sum_of_digit = km_first(«r + R», «D»);
»)»)m4_dnl
km_unroll_keys        for (int64_t k = g * km_group_words; k < (g + 1) * km_group_words; k += km_piece_words) {
km_if(km_one_tile, «m4_dnl
km_fetch_step(«key», «t / _km_strip_positions * km_pieces_of_strip + k / km_piece_words»,
    m4_eval(km_block / _km_strip_positions * km_pieces_of_strip))»)m4_dnl
km_if(km_at_once, «            turn(row, km_word_at(«k»), x);
»)m4_dnl
km_times(«W», km_piece_words, «_km_score_word(W)»)m4_dnl
        }
_km_each_sum(«        score[R][V] += km_sum(«km_named(s, R, V)») * load_f32(w->key_scale[g] + t + km_vector(V));
»)m4_dnl
    }
_km_each_sum(«    store_f32(w->score[r + R] + t + km_vector(V), score[R][V]km_unit);
»)}

km_score_strips(km_vectors)»)
m4_divert(0)m4_dnl
