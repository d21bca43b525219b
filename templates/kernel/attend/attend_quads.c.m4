m4_divert(-1)
m4_dnl attend_quads -- scores in float32, with query rows in the lanes: each quad has four dims of one row.  They are
m4_dnl multiplied with four dims of a key, which are repeated in all quads.  For few query rows, where rearranging the
m4_dnl keys would cost more than their products.

m4_define(«km_row_vectors», «m4_eval(km_padded_rows * 4 / km_lanes)»)
m4_dnl A key that needs no conversion is used where it is.
m4_define(«km_key_direct», «m4_ifelse(km_key, «f32», «m4_eval(km_key_dim % 4 == 0)», 0)»)
m4_dnl If their number divides the number of quads, lines OUTER ahead are fetched one at a time between steps.
m4_define(«km_line_steps», «km_if(km_quad_dims % km_lines(«key») == 0, km_lines(«key»), 1)»)
m4_define(«km_quad_dims», «m4_eval((km_key_dim + 3) / 4)»)

m4_define(«km_query_and_key», «    float query[km_row_vectors][KEY_PADDED / 4][LANES];
km_if(km_key_direct, «», «    float key[km_positions][KEY_PADDED];
»)»)

m4_define(«km_set_query», «km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    for (int d = 0; d < KEY_PADDED / 4; d++)
        memcpy(&w->query[r / QUADS][d][r % QUADS * 4], x + 4 * d, 4 * sizeof *x);
}
»)

m4_define(«_km_quad_at», «km_if(km_key_direct, «(const float *)»)_km_key_at($1)»)
m4_define(«_km_key_at», «km_if(km_key_direct, «km_named(key, $1)», «key + $1 * KEY_PADDED»)»)
m4_dnl _km_sums_of_four(T, V) -- the scores of positions T to T + 3, for the rows of vector V.
m4_define(«_km_sums_of_four», «sum_quads(km_named(s, $1, $2), km_named(s, m4_eval($1 + 1), $2),
    km_named(s, m4_eval($1 + 2), $2), km_named(s, m4_eval($1 + 3), $2))»)

m4_define(«km_score», «km_load_scales(«key»)
/* Scores of all query rows for some positions from t on: query times key, four dims at a time.  */
km_inline(«void», «score_positions(struct work *w, int64_t t)»)
{
km_if(km_key_direct, «», «    for (int64_t i = 0; i < km_positions; i++) {
        const unsigned char *row = km_row(«key», «t + i»);
km_fetch_inner(«key», «t + i», 1)m4_dnl
km_each(«D», 0, m4_eval(km_key_dim - 1), km_lanes, «m4_dnl
        store_f32(w->key[i] + D, km_load(«key», «row», «t + i», D, m4_eval(km_key_dim - D)));
»)m4_dnl
    }
»)m4_dnl
km_times(«T», km_positions, «km_times(«V», km_row_vectors, «    vf km_named(s, T, V) = broadcast(0.f);
»)»)m4_dnl
km_if(km_key_direct, «km_each(«Q», 0, m4_eval(km_positions - 1), 4, «km_rows_of_keys(«key», Q, 4)»)», «m4_dnl
    const float *key = w->key[0];
»)m4_dnl
    const float *query = &w->query[0][0][0];
km_unroll_keys    for (int line = 0; line < km_line_steps; line++) {
km_fetch_step(«key», «t / km_positions * km_line_steps + line», m4_eval(km_block / km_positions * km_line_steps))m4_dnl
km_unroll_keys        for (int d = 0; d < m4_eval(km_quad_dims / km_line_steps); d++) {
km_times(«V», km_row_vectors, «            vf km_named(q, V) = load_f32(query + V * KEY_PADDED * QUADS);
»)km_times(«T», km_positions, «            vf km_named(k, T) = load_quad(_km_quad_at(T));
km_times(«V», km_row_vectors, «            km_named(s, T, V) += km_named(q, V) * km_named(k, T);
»)»)            query += LANES;
km_if(km_key_direct, «km_times(«T», km_positions, «            km_named(key, T) += 16;
»)», «            key += 4;
»)m4_dnl
        }
    }
km_each(«T», 0, m4_eval(km_positions - 1), 4, «km_times(«V», km_row_vectors, «m4_dnl
    store_quads(w->score[V * QUADS] + t + T, BLOCK, _km_sums_of_four(T, V));
»)»)}

km_inline(«void», «score(struct work *w, int64_t r, int64_t n)»)
{
    (void)r;
km_if(km_scales(«key») > 0, «    load_key_scales(w, n);
»)m4_dnl
    for (int64_t t = 0; t < n; t += km_positions)
        score_positions(w, t);
}
»)
m4_divert(0)m4_dnl
km_head(«Attend: scores and sums in float32, query rows in the lanes.», km_headers)
km_attend«»m4_dnl
