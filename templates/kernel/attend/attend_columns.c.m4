m4_divert(-1)
m4_dnl attend_columns -- scores in float32, with positions in the lanes.  Keys are converted and transposed once per
m4_dnl block, for all query rows: for many query rows.

m4_define(«km_query_and_key», «    float query[ROWS][KEY_PADDED];
    float key[KEY_PADDED][BLOCK];
km_if(km_part(«is_transposed», km_key), «    const unsigned char *keys; /* row 0 */
»)»)

m4_define(«km_set_query», «km_set_query_in_turn»)

m4_dnl _km_columns(DIM, COUNT) -- transposes COUNT elements of LANES keys, from DIM on.
m4_define(«_km_columns», «km_times(«I», km_lanes, «            x[I] = km_load(«key», «row[I]», «t + I», «$1», $2);
»)m4_dnl
            transpose(x);
km_times(«I», km_lanes, «            store_f32(w->key[$1 + I] + t, x[I]);
»)»)

m4_define(«km_load_keys», «km_if(km_part(«is_transposed», km_key), «_km_load_transposed», «_km_load_in_turn»)»)
m4_define(«_km_load_in_turn», «km_load_scales(«key»)
km_inline(«void», «load_keys(struct work *w, int64_t n)»)
{
km_if(km_scales(«key») > 0, «    load_key_scales(w, n);
»)m4_dnl
    for (int64_t t = 0; t < n; t += LANES) {
        const unsigned char *row[LANES];
        for (int i = 0; i < LANES; i++)
            row[i] = km_row(«key», «t + i»);
        vf x[LANES];
km_fetch_inner(«key», «t», «LANES»)km_fetch_step(«key», «t / LANES», m4_eval(km_block / km_lanes))m4_dnl
        for (int d = 0; d < km_key_whole; d += LANES) {
_km_columns(«d», km_lanes)m4_dnl
        }
km_if(km_key_whole < km_key_dim, «_km_columns(«km_key_whole», m4_eval(km_key_dim - km_key_whole))»)m4_dnl
    }
}
»)

m4_dnl Transposed pages.  find_rows treats their rows as if they were one after the other.  The address of such a row
m4_dnl gives its place in a page, and prefetching by rows fetches all lines of the page.
m4_define(«_km_key_size», «km_size(km_key)»)
m4_define(«_km_dim_step», «km_step_of_page(km_key, km_key_quant_group)»)
m4_define(«_km_load_transposed», «m4_dnl
/* Where element 0 of a key is; its other elements follow in equal steps.  */
km_inline(«const unsigned char *», «column_at(const struct work *w, int64_t t)»)
{
    const int64_t row = (km_row(«key», «t») - w->keys) / m4_eval(km_key_dim * _km_key_size);
    return km_row_of_page(km_key, «w->keys», «m4_eval(km_key_dim * _km_key_size)», «row», «km_key_quant_group»);
}

km_if(km_key_quant_group >= km_lanes, «m4_dnl
/* Whether LANES keys are adjacent in a page.  */
km_inline(«int», «is_in_page(const struct work *w, int64_t t, const unsigned char *first)»)
{
    const struct run *run = &w->key_run[t / RUN];
    return run->step == w->key_step[0] && km_if(km_lanes > 8, «run[1].step == run->step &&
        »)m4_dnl
column_at(w, t + LANES - 1) == first + m4_eval((km_lanes - 1) * _km_key_size);
}

»)m4_dnl
/* Copy the elements of LANES keys, one by one.  */
km_inline(«void», «copy_columns(const struct work *w, int64_t t, m4_dnl
unsigned char (*copy)[m4_eval(km_lanes * _km_key_size)])»)
{
    for (int64_t i = 0; i < LANES; i++) {
        const unsigned char *column = column_at(w, t + i);
        for (int d = 0; d < KEY_DIM; d++)
            memcpy(copy[d] + i * _km_key_size, column + d * _km_dim_step, _km_key_size);
    }
}

km_inline(«void», «load_keys(struct work *w, int64_t n)»)
{
    for (int64_t t = 0; t < n; t += LANES) {
        unsigned char copy[KEY_DIM][m4_eval(km_lanes * _km_key_size)];
km_if(km_key_quant_group >= km_lanes, «        const unsigned char *from = column_at(w, t);
        int64_t step = _km_dim_step;
», «        const unsigned char *from = copy[0];
        const int64_t step = sizeof copy[0];
»)m4_dnl
km_fetch_inner(«key», «t», «LANES»)km_fetch_step(«key», «t / LANES», m4_eval(km_block / km_lanes))m4_dnl
km_if(km_key_quant_group >= km_lanes, «        if (!is_in_page(w, t, from)) {
            copy_columns(w, t, copy);
            from = copy[0];
            step = sizeof copy[0];
        }
», «        copy_columns(w, t, copy);
»)m4_dnl
        for (int d = 0; d < KEY_DIM; d++, from += step)
            store_f32(w->key[d] + t, km_typed(«load», km_part(«codes», km_key))(from));
    }
}
»)

m4_dnl Strips of km_strip vectors, then half as many, down to one, because rows near the diagonal see only part of a
m4_dnl block.
m4_define(«_km_score_strip», «km_product(«score_strip_$1», «struct work *w, int64_t r, int64_t t», $1,
    «about», «Scores of a tile for $1 vectors of positions from t on: add query times key, dim by dim.»,
    «begin», «broadcast(0.f)»,
    «steps», «KEY_DIM»,
    «unroll», «km_unroll_keys»,
    «left», «broadcast(w->query[r + R][k])»,
    «right», «load_f32(w->key[k] + t + km_vector(V))»,
    «end», «store_f32(w->score[r + R] + t + km_vector(V), km_named(s, R, V))»)
»)
m4_define(«_km_score_from», «    for (; t + m4_eval(($1 - 1) * km_lanes) < n; t += m4_eval($1 * km_lanes))
        score_strip_$1(w, r, t);
»)
m4_define(«km_score», «km_halving(km_strip, «_km_score_strip»)m4_dnl
km_inline(«void», «score(struct work *w, int64_t r, int64_t n)»)
{
    int64_t t = 0;
km_halving(km_strip, «_km_score_from»)m4_dnl
}
»)
m4_divert(0)m4_dnl
km_head(«Attend: scores and sums in float32, positions in the lanes.», km_headers)
km_attend«»m4_dnl
