m4_divert(-1)
m4_dnl attend_octs -- float16 arithmetic on float16 keys and values: query rows in the lanes, eight dims of a row side by
m4_dnl side, times eight dims of a key repeated.  Sums of float16 stay short: a key's over an eighth of its dims, an
m4_dnl output's over a block; what they become is added in float32.

m4_define(«km_row_vectors», «m4_eval(km_padded_rows * 8 / km_halves_of_vector)»)
m4_define(«km_key_halves», «m4_eval((km_key_dim + km_halves_of_vector - 1) / km_halves_of_vector * km_halves_of_vector)»)
m4_define(«km_oct_dims», «m4_eval((km_key_dim + 7) / 8)»)
m4_define(«km_positions», «m4_eval(km_sums / km_row_vectors)»)

m4_define(«km_query_and_key», «    _Float16 query[km_row_vectors][km_oct_dims][HALVES];
    _Float16 key[km_positions][km_key_halves];
    _Float16 weight[ROWS][BLOCK];
»)

m4_define(«km_set_query», «km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    _Float16 half[KEY_PADDED];
    for (int d = 0; d < KEY_PADDED; d += LANES)
        store_f16(half + d, load(x + d));
    for (int d = 0; d < km_oct_dims; d++)
        memcpy(&w->query[r / OCTS][d][r % OCTS * 8], half + 8 * d, 8 * sizeof *half);
}
»)

m4_define(«km_score», «km_inline(«void», «score_positions(struct work *w, int64_t t)»)
{
    for (int64_t i = 0; i < km_positions; i++) {
        const unsigned char *row = w->key_row[t + i];
km_fetch_near(«key», «t + i», 0, km_lines(«key»))m4_dnl
km_fetch(«keys», «t + i», km_block)m4_dnl
km_each(«D», 0, m4_eval(km_key_dim - 1), km_halves_of_vector, «        store_halves(w->key[i] + D, load_halves(row + m4_eval(2 * D), km_if(km_key_dim - D < km_halves_of_vector, «m4_eval(km_key_dim - D)», km_halves_of_vector)));
»)m4_dnl
    }
km_each(«T», 0, m4_eval(km_positions - 1), 1, «km_each(«V», 0, m4_eval(km_row_vectors - 1), 1, «    vh s_«»T«»_«»V = {0};
»)»)m4_dnl
    const _Float16 *query = &w->query[0][0][0], *key = w->key[0];
    for (int d = 0; d < km_oct_dims; d++) {
km_fetch(«score», «t / km_positions * km_oct_dims + d», m4_eval(km_block / km_positions * km_oct_dims))m4_dnl
km_each(«V», 0, m4_eval(km_row_vectors - 1), 1, «        vh q_«»V = load_whole_halves(query + V * km_oct_dims * HALVES);
»)km_each(«T», 0, m4_eval(km_positions - 1), 1, «        vh k_«»T = repeat_halves(key + T * km_key_halves);
km_each(«V», 0, m4_eval(km_row_vectors - 1), 1, «        s_«»T«»_«»V += q_«»V * k_«»T;
»)»)        query += HALVES;
        key += 8;
    }
km_each(«T», 0, m4_eval(km_positions - 1), 4, «km_each(«V», 0, m4_eval(km_row_vectors - 1), 1, «    store_quads(w->score[V * QUADS] + t + T, BLOCK, sum_quads(sum_octs(s_«»T«»_«»V), sum_octs(s_«»m4_eval(T + 1)«»_«»V), sum_octs(s_«»m4_eval(T + 2)«»_«»V), sum_octs(s_«»m4_eval(T + 3)«»_«»V)));
»)»)}

km_inline(«void», «score(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t at, int64_t n)»)
{
    (void)p, (void)r, (void)at;
    for (int64_t t = 0; t < n; t += km_positions)
        score_positions(w, t);
}
»)

m4_dnl Vectors of a strip, and how many strips.
m4_define(«km_half_strip», «km_if(km_tile * km_half_vectors <= 20, «km_half_vectors», «km_if(km_half_vectors % 2 == 0 && km_tile * 2 <= 24, 2, 1)»)»)
m4_define(«_km_each_half_sum», «km_each(«R», 0, m4_eval(km_tile - 1), 1, «km_each(«V», 0, m4_eval(km_half_strip - 1), 1, «$1»)»)»)

m4_define(«km_gather», «km_inline(«void», «gather_strip(struct work *w, int v, int64_t n)»)
{
_km_each_half_sum(«    vh s_«»R«»_«»V = {0};
»)m4_dnl
    for (int64_t k = 0; k < n; k++) {
km_fetch(«gather», «v / m4_eval(km_half_strip * km_halves_of_vector) * BLOCK + k», m4_eval(km_half_vectors / km_half_strip * km_block))m4_dnl
        const unsigned char *row = w->value_row[k] + 2 * v;
        for (int i = 0; i < m4_eval(km_half_strip); i++)
            __builtin_prefetch(w->value_row[k + NEAR] + 2 * v + i * 64, 0, 3);
km_each(«V», 0, m4_eval(km_half_strip - 1), 1, «        vh b_«»V = load_whole_halves(row + m4_eval(V * km_halves_of_vector * 2));
»)km_each(«R», 0, m4_eval(km_tile - 1), 1, «        vh a_«»R = all_halves(w->weight[R][k]);
km_each(«V», 0, m4_eval(km_half_strip - 1), 1, «        s_«»R«»_«»V += a_«»R * b_«»V;
»)»)    }
_km_each_half_sum(«    add_halves(w->sum[R] + v + m4_eval(V * km_halves_of_vector), w->grow[R], s_«»R«»_«»V);
»)}

km_inline(«void», «gather(struct work *w, int64_t r, int64_t n)»)
{
    (void)r;
    for (int64_t i = 0; i < TILE; i++)
        for (int64_t t = 0; t < n; t += LANES)
            store_f16(w->weight[i] + t, load(w->score[i] + t));
    for (int v = 0; v < VALUE_DIM; v += m4_eval(km_half_strip * km_halves_of_vector))
        gather_strip(w, v, n);
}
»)
m4_divert(0)m4_dnl
km_head(«Attend: float16 arithmetic, query rows in the lanes.», km_headers)
km_attend«»m4_dnl
