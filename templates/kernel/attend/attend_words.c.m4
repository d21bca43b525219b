m4_divert(-1)
m4_dnl attend_words -- keys as codes with positions in the lanes, a word of 32 bits of each; the codes of a word become
m4_dnl floats where they are multiplied.  A scale is multiplied with what a group adds to the scores of a vector of positions.

m4_define(«km_key_by_codes», 1)
m4_define(«km_key_word_dims», «km_word_dims(km_key)»)
m4_define(«km_key_groups», «km_scales(«key»)»)
m4_define(«km_group_words», «m4_eval(km_group_of(«key») / km_key_word_dims)»)

m4_define(«km_query_and_key», «    int32_t key[KEY_DIM / km_key_word_dims][BLOCK];
    float query[ROWS][KEY_DIM]; /* in the order of codes */
»)

m4_dnl km_element_of(I) -- the element that is code I of the row, counted by words, then by bits.
m4_define(«km_element_of», «km_if(km_part(«in_turn», km_key), «$1», «$1 / 32 * 32 + $1 % 32 / 8 * 4 + $1 % 8 / 2 + $1 % 2 * 16»)»)

m4_define(«km_set_query», «km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    for (int i = 0; i < KEY_DIM; i++)
        w->query[r][i] = x[km_element_of(«i»)];
}
»)

m4_dnl Codes in two's complement: those with an offset have another highest bit.
m4_define(«km_key_flip», «km_if(km_part(«is_signed», km_key), «», « ^ km_nibble_flip»)»)
m4_define(«km_nibble_flip», «(int32_t)0x88888888»)

m4_define(«km_load_keys», «km_load_scales(«key»)
/* Four words from byte `from` on of LANES rows, with positions in the lanes.  */
km_inline(«void», «load_columns(const unsigned char *const *row, int64_t from, int32_t (*to)[BLOCK], int64_t t)»)
{
    vf x[4];
    for (int i = 0; i < 4; i++)
        x[i] = load_quads(row[i] + from, row[(i + 4) % LANES] + from, row[(i + 8) % LANES] + from, row[(i + 12) % LANES] + from);
    transpose_quads(x);
    for (int i = 0; i < 4; i++)
        store_f32(&to[i][t], x[i]);
}

km_inline(«void», «load_keys(struct work *w, int64_t n)»)
{
    load_key_scales(w, n);
    for (int64_t t = 0; t < n; t += LANES) {
        const unsigned char *row[LANES]; /* stores of words do not change these */
        memcpy(row, w->key_row + t, sizeof row);
km_fetch_near(«key», «t», «LANES»)km_if(km_one_tile, «», «km_fetch(«key», «t», «LANES»)»)m4_dnl
km_each(«K», 0, m4_eval(km_key_dim / km_key_word_dims - 1), 4, «        load_columns(row, km_word_at(km_key, K), w->key + K, t);
»)m4_dnl
    }
}
»)

m4_dnl km_word_at(T, WORD) -- bytes of a row before a word of codes.
m4_define(«km_word_at», «km_if(km_part(«block», $1), «m4_eval(($2) * km_word_dims($1) / km_part(«block», $1) * km_part(«block_bytes», $1) + km_part(«codes_at», $1) + ($2) * km_word_dims($1) % km_part(«block», $1) * km_part(«bits», $1) / 8)», «m4_eval(($2) * 4)»)»)

m4_dnl _km_code(WORDS, I) -- code I of each word as a float.
m4_define(«_km_code», «__builtin_convertvector(m4_ifelse(m4_eval(($2 + 1) * km_part(«bits», km_key)), 32, «$1», «($1 << m4_eval(32 - ($2 + 1) * km_part(«bits», km_key)))») >> m4_eval(32 - km_part(«bits», km_key)), vf)»)

m4_dnl _km_each_sum(BODY) -- for every row R, vector V of the tile.
m4_define(«_km_each_sum», «km_each(«R», 0, m4_eval(km_tile - 1), 1, «km_each(«V», 0, m4_eval(km_words - 1), 1, «$1»)»)»)
m4_define(«_km_score_word», «m4_dnl
km_each(«V», 0, m4_eval(km_words - 1), 1, «            vi k_$1_«»V = load_words(&w->key[k + $1][t + m4_eval(V * km_lanes)])km_key_flip;
»)km_each(«I», 0, m4_eval(km_key_word_dims - 1), 1, «m4_dnl
km_each(«V», 0, m4_eval(km_words - 1), 1, «            vf b_$1_«»I«»_«»V = _km_code(«k_$1_«»V», I);
»)km_each(«R», 0, m4_eval(km_tile - 1), 1, «            vf a_$1_«»I«»_«»R = broadcast(w->query[r + R][(k + $1) * km_key_word_dims + I]);
km_each(«V», 0, m4_eval(km_words - 1), 1, «            s_«»R«»_«»V += a_$1_«»I«»_«»R * b_$1_«»I«»_«»V;
»)»)»)»)
m4_dnl A piece is straight-line code; each fetches some of the rows AHEAD of those that a strip scores.
m4_define(«km_piece_words», «km_if(km_group_of(«key») % 16 == 0, «m4_eval(16 / km_key_word_dims)», 1)»)
m4_define(«km_piece_rows», «m4_eval((km_words * km_lanes * km_piece_words * km_key_word_dims + km_key_dim - 1) / km_key_dim)»)
m4_define(«km_score», «km_inline(«void», «score_strip(struct work *w, int64_t r, int64_t t)»)
{
    vf total[TILE][km_words] = {{{0}}};
    for (int g = 0; g < km_key_groups; g++) {
_km_each_sum(«        vf s_«»R«»_«»V = {0};
»)m4_dnl
        for (int64_t k = g * km_group_words; k < (g + 1) * km_group_words; k += km_piece_words) {
km_if(km_one_tile, «km_fetch(«key», «t + k / km_piece_words * km_piece_rows», km_piece_rows)»)m4_dnl
km_each(«W», 0, m4_eval(km_piece_words - 1), 1, «_km_score_word(W)»)m4_dnl
        }
_km_each_sum(«        total[R][V] += s_«»R«»_«»V * load_f32(w->key_scale[g] + t + m4_eval(V * km_lanes));
»)m4_dnl
    }
_km_each_sum(«    store_f32(w->score[r + R] + t + m4_eval(V * km_lanes), total[R][V]);
»)}

km_inline(«void», «score(struct work *w, int64_t r, int64_t n)»)
{
    for (int64_t t = 0; t < n; t += m4_eval(km_words * km_lanes))
        score_strip(w, r, t);
}
»)
m4_divert(0)m4_dnl
km_head(«Attend: scores in float32 from integer codes, positions in the lanes.», km_headers)
km_attend«»m4_dnl
