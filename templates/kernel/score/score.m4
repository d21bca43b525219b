m4_divert(-1)
m4_dnl score.m4 -- shared by the kernels that score pages.
m4_dnl
m4_dnl A score is a sum with 16 lanes; at the end, lanes 8, 4, 2 and 1 apart are added.  This is done for LANES pages
m4_dnl together, so that the results have one page in each lane, and folds work on whole vectors.
km_check_tuning«»m4_dnl
km_need_all(«the definitions», «km_symbol», «km_kind», «km_element», «km_dim», «km_query_heads», «km_page_blocks»,
    «km_registers», «km_over1», «km_by1», «km_over2», «km_by2»)

m4_define(«km_is_bound», «m4_ifelse(km_kind, «bound», 1, 0)»)
m4_define(«km_scores», «m4_eval(km_query_heads * km_page_blocks)»)
m4_dnl km_strips -- the vectors of a sum.
m4_define(«km_strips», «m4_eval(16 / km_lanes)»)
m4_define(«km_element_bytes», «km_row_bytes_of(km_element, $1)»)
m4_dnl km_line_elements -- elements of a line of 64 bytes; km_lined -- elements of a row that are in whole lines.
m4_define(«km_line_elements», «m4_eval(64 / km_element_bytes(1))»)
m4_define(«km_lined», «m4_eval(km_dim / km_line_elements * km_line_elements)»)

m4_dnl km_score_number(H, B) -- the index of the score of head H and block B in a page.
m4_define(«km_score_number»,
    «km_if(km_is_bound, «m4_eval(($1) * km_page_blocks + ($2))», «m4_eval(($2) * km_query_heads + ($1))»)»)

m4_dnl ---- Sums of a page ----

m4_dnl Heads are handled in groups whose sums take half of the registers.
m4_define(«km_heads_at_once»,
    «km_if(km_registers / 2 / km_strips < km_query_heads, «m4_eval(km_registers / 2 / km_strips)», km_query_heads)»)

m4_dnl km_add_terms(B, FIRST, LAST, DIM, COUNT) -- add COUNT elements, at most 16, of row B from DIM on to the sums of
m4_dnl heads FIRST to LAST.
m4_define(«km_add_terms», «km_each(«V», 0, km_strips - 1, 1,
    «km_if(V * km_lanes < $5,
    «_km_add_strip(«$1», $2, $3, «$4«»_km_plus(V * km_lanes)», m4_eval($5 - V * km_lanes))»)»)»)
m4_define(«_km_plus», «m4_ifelse(m4_eval($1), 0, «», « + m4_eval($1)»)»)
m4_define(«_km_field_codes», «km_codes_of(km_element, «$1«»_km_plus($2 * km_element_bytes(km_dim))», «$3», $4)»)
m4_define(«_km_of_query», «km_if($4 < km_lanes, «load_some_f32($1«»_km_plus($2 * km_dim) + $3, $4)»,
    «load_f32($1«»_km_plus($2 * km_dim) + $3)»)»)
m4_define(«_km_add_strip», «        {
            vf c = _km_field_codes(«page_c», $1, «$4», $5);
km_if(km_is_bound, «            vf d = _km_field_codes(«page_d», $1, «$4», $5);
»)m4_indir(m4_defn(«km_add_heads»), $2, $3, «$4», $5)        }
»)
m4_dnl km_add_rounded -- products are rounded before they are added; km_add_exact -- they need not be (see below).
m4_define(«km_add_rounded», «km_each(«H», $1, $2, 1, «            vf q_«»H = _km_of_query(«query», H, «$3», $4);
            s_«»H«»_«»V += km_if(km_is_bound, «max_f32(q_«»H * c, q_«»H * d)», «multiply(q_«»H, c)»);
»)»)
m4_define(«_km_of_part», «load_f32(query->$1«»_km_plus($2 * km_dim) + $3)»)
m4_define(«km_add_exact»,
    «km_if(km_is_bound, «            vf high = max_f32(c, d), low = min_f32(d, c); /* each NaN is in one of them */
»)km_if(km_is_signed && $1 == 0, «            spread += high - low;
»)km_each(«H», $1, $2, 1, «km_if(km_is_split, «            s_«»H«»_«»V += _km_of_part(«above», H, «$3») * high;
            s_«»H«»_«»V += _km_of_part(«below», H, «$3») * low;
», «            vf q_«»H = _km_of_query(«query», H, «$3», $4);
            s_«»H«»_«»V += q_«»H * km_if(km_is_bound, «where_negative(q_«»H, low, high)», «c»);
»)»)»)

