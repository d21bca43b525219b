m4_dnl score_pages_tiles -- page after page.  The lanes of their sums are added for LANES pages at a time.
km_head(«Score pages by their summaries.», km_headers)
enum {
km_if(km_is_exact, «    QUERY = m4_eval(km_query_heads * km_dim),
»)m4_dnl
    SCORES = km_scores, /* scores of a page before folds, */
    LEFT = km_page_scores,     /* and after them */
km_if(km_inner, «    INNER = km_inner, /* pages ahead that are brought into the first cache */
»)km_if(km_outer, «    OUTER = km_outer, /* pages ahead that are brought into the second cache */
»)m4_dnl
};

km_add_page
km_if(km_is_exact, «km_check_query
»)m4_dnl
km_sum_lanes
km_finish
km_run_function
{
    const struct kvmill_score_pages *p = problem;
    vf sums[SCORES][LANES];
km_if(km_is_exact, «    int is_exact = is_short(p->query);
»)km_if(km_is_split, «    struct parts parts;
    split_query(p->query, &parts);
»)m4_dnl
    /* The loop nest: LANES pages at a time; the blocks, heads and elements of each.  */
    for (int64_t u = first; u < last; u += LANES) {
        int64_t count = last - u < LANES ? last - u : LANES;
        if (count < LANES)
            memset(sums, 0, sizeof sums);
        for (int lane = 0; lane < count; lane++)
km_if(km_is_exact,
    «            if (!is_exact || !add_exactly(p, u + lane, km_if(km_is_split, «&parts», «p->query»), sums, lane))
                add_page(p, u + lane, sums, lane);
», «            add_page(p, u + lane, sums, lane);
»)m4_dnl
        finish(sums, p->score + u * LEFT, count);
    }
}

km_score_descriptor«»m4_dnl
