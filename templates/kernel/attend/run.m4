m4_divert(-1)
m4_dnl run.m4 -- the run function: begin, then block by block, then end.
m4_dnl km_begin -- defines load_query, which converts a query to float32, times all factors of scores, and begin, which
m4_dnl clears the sums and stores the queries.
m4_define(«km_begin», «km_inline(«void», «load_query(const struct kvmill_attend *p, int64_t r, float *x)»)
{
    vf factor = broadcast(p->scale * log2_e);
    const unsigned char *query = p->row[r].query;
    for (int d = 0; d < km_key_whole; d += LANES)
        store_f32(x + d, km_typed(«load», km_activation)(query + d * km_size(km_activation)) * factor);
km_if(km_key_whole < km_key_dim, «    store_f32(x + km_key_whole,
        km_typed(«load_some», km_activation)(query + m4_eval(km_key_whole * km_size(km_activation)),
            m4_eval(km_key_dim - km_key_whole)) * factor);
»)m4_dnl
}

km_inline(«void», «begin(const struct kvmill_attend *p, struct work *w)»)
{
km_if(km_single_tile, «    memset(w->query, 0, sizeof w->query);
    memset(w->acc, 0, sizeof w->acc);
», «    const int64_t rows = (km_at_p(«rows») + TILE - 1) / TILE * TILE;
    memset(w->query, 0, rows * sizeof *w->query);
    memset(w->acc, 0, rows * sizeof *w->acc);
»)m4_ifdef(«km_set_digits», «    memset(w->wide, 0, sizeof w->wide);
»)m4_dnl
    for (int64_t r = 0; r < ALL_ROWS; r++) {
        w->rescale[r] = 1.f;
        w->sum[r] = 0.f;
        w->max[r] = -__builtin_inff();
    }
    for (int64_t r = 0; r < km_at_p(«rows»); r++) {
        float x[KEY_PADDED];
        load_query(p, r, x);
        set_query(w, r, x);
        if (p->row[r].sink > -__builtin_inff()) {
            w->max[r] = p->row[r].sink * log2_e;
            w->sum[r] = 1.f;
        }
    }
}
»)

m4_dnl km_end -- defines end, which writes outputs or partial results.
m4_define(«km_end», «km_inline(«void», «end(const struct kvmill_attend *p, struct work *w)»)
{
    enum { WHOLE = VALUE_DIM / LANES * LANES };
    for (int64_t r = 0; r < km_at_p(«rows»); r++) {
        int seen = w->max[r] > -__builtin_inff() || w->sum[r] != w->sum[r];
km_if(km_values(«has_order»), «        set_order(w->acc[r]);
»)m4_dnl
        vf factor = broadcast(p->partial != NULL ? 1.f : seen ? 1.f / w->sum[r] : 0.f);
        vf empty = broadcast(seen || p->partial != NULL ? 0.f : p->empty);
        if (p->partial != NULL) {
            float *to = p->partial + r * (2 + VALUE_DIM);
            to[0] = w->max[r] * ln_2;
            to[1] = w->sum[r];
            memcpy(to + 2, w->acc[r], VALUE_DIM * sizeof *to);
            continue;
        }
        unsigned char *to = p->row[r].output;
        for (int d = 0; d < WHOLE; d += LANES)
            km_typed(«store», km_activation)(to + d * km_size(km_activation), load_f32(w->acc[r] + d) * factor + empty);
km_if(km_value_dim % km_lanes, «        km_typed(«store_some», km_activation)(to + WHOLE * km_size(km_activation),
            load_f32(w->acc[r] + WHOLE) * factor + empty, VALUE_DIM - WHOLE);
»)m4_dnl
    }
}
»)

m4_dnl km_attend_run -- defines km_run.
m4_define(«km_attend_run», «m4_dnl
/* How many of the n positions from `from` on a tile needs: up to the last one that one of its rows sees, or 0.  */
km_inline(«int64_t», «seen_by(const struct kvmill_attend *p, int64_t r, int64_t from, int64_t n)»)
{
    int64_t first = INT64_MAX, last = 0;
    for (int64_t i = r; i < smaller(r + TILE, km_at_p(«rows»)); i++) {
        first = smaller(first, p->row[i].first);
        last = last > p->row[i].last ? last : p->row[i].last;
    }
    return first >= from + n || last <= from ? 0 : smaller(n, last - from);
}

/* The n positions of a block, from `at` on: find and load keys and values, then scores, softmax, and weights times
   values, for all query rows.  */
km_inline(«void», «attend_block(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    find_rows(p, w, at, n);
    w->has_lost = km_if(km_value_units, 0, «w->hides = 0»);
m4_ifdef(«km_load_keys», «    load_keys(w, n);
»)m4_dnl
km_if(km_loads_values, «    load_values(w, n);
»)m4_dnl
    /* Score: query times key, a tile of TILE query rows at a time.  */
    for (int64_t r = 0; r < km_at_p(«rows»); r += TILE) {
        int64_t seen = seen_by(p, r, p->first + at, n);
        for (int64_t i = r; i < r + TILE; i++)
            w->seen[i] = seen;
        if (seen > 0)
            score(w, r, seen);
m4_ifdef(«km_set_digits», «        if (seen > 0 && w->wide[r / TILE])
            score_parts(p, w, r, seen);
»)m4_dnl
    }
    /* Softmax: scores become weights; SOFTMAX_ROWS query rows at a time.  */
    for (int64_t r = 0; r < km_at_p(«rows»); r += SOFTMAX_ROWS)
        softmax(p, w, r, p->first + at);
km_if(km_value_units, «», «    if (w->hides)
        set_aside(p, w, n);
»)m4_dnl
    /* Accumulate: weight times value is added to the sums of a tile.  */
    for (int64_t r = 0; r < km_at_p(«rows»); r += TILE)
        if (w->seen[r] > 0)
            accumulate(w, r, w->seen[r]);
    if (w->has_lost)
        add_lost(p, w, p->first + at, n);
}

/* Attend to the positions of one kv head, BLOCK at a time, for all query rows that share it.  If several calls share
   this work, the first one begins and the last one ends.  */
km_run_function
{
    const struct kvmill_attend *p = problem;
    struct work *w = p->workspace;
    (void)first;
    (void)last;
    if (p->begin)
        begin(p, w);
    /* The loop nest: blocks of positions; in attend_block() tiles of query rows; for each tile, positions and dims in
       score(), then dims and positions in accumulate().  */
    for (int64_t at = km_first_block; at < p->count; at += BLOCK)
        attend_block(p, w, at, smaller(BLOCK, p->count - at));
    if (p->end)
        end(p, w);
}
»)
m4_divert(0)m4_dnl
