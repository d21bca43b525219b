m4_dnl score_pages_heads -- many heads of a query and blocks of keys, as in a matrix product; a key is a row of a page.
m4_dnl A tile of heads stays in the first-level cache for a block of keys.  Products are blocked in registers, heads by
m4_dnl keys.  The sixteen lanes of a sum are computed one vector after another.  Scores have keys in their lanes, and
m4_dnl heads are folded one by one.
m4_define(«_km_any», «m4_eval(m4_ifelse(km_kind, «$1», 1, km_kind, «indexer», 1, 0))»)m4_dnl
m4_dnl The folds over heads, and over the keys of a page; 0 if there is none.
m4_define(«km_by_heads», «km_if(km_over1 == 1, km_by1, 0)»)m4_dnl
m4_define(«km_by_keys», «km_if(km_over1 == 2, km_by1, km_by2)»)m4_dnl
m4_dnl km_summed -- elements of a key in whole sums of 16; km_whole -- in whole vectors; km_room -- rounded up to
m4_dnl vectors.
m4_define(«km_summed», «m4_eval(km_dim / 16 * 16)»)m4_dnl
m4_define(«km_whole», «m4_eval(km_dim / km_lanes * km_lanes)»)m4_dnl
m4_define(«km_room», «m4_eval((km_dim + km_lanes - 1) / km_lanes * km_lanes)»)m4_dnl
m4_define(«_km_key_codes», «km_codes_of(km_element, «row», «$1», $2)»)m4_dnl
m4_dnl
m4_dnl ---- Sums of HEADS heads and km_keys keys ----
m4_dnl
m4_define(«_km_each_key_sum», «km_each(«H», 0, $1 - 1, 1, «km_each(«K», 0, km_keys - 1, 1, «$2»)»)»)m4_dnl
m4_define(«_km_of_query», «km_if($3 < km_lanes, «load_some_f32(query«»_km_plus($1 * km_dim) + $2, $3)»,
    «load_f32(query«»_km_plus($1 * km_dim) + $2)»)»)m4_dnl
m4_dnl _km_add_products(HEADS, DIM, COUNT) -- add COUNT elements, at most a vector, to the sums of a strip.
m4_define(«_km_add_products»,
    «km_each(«K», 0, km_keys - 1, 1, «            vf k_«»K = load_f32(key«»_km_plus(K * km_room) + $2);
»)km_each(«H», 0, $1 - 1, 1, «            vf q_«»H = held(_km_of_query(H, «$2», $3));
km_each(«K», 0, km_keys - 1, 1, «            s_«»H«»_«»K += multiply(q_«»H, k_«»K);
»)»)»)m4_dnl
m4_define(«_km_add_strip», «        {
_km_each_key_sum($1, «            vf s_«»H«»_«»K = broadcast(0.f);
»)km_if(km_summed > 0, «            for (int i = m4_eval(V * km_lanes); i < km_summed; i += 16) {
_km_indented(«_km_add_products($1, «i», km_lanes)»)            }
»)km_if(km_summed + V * km_lanes < km_dim, «            {
_km_indented(«_km_add_products($1, m4_eval(km_summed + V * km_lanes),
    m4_eval(km_dim - km_summed - V * km_lanes))»)            }
»)_km_each_key_sum($1, «            sums[V][H][lane«»_km_plus(K)] = s_«»H«»_«»K;
»)        }
»)m4_dnl
m4_define(«_km_indented», «m4_patsubst(«$1», «^            », «                »)»)m4_dnl
m4_define(«_km_strip», «sums[$1][h][lane]»)m4_dnl
m4_dnl Add the vectors of a sum, that is, lanes that are whole vectors apart.
m4_define(«_km_all_strips», «m4_ifelse(km_strips, 4,
    «(_km_strip(0) + _km_strip(2)) + (_km_strip(1) + _km_strip(3))», km_strips, 2, «_km_strip(0) + _km_strip(1)»,
    «_km_strip(0)»)»)m4_dnl
m4_define(«_km_add_heads», «/* The scores of $1 heads for LANES keys.  */
km_inline(«void»,
    «add_«»$1«»_heads(const struct kvmill_score_pages *p, int head, const float (*keys)[ROOM], vf *folded)»)
{
    const float *query = p->query + head * DIM;
    vf sums[km_strips][$1][LANES], x[LANES];
    for (int lane = 0; lane < LANES; lane += KEYS) {
        const float *key = keys[lane];
km_each(«V», 0, km_strips - 1, 1, «_km_add_strip($1)»)    }
    for (int h = 0; h < $1; h++) {
        for (int lane = 0; lane < LANES; lane++)
            x[lane] = _km_all_strips;
        fold_head(p, head + h, sum_lanes(x), folded);
    }
}

»)m4_dnl
m4_define(«km_heads_left», «m4_eval(km_query_heads % km_tile)»)m4_dnl
km_head(«Score pages for the heads of an indexer.», km_headers)
enum {
    DIM = km_dim,
    ROOM = km_room, /* floats of a key */
    HEADS = km_query_heads,
    TILE = km_tile,           /* heads ... */
    KEYS = km_keys,           /* ... by keys, whose sums are in registers */
    BLOCK = km_block,         /* keys that are scored for all heads before the next */
    PAGE_KEYS = km_page_blocks,
    FOLDED = m4_ifelse(km_by_heads, 0, 1, km_by_heads, 1, 1, 16), /* vectors that the scores of heads are folded to */
km_if(km_ahead, «    AHEAD = km_ahead, /* keys that are brought into the first cache */
»)m4_dnl
};