m4_dnl km_fetch_line(B, DIM) -- prefetch the line with this element, of the pages INNER and OUTER ahead.
m4_define(«km_fetch_line», «_km_fetch(«inner», 3, «$1», «$2»)_km_fetch(«outer», 2, «$1», «$2»)»)
m4_define(«_km_fetch», «km_if(m4_indir(«km_$1») > 0,
    «km_for_words(«F», «km_if(km_is_bound, «c, d», «c»)»,
    «        __builtin_prefetch($1_«»F«»_km_plus($3 * km_element_bytes(km_dim)) + $4 * km_element_bytes(1), 0, $2);
»)»)»)
m4_dnl _km_page_there(NAME, DISTANCE) -- where the page DISTANCE ahead is, or the last page.
m4_define(«_km_page_there»,
    «km_if(m4_indir(«km_$1») > 0, «    at = p->ids[u + $2 < p->pages ? u + $2 : p->pages - 1] * p->stride;
    const unsigned char *$1_c = p->field[0] + at;
km_if(km_is_bound, «    const unsigned char *$1_d = p->field[1] + at;
»)»)»)

m4_dnl The whole lines of a row: straight-line code if a page has few vectors.
m4_define(«_km_add_lines», «km_if(km_page_blocks * km_lined <= km_most_vectors * km_lanes,
    «km_each(«K», 0, km_lined - 1, km_line_elements,
    «_km_add_line($1, $2, $3, K)»)», «        for (int i = 0; i < km_lined; i += km_line_elements) {
_km_add_line($1, $2, $3, «i»)        }
»)»)
m4_define(«_km_add_line», «km_if($2 == 0, «km_fetch_line($1, «$4»)»)km_each(«I», 0, km_line_elements - 1, 16,
    «km_add_terms($1, $2, $3, «$4«»_km_plus(I)», 16)»)»)

m4_dnl _km_add_row(B, FIRST, LAST) -- all elements of a row.
m4_define(«_km_add_row», «    {
km_each(«H», $2, $3, 1, «km_each(«V», 0, km_strips - 1, 1, «        vf s_«»H«»_«»V = broadcast(0.f);
»)»)_km_add_lines($1, $2, $3)km_if($2 == 0 && km_lined < km_dim, «km_fetch_line($1, km_lined)»)km_each(«I», km_lined,
    km_dim - 1, 16, «km_add_terms($1, $2, $3, I, km_if(km_dim - I < 16, «m4_eval(km_dim - I)», 16))»)km_each(«H», $2,
    $3, 1, «        sums[km_score_number(H, $1)][lane] = _km_halved(H, km_strips);
»)    }
»)
m4_dnl _km_halved(H, STRIPS) -- add the vectors of a sum, that is, lanes that are whole vectors apart.
m4_define(«_km_halved», «m4_ifelse($2, 4, «(s_«»$1«»_0 + s_«»$1«»_2) + (s_«»$1«»_1 + s_«»$1«»_3)», $2, 2,
    «s_«»$1«»_0 + s_«»$1«»_1», «s_«»$1«»_0»)»)

m4_define(«_km_add_rows», «    int64_t at = p->ids[u] * p->stride;
    const unsigned char *page_c = p->field[0] + at;
km_if(km_is_bound, «    const unsigned char *page_d = p->field[1] + at;
»)_km_page_there(«inner», «INNER»)_km_page_there(«outer», «OUTER»)km_each(«B», 0, km_page_blocks - 1, 1,
    «km_each(«G», 0, km_query_heads - 1, km_heads_at_once,
    «_km_add_row(B, G, km_if(G + km_heads_at_once < km_query_heads, «m4_eval(G + km_heads_at_once - 1)»,
    «m4_eval(km_query_heads - 1)»))»)»)»)

m4_define(«km_add_page», «/* The sums of a page; lanes within a vector are added later.  */
km_inline(«void», «add_page(const struct kvmill_score_pages *p, int64_t u, vf sums[][LANES], int lane)»)
{
    const float *query = p->query;
m4_define(«km_add_heads», «km_add_rounded»)_km_add_rows«»}
»)

m4_dnl Exact products.  A float16 has 11 significant bits.  If queries have at most 13, products have at most 24, as
m4_dnl many as a float, and need not be rounded before they are added.  The larger of the products with the two bounds
m4_dnl is then the product with the larger bound (if the query is positive) or the smaller one (if it is negative).  The
m4_dnl bound is chosen by one instruction, if there is one.  Otherwise the query is split into its positive and its
m4_dnl negative part; each is multiplied with its bound, and the part that is 0 adds nothing.  This holds only for
m4_dnl finite bounds.  Pages with others are detected by their sums, or by the differences of their bounds, and computed
m4_dnl again with rounded products.
m4_define(«km_is_exact»,
    «m4_eval(km_exact_products && m4_ifelse(km_element, «f16», 1, 0) && km_query_heads * km_dim <= 4096)»)
