m4_divert(-1)
m4_dnl prefetch.m4 -- prefetches rows of the cache.  With INNER = 0, rows OUTER ahead are fetched into the first-level
m4_dnl cache, or, if the problem says so, into the second.  Otherwise they are fetched into the second level, and rows
m4_dnl INNER ahead into the first.  Each line is fetched once per level, outside of the innermost loops.  A processor
m4_dnl can wait for a few lines at a time, and should always be waiting for some.  So keys and values are fetched all
m4_dnl the time, evenly, and in memory order, which the hardware prefetchers follow.
m4_define(«km_lines», «m4_eval((km_row_bytes_of(km_$1, km_$1_dim) + 63) / 64)»)

m4_dnl km_fetch_step(SIDE, STEP, STEPS, IF) -- step STEP of the STEPS that read a block's keys (SIDE is key) or values
m4_dnl prefetches its share of the lines OUTER ahead.  IF: a condition for it, or nothing.
m4_define(«km_fetch_step», «km_if(km_outer > 0, «_km_only_if(«$4»,
    «fetch_step(w, m4_ifelse($1, «key», 0, 1), $2, $3);»)»)»)
m4_dnl km_fetch_inner(SIDE, ROW, COUNT, IF) -- the same for COUNT rows, from the one INNER after ROW on.
m4_dnl km_fetch_inner_line(SIDE, ROW, COUNT, LINE, IF) -- one line of each.
m4_define(«km_fetch_inner», «_km_fetch_inner(«$1», «$2», «$3», 0, «km_lines(«$1»)», «$4»)»)
m4_define(«km_fetch_inner_line», «_km_fetch_inner(«$1», «$2», «$3», «$4», 1, «$5»)»)
m4_define(«_km_fetch_inner», «km_if(km_inner > 0, «_km_only_if(«$6»,
    «fetch_inner(w->$1_run, $2 + INNER, $3, $4, $5);»)»)»)
m4_define(«_km_only_if», «m4_ifelse(«$1», «», «        $2
», «        if ($1)
            $2
»)»)

m4_dnl km_fetch_in_strip(PLACE) -- prefetching in products over values (km_product).  PLACE is before the strip, at a
m4_dnl run of rows, or at a row.  In the first tile, each strip fetches its share at each run, or at each row if the
m4_dnl share of a run would be many lines, because memory would be idle between bursts.  With km_all_rows_fetch in
m4_dnl `dims`, each strip of each tile fetches its share before its steps, which can then use all registers.  The first
m4_dnl strip also fetches the rows INNER ahead.
m4_define(«km_fetch_in_strip», «m4_ifelse($1, «run», «km_fetch_inner(«value», «_km_next_row», «RUN»,
    «r == 0 && km_tile_strip == 0»)»)m4_ifelse($1, _km_place_of_fetch, «_km_fetch_at_$1«»»)»)
m4_define(«_km_place_of_fetch», «km_if(km_dims && km_all_rows_fetch, «before»,
    «km_if(km_lines(«value») >= 2 * km_tile_strips, «row», «run»)»)»)
m4_define(«_km_fetch_at_before», «km_fetch_step(«value», «r / TILE * km_tile_strips + km_tile_strip»,
    m4_eval(km_tiles * km_tile_strips), km_tile_starts)»)
m4_define(«_km_fetch_at_run», «_km_fetch_in_first_tile(8, «_km_next_row»)»)
m4_define(«_km_fetch_at_row», «_km_fetch_in_first_tile(1, «k»)»)
m4_define(«_km_fetch_in_first_tile», «km_fetch_step(«value», «km_tile_strip * m4_eval(km_block / $1) + $2 / $1»,
    m4_eval(km_tile_strips * km_block / $1), «r == 0«»m4_ifelse(km_tile_starts, «», «», « && km_tile_starts»)»)»)
m4_define(«_km_next_row», «km_if(km_tile_values == 1, «next», «km_tile_values * next»)»)

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
    const unsigned char *ahead[2][BLOCK]; /* keys and values OUTER rows ahead */
»)m4_dnl
km_if(km_chooses_level, «    int into_l2;
»)»)
m4_define(«km_list_ahead», «km_if(km_chooses_level, «    w->into_l2 = p->into_l2;
»)km_if(km_outer > 0, «    list_ahead(w->ahead[0], w->key_run + OUTER / RUN);
    list_ahead(w->ahead[1], w->value_run + OUTER / RUN);
»)»)

m4_dnl km_define_fetch -- defines the functions that these macros call.
m4_define(«km_define_fetch», «m4_dnl
km_if(km_outer > 0, «_km_define_outer«»»)m4_dnl
km_if(km_inner > 0, «m4_dnl
/* Prefetch `lines` lines, from line `first` on, of `count` rows, from row t on.  */
km_inline(«void», «fetch_inner(const struct run *run, int64_t t, int64_t count, int first, int lines)»)
{
    for (const int64_t end = t + count; t < end; t++)
        for (int i = 0; i < lines; i++)
            __builtin_prefetch(row_of(run, t) + (first + i) * 64, 0, 3);
}

»)»)
m4_define(«_km_define_outer», «m4_dnl
km_inline(«void», «list_ahead(const unsigned char *ahead[BLOCK], const struct run *run)»)
{
    for (int64_t i = 0; i < BLOCK / RUN; i++)
        for (int64_t j = 0; j < RUN; j++)
            ahead[i * RUN + j] = run[i].first + run[i].step[j];
}

km_inline(«void», «fetch_line(const struct work *w, const unsigned char *line)»)
{
km_if(km_chooses_level, «    if (w->into_l2)
        __builtin_prefetch(line, 0, 2);
    else
        __builtin_prefetch(line, 0, 3);
», «    (void)w;
    __builtin_prefetch(line, 0, km_if(km_inner > 0, 2, 3));
»)m4_dnl
}

/* Prefetch a step's share of the lines of half a block's keys (side 0) or values (1).  Finding a row takes longer than
   fetching three lines of it, so short rows are fetched whole, by every Nth step if there are more steps than rows.  If
   all shares are equal, each `together` lines are in one row.  */
km_inline(«void», «fetch_share(const struct work *w, int side, int lines, int half, int64_t step, int64_t steps)»)
{
    const int64_t all = BLOCK / 2 * lines, unit = lines <= 3 ? lines : 1;
    const int64_t every = steps * unit % all == 0 ? steps * unit / all : 1;
    const int64_t shares = steps / every, share = step / every;
    const int64_t equal = all % shares == 0 ? all / shares : 0;
    const int64_t first = equal ? share * equal : share * all / shares;
    const int64_t count = equal ? equal : (share + 1) * all / shares - first;
    const int64_t together = equal == 0 ? 1 : lines % equal == 0 ? equal : equal % lines == 0 ? lines : 1;
    if (step % every != 0)
        return;
    for (int64_t i = half * all + first; i < half * all + first + count; i += together)
        for (int64_t j = 0; j < together; j++)
            fetch_line(w, w->ahead[side][i / lines] + (i % lines + j) * 64);
}

/* Prefetch a step's share of keys and values: of a block's first half while it reads keys, then of the second.  */
km_inline(«void», «fetch_step(const struct work *w, int half, int64_t step, int64_t steps)»)
{
    fetch_share(w, 0, km_lines(«key»), half, step, steps);
    fetch_share(w, 1, km_lines(«value»), half, step, steps);
}

km_if(km_scales_apart(«key») || km_scales_apart(«value»), «m4_dnl
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
m4_divert(0)m4_dnl
