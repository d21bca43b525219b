m4_divert(-1)
m4_dnl prefetch.m4 -- prefetches rows of the cache.  With INNER = 0, rows OUTER ahead are fetched into the first-level
m4_dnl cache, or, if the problem says so, into the second.  Otherwise they are fetched into the second level, and rows
m4_dnl INNER ahead into the first.  Each line is fetched once per level, outside of the innermost loops.  A processor
m4_dnl can wait for a few lines at a time, and should always be waiting for some.  So keys and values are fetched all
m4_dnl the time, evenly, and in memory order, which the hardware prefetchers follow.
m4_define(«km_lines», «m4_eval((km_row_bytes_of(km_$1, km_$1_dim) + 63) / 64)»)

m4_dnl km_fetch_inner(SIDE, ROW, COUNT) -- fetch COUNT rows, from the one INNER after ROW on.
m4_define(«km_fetch_inner», «km_if(km_inner > 0, «        fetch_inner_$1_rows(w, $2 + INNER, $3);
»)»)
m4_dnl km_inner_rows(SIDE, ROW), km_fetch_inner_line(SIDE, COUNT, LINE) -- find rows of a run that are INNER ahead, and
m4_dnl fetch one line of each of COUNT rows.
m4_define(«km_inner_rows», «km_if(km_inner > 0, «    const struct run $1_inner = run_from(w->$1_run, $2 + INNER);
»)»)
m4_define(«km_fetch_inner_line», «km_if(km_inner > 0, «km_times(«I», $2, «m4_dnl
        __builtin_prefetch($1_inner.first + $1_inner.step[I] + ($3) * 64, 0, 3);
»)»)»)

m4_dnl km_fetch_scoring(STEP, STEPS), km_fetch_summing(STEP, STEPS) -- fetch this step's share of the lines OUTER ahead,
m4_dnl of keys and of values.  While scores are computed, the first half of the block is fetched; while values are
m4_dnl added, the second half.  STEPS is a number.
m4_define(«km_fetch_scoring», «_km_fetch_half(0, «$1», $2)»)
m4_define(«km_fetch_summing», «_km_fetch_half(1, «$1», $2)»)
m4_define(«_km_fetch_half», «km_if(km_outer > 0, «m4_dnl
_km_fetch_share(«key», $1, «$2», $3)_km_fetch_share(«value», $1, «$2», $3)»)»)
m4_define(«_km_fetch_share», «_km_fetch_lines(«$1», m4_eval($2 * km_block / 2 * km_lines(«$1»)), «$3»,
    m4_eval(km_block / 2 * km_lines(«$1»)), $4)»)
m4_dnl _km_fetch_lines(SIDE, FIRST, STEP, LINES, STEPS) -- divide LINES among STEPS: the same number of lines at each
m4_dnl step, or a few lines at every Nth step; if neither is possible, numbers that differ by one.
m4_define(«_km_fetch_lines», «km_if($4 % $5 == 0 && $4 / $5 >= _km_unit(«$1»), «m4_dnl
        fetch_$1_lines(w, $2 + ($3) * m4_eval($4 / $5), m4_eval($4 / $5), _km_in_row(km_lines(«$1»), m4_eval($4 / $5)));
», «km_if($5 * _km_unit(«$1») % $4 == 0, «m4_dnl
_km_fetch_unit(«$1», $2, «$3», m4_eval($5 * _km_unit(«$1») / $4), _km_unit(«$1»))», «m4_dnl
        fetch_$1_lines(w, $2 + ($3) * $4 / $5, (($3) + 1) * $4 / $5 - ($3) * $4 / $5, 1);
»)»)»)
m4_define(«_km_fetch_unit», «        if (($3) % $4 == 0)
            fetch_$1_lines(w, $2 + ($3) / $4 * $5, $5, $5);
»)
m4_dnl _km_unit(SIDE) -- how many lines are fetched together: to find a row takes longer than to fetch three lines of
m4_dnl it.
m4_define(«_km_unit», «km_if(km_lines(«$1») <= 3, «km_lines(«$1»)», 1)»)
m4_dnl _km_in_row(LINES, COUNT) -- how many of COUNT lines are sure to be in one row of LINES lines.
m4_define(«_km_in_row», «km_if($1 % $2 == 0, $2, «km_if($2 % $1 == 0, $1, 1)»)»)

m4_dnl km_fetch_scales(SIDE) -- fetch the scales of the run that begins with row t, if they are separate.
m4_define(«km_fetch_scales», «km_if(km_scales_apart(«$1»), «m4_dnl
        fetch_scales(w->$1_scale_run[t / RUN]);
»)»)