/* Where key n is, counted over the problem's pages.  */
km_inline(«const unsigned char *», «key_at(const struct kvmill_score_pages *p, int64_t n)»)
{
    return p->field[0] + p->ids[n / PAGE_KEYS] * p->stride + n % PAGE_KEYS * km_element_bytes(km_dim);
}

/* Load key n as floats.  */
km_inline(«void», «load_key(const struct kvmill_score_pages *p, int64_t n, float *key)»)
{
    const unsigned char *row = key_at(p, n);
km_if(km_ahead, «    int64_t last = p->pages * PAGE_KEYS - 1;
    const unsigned char *ahead = key_at(p, n + AHEAD < last ? n + AHEAD : last);
    for (int i = 0; i < km_element_bytes(km_dim); i += 64)
        __builtin_prefetch(ahead + i, 0, 3);
»)km_if(km_whole > 0, «    for (int i = 0; i < km_whole; i += LANES)
        store_f32(key + i, _km_key_codes(«i», km_lanes));
»)km_if(km_whole < km_dim, «    store_f32(key«»_km_plus(km_whole), _km_key_codes(km_whole, m4_eval(km_dim - km_whole)));
»)}

/* Finish the scores of a head, and fold them.  */
km_inline(«void», «fold_head(const struct kvmill_score_pages *p, int head, vf score, vf *folded)»)
{
    (void)p;
km_if(_km_any(«positive»), «    score = max_f32(score, broadcast(0.f));
»)km_if(_km_any(«weighted»), «    score = multiply(score, broadcast(p->weight[head]));
»)m4_ifelse(km_by_heads, 0, «    folded[head] = score;
», km_by_heads, 1, «    folded[0] = head == 0 ? score : max_f32(score, folded[0]);
», «    folded[head % FOLDED] += score;
»)}

km_sum_lanes
_km_add_heads(km_tile)km_if(km_heads_left, «_km_add_heads(km_heads_left)»)m4_dnl
/* Compute the scores of the first `count` keys of a block.  */
km_inline(«void», «score_keys(const struct kvmill_score_pages *p, const float (*keys)[ROOM], int count, vf *scores)»)
{
    vf folded[BLOCK / LANES][FOLDED];
    for (int k = 0; k < BLOCK / LANES; k++)
        for (int i = 0; i < FOLDED; i++)
            folded[k][i] = broadcast(0.f);
    for (int head = 0; head + TILE <= HEADS; head += TILE)
        for (int k = 0; k * LANES < count; k++)
            add_«»km_tile«»_heads(p, head, keys + k * LANES, folded[k]);
km_if(km_heads_left, «    for (int k = 0; k * LANES < count; k++)
        add_«»km_heads_left«»_heads(p, HEADS - km_heads_left, keys + k * LANES, folded[k]);
»)    for (int k = 0; k * LANES < count; k++) {
km_if(km_by_heads > 1, «        for (int apart = FOLDED / 2; apart > 0; apart /= 2)
            for (int i = 0; i < apart; i++)
                folded[k][i] += folded[k][i + apart];
»)        scores[k] = folded[k][0]m4_ifelse(km_by_heads, 2, « / broadcast(km_query_heads.f)»);
    }
}

m4_dnl A sum begins with 0, a maximum with the first score.
m4_define(«_km_next_key», «m4_ifelse(km_by_keys, 1, «k == 0 || score[i] > *page ? score[i] : *page»,
    «(k == 0 ? 0 : *page) + score[i]»)»)m4_dnl
/* Store the scores of `count` keys from key n on, or fold those of each page to `page` and store that.  */
km_inline(«void»,
    «put_scores(const struct kvmill_score_pages *p, int64_t n, const float *score, int count, float *page)»)
{
km_if(km_by_keys, «    for (int i = 0; i < count; i++) {
        int64_t k = (n + i) % PAGE_KEYS;
        *page = _km_next_key;
        if (k == PAGE_KEYS - 1)
            p->score[(n + i) / PAGE_KEYS] = *page«»m4_ifelse(km_by_keys, 2, « / km_page_blocks.f»);
    }
», «    (void)page;
    memcpy(p->score + n, score, (size_t)count * sizeof *score);
»)}

km_run_function
{
    const struct kvmill_score_pages *p = problem;
    float keys[BLOCK][ROOM] __attribute__((aligned(64))), score[BLOCK], page = 0;
    vf scores[BLOCK / LANES];
    int64_t end = last * PAGE_KEYS;
    /* The loop nest: blocks of keys; tiles of heads; LANES keys, of which KEYS at a time; the strips of the sums, and
       the elements of each.  */
    for (int64_t n = first * PAGE_KEYS; n < end; n += BLOCK) {
        int count = end - n < BLOCK ? (int)(end - n) : BLOCK;
        if (count < BLOCK)
            memset(keys, 0, sizeof keys);
        for (int i = 0; i < count; i++)
            load_key(p, n + i, keys[i]);
        score_keys(p, keys, count, scores);
        memcpy(score, scores, sizeof score);
        put_scores(p, n, score, count, &page);
    }
}

km_score_descriptor«»m4_dnl