m4_define(«km_is_signed», «m4_eval(km_is_exact && km_is_bound && km_chooses_by_sign)»)
m4_define(«km_is_split», «m4_eval(km_is_exact && km_is_bound && !km_chooses_by_sign)»)
m4_define(«km_check_query»,
    «/* Whether all products with float16 are exact: numbers of at most 13 bits, from 2^-64 to 2^64.  */
km_function(«int», «is_short(const float *query)»)
{
    uint32_t other = 0;
    for (int i = 0; i < QUERY; i++) {
        uint32_t bits;
        memcpy(&bits, query + i, sizeof bits);
        uint32_t size = bits & 0x7fffffff;
        other |= (size & 0x7ff) | (size != 0 && size - (63U << 23) > 128U << 23);
    }
    return other == 0;
}

km_if(km_is_split, «struct parts {
    float above[QUERY + LANES], below[QUERY + LANES]; /* vectors read past the end of a query */
} __attribute__((aligned(64)));

km_function(«void», «split_query(const float *query, struct parts *to)»)
{
    for (int i = 0; i < QUERY; i++) {
        to->above[i] = query[i] > 0 ? query[i] : 0;
        to->below[i] = query[i] < 0 ? query[i] : 0;
    }
    memset(to->above + QUERY, 0, LANES * sizeof *to->above);
    memset(to->below + QUERY, 0, LANES * sizeof *to->below);
}

»)/* The same sums as add_page.  Returns whether they are valid, that is, whether the bounds are finite.  */
km_inline(«int», «add_exactly(const struct kvmill_score_pages *p, int64_t u, const km_if(km_is_split, «struct parts»,
    «float») *query,
    vf sums[][LANES], int lane)»)
{
km_if(km_is_signed, «    vf spread = broadcast(0.f);
»)m4_define(«km_add_heads», «km_add_exact»)_km_add_rows«»km_if(km_is_signed,
    «    return lanes_from((vi)abs_f32(spread), broadcast_words(0x7f800000)) == 0;
», «km_if(km_is_split, «    vf some = km_each(«B», 0, km_page_blocks - 1, 1,
    «km_if(B > 0, « + »)sums[km_score_number(0, B)][lane]»);
    return lanes_from((vi)abs_f32(some), broadcast_words(0x7f800000)) == 0;
», «    return 1;
»)»)}
»)

m4_dnl ---- Scores of LANES pages ----

m4_dnl Quad q of quads_of (x, p) belongs to page 4 q + p.
m4_define(«_km_apart», «__builtin_shufflevector($1, $2, km_lane_list(«m4_eval(L / $3 * $3 * 2 + L % $3 + $4)»))»)
m4_define(«km_joined», «_km_apart(«$1», «$2», $3, 0) + _km_apart(«$1», «$2», $3, $3)»)
m4_define(«km_quads_of»,
    «m4_ifelse(km_lanes, 16, «    vf a = km_joined(«x[p]», «x[p + 4]», 8), b = km_joined(«x[p + 8]», «x[p + 12]», 8);
    return km_joined(«a», «b», 4);
», km_lanes, 8, «    return km_joined(«x[p]», «x[p + 4]», 4);
», «    return x[p];
»)»)
m4_define(«km_sum_lanes», «/* Add lanes 8 and 4 apart, for every fourth page; then lanes 2 and 1 apart.  */
km_inline(«vf», «quads_of(const vf x[LANES], int p)»)
{
km_quads_of}

km_inline(«vf», «sum_lanes(const vf x[LANES])»)
{
    return sum_quads(quads_of(x, 0), quads_of(x, 1), quads_of(x, 2), quads_of(x, 3));
}
»)

m4_dnl ---- Folds ----

m4_dnl _km_folded(BY, OVER, RESULT, COUNT, NUMBER) -- folds x_N for I below COUNT to the vector RESULT; NUMBER gives N
m4_dnl for I.
m4_define(«_km_folded», «m4_ifelse($1, 1, «_km_fold_max(«$3», $4, «$5»)»,
    «km_if($2 == 1 && !km_is_bound, «_km_fold_lanes($1, «$3», $4, «$5»)», «_km_fold_sum($1, «$3», $4, «$5»)»)»)»)
