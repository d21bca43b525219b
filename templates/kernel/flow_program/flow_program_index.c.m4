m4_dnl flow_program_index -- scores pages in stages.  A stage begins with steps that run once or over all pages, and
m4_dnl then has steps that run for each page.  The next macros say what a stage reads of a page, and what is kept of it.
m4_define(«_km_is_loaded»,
    «m4_ifdef(«_km_kept_$1», «m4_eval(STAGE == 0)», «m4_ifdef(«_km_need_»STAGE«_$1», 1, 0)»)»)m4_dnl
m4_define(«_km_load_rows»,
    «m4_ifelse(_km_is_loaded(«$1»), 1, «km_load_rows($@, «_km_first_row», «p->kv_head»)»)»)m4_dnl
m4_dnl A "page" may be a block of one of the cache's pages.
m4_define(«_km_first_row», «m4_ifelse(km_page_blocks, 1, «page * p->page_rows»,
    «(page / km_page_blocks * p->page_rows + page % km_page_blocks * km_page)»)»)m4_dnl
m4_define(«_km_load_field», «m4_ifelse(_km_is_loaded(«$1»), 1,
    «    km_load_floats(«$2», «km_place(«$1»)», «km_field_at(«$1», «page», «p->kv_head»)», «km_size_of(«$1»)»);
»)»)m4_dnl
m4_dnl The first stage begins by loading the query.
m4_define(«_km_ask_query», «m4_ifelse(STAGE, 0, «    for (int64_t r = 0; r < $3; r++)
        km_load_floats(«$2», «w->$1 + r * $4», «p->query + r * p->query_stride», «$4»);
»)»)m4_dnl
m4_dnl The steps of a stage.
m4_define(«_km_op», «
m4_indir(«km_op_$4», «$1», «$2», «$3», m4_shift(m4_shift(m4_shift(m4_shift($@)))))km_round_result(«$1»)»)m4_dnl
m4_define(«_km_begin_once», «m4_ifelse(«$1», STAGE, «_km_op(m4_shift($@))»)»)m4_dnl
m4_define(«_km_begin_over», «m4_ifelse(«$1», STAGE, «
m4_indir(«km_over_$5», «$2», m4_shift(m4_shift(m4_shift(m4_shift(m4_shift($@))))))km_round_pages(«$2»)»)»)m4_dnl
m4_define(«_km_pages_page», «m4_ifelse(«$1», STAGE, «_km_op(m4_shift($@))»)»)m4_dnl
m4_dnl Where values that are kept for all pages begin.
m4_define(«_km_all», «m4_ifdef(«_km_kept_$1»,
    «    float *restrict const all_$1 = p->workspace + km_value_floats + m4_indir(«_km_offset_$1») * p->pages;
»)»)m4_dnl
m4_define(«_km_use_all», «m4_ifdef(«_km_kept_$1», «    (void)all_$1;
»)»)m4_dnl
m4_define(«_km_places», «    struct values *w = (struct values *)(void *)p->workspace;
km_each_place(«_km_all»)km_each_place(«_km_use_all»)    (void)w;
    (void)p;
»)m4_dnl
m4_define(«_km_keeps_input», «m4_ifdef(«_km_kept_$1», «1»)»)m4_dnl
m4_define(«_km_kept_rows», «_km_keeps_input(«$1»)»)m4_dnl
m4_define(«_km_kept_field», «_km_keeps_input(«$1»)»)m4_dnl
m4_define(«_km_has_pages»,
    «m4_ifdef(«_km_has_»STAGE, 1, «m4_ifelse(STAGE, 0, «m4_ifelse(km_each_step(«_km_kept»), «», 0, 1)», 0)»)»)m4_dnl
m4_define(«_km_begins», «m4_len(km_each_step(«_km_ask»)km_each_step(«_km_begin»))»)m4_dnl
m4_define(«_km_stage», «m4_ifelse(_km_begins, 0, «», «km_function(«void»,
    «begin_«»STAGE«»(const struct kvmill_flow_scores *p)»)
{
_km_places«»km_minus_0«»km_each_step(«_km_ask»)km_each_step(«_km_begin»)}

»)m4_ifelse(_km_has_pages, 1,
    «km_inline(«void», «page_«»STAGE«»(const struct kvmill_flow_scores *p, int64_t s, float minus_0)»)
{
_km_places    const int64_t page = p->ids[s];
    (void)page;
    (void)minus_0;
km_each_step(«_km_load»)km_each_step(«_km_pages»)}

km_function(«void», «pages_«»STAGE«»(const struct kvmill_flow_scores *p)»)
{
km_minus_0    for (int64_t s = 0; s < p->pages; s++)
        page_«»STAGE«»(p, s, minus_0);
}

»)»)m4_dnl
m4_dnl The phases of a stage; some have no work.
m4_define(«_km_phases», «m4_ifelse(_km_begins, 0, «nothing», «begin_«»STAGE»), m4_dnl
m4_ifelse(_km_has_pages, 1, «pages_«»STAGE», «nothing»), »)m4_dnl
m4_dnl State is copied to its field through a buffer, because rounding changes the floats, and these may be the score.
m4_define(«_km_save_save», «    for (int64_t s = 0; s < p->pages; s++)
        for (int64_t e = 0; e < km_size_of(«$1»); e += TERMS) {
            float part[TERMS];
            size_t some = (size_t)(km_size_of(«$1») - e < TERMS ? km_size_of(«$1») - e : TERMS);
            memcpy(part, km_place(«$2») + e, some * sizeof *part);
            m4_ifelse(m4_indir(«_km_type_$1»), «f32»,
                «memcpy(km_field_at(«$1», «p->ids[s]», «p->kv_head») + e * 4, part, some * 4)»,
                «store_floats_«»m4_indir(«_km_type_$1»)(
                    km_field_at(«$1», «p->ids[s]», «p->kv_head») + e * 2, part, (int64_t)some, 0)»);
        }
»)m4_dnl
km_flow_head(«Score the pages of a row.»)
km_over_pages«»km_each(«STAGE», 0, km_stages - 1, 1, «_km_stage»)m4_dnl
m4_define(«_km_saves», «m4_len(km_each_step(«_km_save»))»)m4_dnl
m4_ifelse(_km_saves, 0, «», «km_function(«void», «save(const struct kvmill_flow_scores *p)»)
{
_km_places«»km_each_step(«_km_save»)}

»)km_function(«void», «nothing(const struct kvmill_flow_scores *p)»)
{
    (void)p;
}

km_run_function
{
    static void (*const phases[])(const struct kvmill_flow_scores *p) = {km_each(«STAGE», 0, km_stages - 1, 1,
        «_km_phases»)m4_ifelse(_km_saves, 0, «nothing», «save»)};
    /* The loop nest: phases, and the pages of each; for these step after step, each over its rows and columns.  */
    for (int64_t phase = first; phase < last; phase++)
        phases[phase](problem);
}

km_program_descriptor«»m4_dnl