m4_dnl km_chooses_level -- whether the problem says into which level rows are fetched.  Kernels of codes do not wait for
m4_dnl memory long enough for this to matter.
m4_define(«km_chooses_level», «(km_outer > 0 && km_inner == 0 && km_part(«bits», km_key) >= 16)»)

m4_dnl km_work_ahead -- an array with the addresses of the rows OUTER ahead; km_list_ahead fills it.  This takes fewer
m4_dnl instructions than finding the row of every line.
m4_define(«km_work_ahead», «km_if(km_outer > 0, «m4_dnl
    const unsigned char *key_ahead[BLOCK], *value_ahead[BLOCK]; /* rows OUTER ahead */
»)m4_dnl
km_if(km_chooses_level, «    int into_l2;
»)»)
m4_define(«km_list_ahead», «km_if(km_chooses_level, «    w->into_l2 = p->into_l2;
»)km_if(km_outer > 0, «    list_ahead(w->key_ahead, w->key_run + OUTER / RUN);
    list_ahead(w->value_ahead, w->value_run + OUTER / RUN);
»)»)

m4_dnl km_define_fetch -- defines the functions that these macros call.
m4_define(«km_define_fetch», «m4_dnl
km_if(km_chooses_level, «m4_dnl
km_inline(«void», «fetch_ahead(const struct work *w, const unsigned char *line)»)
{
    if (w->into_l2)
        __builtin_prefetch(line, 0, 2);
    else
        __builtin_prefetch(line, 0, 3);
}

»)m4_dnl
km_if(km_outer > 0, «km_inline(«void», «list_ahead(const unsigned char *ahead[BLOCK], const struct run *run)»)
{
    for (int64_t i = 0; i < BLOCK / RUN; i++)
        for (int64_t j = 0; j < RUN; j++)
            ahead[i * RUN + j] = run[i].first + run[i].step[j];
}

_km_define_fetch_lines(«key»)_km_define_fetch_lines(«value»)»)m4_dnl
km_if(km_inner > 0, «_km_define_fetch_inner(«key»)_km_define_fetch_inner(«value»)»)m4_dnl
km_if(km_outer > 0 && (km_scales_apart(«key») || km_scales_apart(«value»)), «m4_dnl
/* If the scales of a run are close together, they are in one or two lines.  */
km_inline(«void», «fetch_scales(struct run run)»)
{
    int64_t by = (uint64_t)run.step[RUN - 1] < 64 ? RUN - 1 : 1;
    for (int64_t i = 0; i < RUN; i += by)
        __builtin_prefetch(run.first + run.step[i], 0, 3);
}

»)»)
m4_dnl km_touch_extents -- defines touch_extents, which prefetches one line of each extent.
m4_define(«km_touch_extents», «km_if(km_outer > 0, «m4_dnl
/* Prefetch a line of each extent that begins within the BLOCK rows from a place on.  Translating the address of a page
   may take longer than fetching its lines, so it is started before they are needed.  */
km_inline(«void», «touch_extents(const struct kvmill_attend *p, struct place at, int after)»)
{
    int64_t row = -at.passed; /* the extent's first row, counted from the place */
    for (; row < BLOCK && at.extent->count > 0; row += at.extent->count, at.extent++)
        if (row >= 0) {
km_each_side(«_km_touch»)m4_dnl
        }
}

»)»)
m4_define(«_km_touch», «            __builtin_prefetch((after ? p->after_$1 : p->$1) +
                at.extent->slot * km_at_p(«$1_stride»), 0, 3);
»)
m4_define(«_km_fetch_outer», «km_if(km_chooses_level, «fetch_ahead(w, $1)», «m4_dnl
__builtin_prefetch($1, 0, km_if(km_inner > 0, 2, 3))»)»)
m4_define(«_km_define_fetch_lines», «m4_dnl
/* Prefetch `count` lines of the rows OUTER ahead, numbered row after row.  Each `together` lines are in one row.  */
km_inline(«void», «fetch_$1_lines(const struct work *w, int64_t first, int64_t count, int together)»)
{
    enum { LINES = km_lines(«$1») };
    for (int64_t i = first; i < first + count; i += together) {
        const unsigned char *line = w->$1_ahead[i / LINES] + i % LINES * 64;
        for (int j = 0; j < together; j++)
            _km_fetch_outer(«line + j * 64»);
    }
}

»)
m4_define(«_km_define_fetch_inner», «km_inline(«void», «fetch_inner_$1_rows(const struct work *w, int64_t first, m4_dnl
int64_t count)»)
{
    for (int64_t t = first; t < first + count; t++) {
        const unsigned char *row = km_row(«$1», «t»);
km_times(«I», km_lines(«$1»), «        __builtin_prefetch(row + m4_eval(I * 64), 0, 3);
»)    }
}

»)
m4_divert(0)m4_dnl
