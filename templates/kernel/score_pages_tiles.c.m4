m4_dnl score_pages_tiles -- a page after the other; what is left of their sums for as many as there are lanes.
km_head(«Score pages by their summaries.», km_headers)
km_vectors
km_if(km_is_split, «km_vector_lanes
km_vector_smaller
», «km_vector_product
»)m4_dnl
enum {
km_if(km_is_split, «    QUERY = m4_eval(km_heads * km_dim),
»)m4_dnl
    SCORES = km_scores, /* of a page, before they are folded */
    LEFT = km_left,     /* and then */
    NEAR = km_near,   /* pages ahead that are brought into the first cache */
    AHEAD = km_ahead, /* and into the second */
};

km_add_page
km_if(km_is_split, «km_split_query
»)m4_dnl
km_sum_lanes
km_finish
km_function(«void», «run(const void *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_score_pages *p = problem;
    vf sums[SCORES][LANES];
    memset(sums, 0, sizeof sums);
km_if(km_is_split, «    int32_t below_0[QUERY + LANES]; /* vectors reach beyond it */
    int is_split = split_query(p->query, below_0);
»)m4_dnl
    for (int64_t u = first; u < last; u += LANES) {
        int64_t count = last - u < LANES ? last - u : LANES;
        for (int lane = 0; lane < count; lane++)
km_if(km_is_split, «            if (!is_split || !add_exactly(p, u + lane, below_0, sums, lane))
                add_page(p, u + lane, sums, lane);
», «            add_page(p, u + lane, sums, lane);
»)m4_dnl
        finish(sums, p->score + u * LEFT, count);
    }
}

km_score_descriptor«»m4_dnl
