m4_dnl flow_program_cache -- computes the fields of a page from its rows of K and V.
m4_define(«_km_load_rows», «km_load_rows($@, 0, «head»)»)m4_dnl
m4_dnl Fields whose rows are appended with tokens are loaded.
m4_define(«_km_load_load», «    km_load_floats(m4_indir(«_km_type_$1»), «km_place(«$1»)»,
        «km_field_at(«$1», «p->page», «head»)», «km_size_of(«$1»)»);
»)m4_dnl
m4_dnl After a field is stored, steps read the rounded values.
m4_define(«_km_direction», «m4_ifelse(m4_index(« Max MaxInterleave Maximum », « $1 »), -1,
    «m4_ifelse(m4_index(« Min MinInterleave Minimum », « $1 »), -1, 0, -1)», 1)»)m4_dnl
m4_define(«_km_store», «    km_store_floats(m4_indir(«_km_type_$1»), «km_field_at(«$1», «p->page», «head»)», «w->$1»,
    «km_size_of(«$1»)», «_km_direction(«$2»)»);
»)m4_dnl
m4_define(«_km_code_step», «
m4_indir(«km_op_$4», «$1», «$2», «$3», m4_shift(m4_shift(m4_shift(m4_shift($@)))))m4_ifdef(«_km_type_$1»,
    «_km_store(«$1», «$4»)», «m4_ifdef(«_km_is_written_$1», «», «km_round_result(«$1»)»)»)»)m4_dnl
m4_dnl The same holds for rows of K and V.
m4_define(«_km_code_write», «m4_pushdef(«SIDE»,
    «m4_ifelse(«$1», «k», «key», «value»)»)    for (int64_t r = 0; r < $4; r++)
        km_store_floats(«$3», «p->SIDE.data + r * p->SIDE.row_stride + head * p->SIDE.head_stride»,
            «km_place(«$2») + r * $5», «$5», 0);
m4_popdef(«SIDE»)»)m4_dnl
km_flow_head(«Summarise a page of one kv head.»)
km_function(«void», «summarise(const struct kvmill_flow_summary *p, int64_t head, struct values *w)»)
{
km_if(km_is_growing, «    const int64_t rows = p->rows;
»)km_minus_0«»    /* The loop nest: the rows of the page; then step after step, each over its rows and columns.  */
km_each_step(«_km_load»)km_each_step(«_km_code»)}

km_run_function
{
    const struct kvmill_flow_summary *p = problem;
    for (int64_t head = first; head < last; head++)
        summarise(p, head, (struct values *)(void *)p->workspace);
}

km_program_descriptor«»m4_dnl