m4_define(«_km_fold_max», «    vf $1 = km_each(«I», 0, 0, 1, «x_«»$3»);
km_each(«I», 1, $2 - 1, 1, «    $1 = max_f32(x_«»$3, $1);
»)»)
m4_define(«_km_divide», «m4_ifelse($1, 2, «    $2 = $2 / broadcast($3.f);
»)»)
m4_define(«_km_fold_sum», «    vf $2 = broadcast(0.f);
km_each(«I», 0, $3 - 1, 1, «    $2 += x_«»$4;
»)_km_divide($1, «$2», $3)»)
m4_dnl Sums over heads have sixteen lanes, too: head h goes to lane h % 16.
m4_define(«_km_fold_lanes», «    vf $2;
    {
km_each(«I», 0, $3 - 1, 1, «        vf lane_«»I = x_«»$4;
»)km_for_words(«A», «8, 4, 2, 1»,
    «km_each(«I», 0, A - 1, 1, «km_if(I + A < $3, «        lane_«»I += lane_«»m4_eval(I + A);
»)»)»)        $2 = lane_0;
    }
_km_divide($1, «$2», $3)»)

m4_dnl km_fold(BY, OVER, Y) -- one fold of all x_N.  km_now_heads, km_now_blocks -- how many heads and blocks are left.
m4_define(«km_now_heads», km_query_heads)
m4_define(«km_now_blocks», km_page_blocks)
m4_define(«_km_now_number»,
    «km_if(km_is_bound, «m4_eval(($1) * km_now_blocks + ($2))», «m4_eval(($2) * km_now_heads + ($1))»)»)
m4_define(«km_fold», «m4_ifelse($2, 0, «», $2, 1, «_km_fold_heads($1, «$3»)», $2, 2, «_km_fold_blocks($1, «$3»)»,
    «_km_fold_all($1, «$3»)»)»)
m4_define(«_km_fold_heads», «km_each(«B», 0, km_now_blocks - 1, 1,
    «_km_folded($1, 1, «$2_«»B», km_now_heads, «_km_now_number(I, B)»)»)_km_rename(«$2»,
    km_now_blocks)m4_define(«km_now_heads», 1)»)
m4_define(«_km_fold_blocks», «km_each(«H», 0, km_now_heads - 1, 1,
    «_km_folded($1, 2, «$2_«»H», km_now_blocks, «_km_now_number(H, I)»)»)_km_rename(«$2»,
    km_now_heads)m4_define(«km_now_blocks», 1)»)
m4_define(«_km_fold_all», «_km_folded($1, 3, «$2_0», km_scores, «I»)_km_rename(«$2», 1)m4_define(«km_now_heads»,
    1)m4_define(«km_now_blocks», 1)»)
m4_define(«_km_rename», «km_each(«I», 0, $2 - 1, 1, «    x_«»I = $1_«»I;
»)»)

m4_dnl km_page_scores -- the scores of a page after all folds.
m4_define(«km_page_scores», «m4_eval(km_if((km_over1 | km_over2) & 1, 1, km_query_heads) * m4_dnl
km_if((km_over1 | km_over2) & 2, 1, km_page_blocks))»)

m4_define(«km_finish», «/* Compute the scores of `count` pages from their sums.  */
km_inline(«void», «finish(vf sums[][LANES], float *score, int64_t count)»)
{
km_each(«N», 0, km_scores - 1, 1, «    vf x_«»N = sum_lanes(sums[N]);
»)km_fold(km_by1, km_over1, «y»)m4_dnl
km_fold(km_by2, km_over2, «z»)m4_dnl
km_if(km_page_scores == 1, «    store_some_f32(score, x_0, (size_t)count);
», «    float turned[km_page_scores][LANES];
km_each(«N», 0, km_page_scores - 1, 1, «    store_f32(turned[N], x_«»N);
»)    for (int64_t t = 0; t < count; t++, score += LEFT) {
km_each(«N», 0, km_page_scores - 1, 1, «        score[N] = turned[N][t];
»)    }
»)}
»)
m4_dnl km_score_descriptor -- what the library sees of the kernel.
m4_define(«km_score_descriptor», «km_descriptor(«KVMILL_SCORE_PAGES», «kvmill_score_shape shape = {
    .kind = km_kind_number,
    .element = km_element_number,
    .dim = km_dim,
    .heads = km_query_heads,
    .blocks = km_page_blocks,
    .folds = m4_eval((km_over1 > 0) + (km_over2 > 0)),
    .fold = { { km_over1, km_by1 }, { km_over2, km_by2 } },
}», 0)»)
m4_divert(0)m4_dnl
