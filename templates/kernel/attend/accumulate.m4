m4_divert(-1)
m4_dnl accumulate.m4 -- the weighted values of a block are added to the sums.
m4_dnl km_accumulate -- defines accumulate: add the weighted values to the sums of a tile of rows.
m4_define(«km_right», «km_if(km_direct, «km_load(«value», «w->value_row[k]», «k», «v + m4_eval(V * km_lanes)», km_lanes)», «load_f32(w->value[k] + v + m4_eval(V * km_lanes))»)»)
m4_define(«km_accumulate_strip», «km_product(«accumulate_strip_$1», «struct work *w, int64_t r, int64_t v, int64_t n», $1, «broadcast(w->grow[r + R]) * load_f32(w->sum[r + R] + v + m4_eval(V * km_lanes))»,
  «n», «broadcast(w->score[r + R][k])», «km_right», «store_f32(w->sum[r + R] + v + m4_eval(V * km_lanes), s_«»R«»_«»V)»,
  «km_if(km_direct, «km_fetch_strip($1)»)»)»)
m4_dnl Each strip fetches its share of a row.
m4_define(«_km_share», «m4_eval((km_lines(«$1») * $2 + km_value_vectors - 1) / km_value_vectors)»)
m4_define(«_km_share_at», «v / LANES * km_lines(«$1») / km_value_vectors * 64»)
m4_define(«km_fetch_strip», «km_fetch_near(«value», «k», «_km_share_at(«value»)», «_km_share(«value», $1)»)km_fetch(«accumulate», «v / LANES * BLOCK / $1 + k», m4_eval(km_value_vectors * km_block / $1))»)
m4_define(«km_rest», «m4_eval(km_value_vectors % km_strip)»)
m4_define(«km_accumulate», «km_if(km_value_vectors >= km_strip, «km_accumulate_strip(km_strip)
»)km_if(km_rest > 0, «km_accumulate_strip(km_rest)
»)km_inline(«void», «accumulate(struct work *w, int64_t r, int64_t n)»)
{
km_if(km_value_vectors >= km_strip, «    for (int64_t v = 0; v < m4_eval(km_value_vectors / km_strip * km_strip * km_lanes); v += STRIP)
        accumulate_strip_«»km_strip«»(w, r, v, n);
»)km_if(km_rest > 0, «    accumulate_strip_«»km_rest«»(w, r, m4_eval((km_value_vectors - km_rest) * km_lanes), n);
»)}
»)
m4_divert(0)m4_dnl
