m4_divert(-1)
m4_dnl attend_dims -- scores in float32, with dims in the lanes: for few query rows, or long keys.  Each key is
m4_dnl multiplied where it is, without rearranging it.  The lanes of the sums are then added for LANES positions at a
m4_dnl time.

m4_define(«km_query_and_key», «    km_aligned float query[ROWS][KEY_PADDED];
»)
m4_define(«km_set_query», «km_set_query_in_turn»)

m4_dnl _km_products(DIM, COUNT) -- LANES dims from DIM on, of which COUNT exist: four keys times the rows of a group.
m4_define(«_km_products», «km_times(«R», km_group_rows, «m4_dnl
        vf km_named(q, R) = load_f32(w->query[r + R] + $1);
»)km_times(«T», 4, «        vf km_named(k, T) = km_load(«key», «km_named(key, T)», «t + T», «$1», $2);
km_times(«R», km_group_rows, «        km_named(s, R, T) += km_named(q, R) * km_named(k, T);
»)»)»)

m4_dnl With few rows, and lines that are whole vectors, keys are prefetched one line of each row at a time.
m4_define(«_km_line_dims», «m4_eval(km_key_dim / km_lines(«key»))»)
m4_define(«_km_by_lines», «(km_key_dim % (km_lines(«key») * km_lanes) == 0)»)

m4_define(«_km_key_by_lines», «km_unroll_keys    for (int d = 0; d < km_key_whole;) {
km_fetch_inner_line(«key», «t», 4, «d / _km_line_dims», «r == 0»)m4_dnl
km_fetch_step(«key», «t / 4 * km_lines(«key») + d / _km_line_dims», m4_eval(km_block / 4 * km_lines(«key»)),
    «r == 0»)m4_dnl
        for (int end = d + _km_line_dims; d < end; d += LANES) {
_km_products(«d», km_lanes)        }
    }
»)

m4_dnl With many rows, the first group of rows fetches all lines of its share at once, or each group does.
m4_define(«_km_groups», «m4_eval(km_padded_rows / km_group_rows)»)
m4_define(«_km_key_at_once», «km_fetch_inner(«key», «t», 4, «r == 0»)m4_dnl
km_if(km_all_rows_fetch,
    «km_fetch_step(«key», «r / km_group_rows * (BLOCK / 4) + t / 4», m4_eval(_km_groups * km_block / 4))»,
    «km_fetch_step(«key», «t / 4», m4_eval(km_block / 4), «r == 0»)»)m4_dnl
km_unroll_keys    for (int d = 0; d < km_key_whole; d += LANES) {
_km_products(«d», km_lanes)    }
»)

m4_dnl _km_joined(R, FIRST, COUNT) -- the sums of row R for COUNT quads of positions.
m4_define(«_km_joined», «km_if($3 == 1, «sums[$2][$1]», «m4_dnl
add_quads(_km_joined($1, $2, m4_eval($3 / 2)), _km_joined($1, m4_eval($2 + $3 / 2), m4_eval($3 / 2)))»)»)

m4_define(«km_score», «km_load_scales(«key»)
/* Query times key for some rows from r on and four positions from t on.  Each row gets a vector; its quads added
   together are the four scores.  */
km_inline(«void», «score_four(const struct work *w, int64_t r, int64_t t, vf sums[km_group_rows])»)
{
km_rows_of_keys(«key», 0, 4)m4_dnl
km_times(«R», km_group_rows, «km_times(«T», 4, «    vf km_named(s, R, T) = broadcast(0.f);
»)»)m4_dnl
km_if(_km_by_lines && km_few_rows, «_km_key_by_lines«»», «_km_key_at_once«»»)m4_dnl
km_if(km_key_whole < km_key_dim, «    {
_km_products(km_key_whole, m4_eval(km_key_dim - km_key_whole))    }
»)m4_dnl
km_times(«R», km_group_rows, «m4_dnl
    sums[R] = sum_quads(km_named(s, R, 0), km_named(s, R, 1), km_named(s, R, 2), km_named(s, R, 3));
»)}

km_inline(«void», «score(struct work *w, int64_t first, int64_t n)»)
{
    const int64_t end = km_if(km_single_tile, ROWS, «first + TILE»);
    vf sums[QUADS][km_group_rows];
km_if(km_scales(«key») > 0, «    load_key_scales(w, n);
»)m4_dnl
    for (int64_t t = 0; t < n; t += LANES)
        for (int64_t r = first; r < end; r += km_group_rows) {
            for (int64_t q = 0; q < QUADS; q++)
                score_four(w, r, t + 4 * q, sums[q]);
km_times(«R», km_group_rows, «            store_f32(w->score[r + R] + t, _km_joined(R, 0, m4_eval(km_lanes / 4)));
»)        }
}
»)
m4_divert(0)m4_dnl
km_head(«Attend: scores and sums in float32, dims in the lanes.», km_headers)
km_attend«»m4_dnl
