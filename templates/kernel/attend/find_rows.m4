m4_divert(-1)
m4_dnl find_rows.m4 -- finds the rows of a block in the cache.  Rows are described by runs of RUN rows: a pointer to the
m4_dnl first row, and an array with the byte offset of each row.  Most runs share an array of equal steps.
m4_dnl km_each_side(MACRO) -- MACRO(SIDE) for everything that has a row for each position: keys, values, separate
m4_dnl scales.
m4_define(«km_each_side», «$1(«key»)$1(«value»)m4_dnl
km_if(km_scales_apart(«key»), «$1(«key_scale»)»)km_if(km_scales_apart(«value»), «$1(«value_scale»)»)»)

m4_dnl The arrays of offsets: 0 has rows one stride apart, 1 repeats one row, and each run of scattered rows has its
m4_dnl own.
m4_define(«km_run_work», «    struct run $1_run[FOUND / RUN];
    int64_t $1_step[2 + FOUND / RUN][RUN];
»)
m4_define(«_km_set_steps», «        w->$1_step[0][i] = i * km_at_p(«$1_stride»);
        w->$1_step[1][i] = 0;
»)
m4_define(«_km_base», «(after ? p->after_$1 : p->$1)»)
m4_define(«_km_set_runs», «    lay_runs(w->$1_run + t / RUN, n / RUN,
        _km_base(«$1») + _km_slot(«$1») * km_at_p(«$1_stride»), w->$1_step[stays]);
»)
m4_dnl Rows in tiles are found as whole tiles, from the first row of the tile on.
m4_define(«_km_is_tiled», «m4_ifelse(«$1», «key», «km_in_tiles(km_key)», «$1», «value», «km_in_tiles(km_value)», 0)»)
m4_define(«_km_slot», «km_if(_km_is_tiled(«$1»), «(stays ? slot / km_tile_rows * km_tile_rows : slot)», slot)»)
m4_define(«_km_list_row», «km_if(_km_is_tiled(«$1»), «», «m4_dnl
        w->$1_step[2 + t / RUN][i] = (slot - first) * km_at_p(«$1_stride»);
»)»)
m4_define(«_km_set_listed_run», «km_if(_km_is_tiled(«$1»), «», «m4_dnl
    w->$1_run[t / RUN] = (struct run){_km_base(«$1») + first * km_at_p(«$1_stride»), w->$1_step[2 + t / RUN]};
»)»)

m4_dnl km_tile_rows -- with tiles, blocks begin at multiples of this number of rows; otherwise 1.  The first block of a
m4_dnl call begins at km_first_block, with the tile that contains position p->first; the tile's earlier rows are hidden.
m4_define(«km_tile_rows», «km_if(km_in_tiles(km_key) || km_in_tiles(km_value), 16, 1)»)
m4_define(«km_first_block», «km_if(km_tile_rows > 1, «-(p->extent->slot % km_tile_rows)», 0)»)

m4_dnl km_run_words -- types and functions for runs.  km_row(SIDE, T) -- where row T of the block is.
m4_define(«km_run_words», «m4_dnl
/* RUN rows of the cache: row i is step[i] bytes after the first one.  */
struct run {
    const unsigned char *first;
    const int64_t *step;
};

/* The place of a row: `passed` rows into an extent.  After the last extent it is the last row.  */
struct place {
    const struct kvmill_extent *extent;
    int64_t passed;
};

km_inline(«const unsigned char *», «row_of(const struct run *run, int64_t t)»)
{
    return run[(uint64_t)t / RUN].first + run[(uint64_t)t / RUN].step[t % RUN];
}

/* The rows of a run from row t on.  */
km_inline(«struct run», «run_from(const struct run *run, int64_t t)»)
{
    return (struct run){run[(uint64_t)t / RUN].first, run[(uint64_t)t / RUN].step + t % RUN};
}

»)
m4_define(«km_row», «row_of(w->$1_run, $2)»)
m4_dnl km_rows_of_keys(NAME, FIRST, COUNT) -- defines NAME_FIRST and so on: where COUNT keys of a run are, from t +
m4_dnl FIRST on.
m4_define(«km_rows_of_keys», «m4_dnl
    const struct run km_named(keys, $2) = run_from(w->key_run, t + $2);
km_times(«I», $3, «m4_dnl
    const unsigned char *km_named($1, m4_eval($2 + I)) = km_named(keys, $2).first + km_named(keys, $2).step[I];
»)»)

m4_dnl km_find_rows -- defines find_rows, which finds the rows of a block and those ahead that are prefetched.
m4_define(«_km_before_low», «km_if(km_tile_rows > 1, « + (t + i < low ? low - t - i : 0)»)»)
m4_define(«_km_low», «km_if(km_tile_rows > 1, «, int64_t low»)»)
m4_define(«km_find_rows», «m4_dnl
/* The place n rows further on, in a later extent if there is one.  */
km_inline(«struct place», «place_after(struct place at, int64_t n)»)
{
    for (at.passed += n; at.passed >= at.extent->count && at.extent[1].count > 0; at.extent++)
        at.passed -= at.extent->count;
    return at;
}

/* Set n runs, one after the other; if the step is 0, all are the same row.  */
km_inline(«void», «lay_runs(struct run *run, int64_t n, const unsigned char *first, const int64_t *step)»)
{
    for (int64_t i = 0; i < n; i++, first += step[RUN - 1] + step[1])
        run[i] = (struct run){first, step};
}

km_inline(«int64_t», «slot_at(struct place at)»)
{
    return at.extent->slot + smaller(at.passed, at.extent->count - 1);
}

/* Set the runs for n rows of the block, from row t on.  They are the slots from `slot` on, or, if `stays`, always
   `slot`.  With `after`, they belong to the next call.  */
km_inline(«void», «set_runs(const struct kvmill_attend *p, struct work *w, int64_t t, int64_t n, int64_t slot,
    int stays, int after)»)
{
km_each_side(«_km_set_runs»)}

/* List rows t to t + RUN - 1 one by one, because they are not adjacent or do not all belong to the call.  A row that is
   not the call's is replaced by the nearest one that is.  */
km_apart(«void», «list_run(const struct kvmill_attend *p, struct work *w, int64_t t, struct place at«»_km_low,
    int64_t n, int after)»)
{
km_if(km_tile_rows > 1, «    set_runs(p, w, t, RUN, slot_at(at), 0, after);
»)m4_dnl
    const int64_t first = slot_at(at);
    for (int64_t i = 0; i < RUN; i++) {
        int64_t slot = slot_at(at)_km_before_low;
km_each_side(«_km_list_row»)m4_dnl
        if (t + i < n - 1)
            at = place_after(at, 1);
    }
km_each_side(«_km_set_listed_run»)}

/* Set whole runs of adjacent rows, from row t on: those that lie within this extent and before row `end`.  If there is
   none, list one run.  Returns the number of rows.  */
km_inline(«int64_t», «find_runs(const struct kvmill_attend *p, struct work *w, int64_t t, int64_t end,
    struct place at«»_km_low, int after)»)
{
    int64_t n = smaller(end - t, at.extent->count - at.passed) / RUN * RUN;
    if (n > 0«»km_if(km_tile_rows > 1, « && t >= low»)) {
        set_runs(p, w, t, n, slot_at(at), 0, after);
        return n;
    }
    list_run(p, w, t, at«»km_if(km_tile_rows > 1, «, low»), end, after);
    return RUN;
}

/* Find the n rows of a block.  The rest of the block repeats the last row.  */
km_inline(«void», «find_block(const struct kvmill_attend *p, struct work *w, struct place at«»_km_low, int64_t n)»)
{
    int64_t t = 0, count;
    const struct place last = place_after(at, n - 1);
    for (; t < n; t += count, at = place_after(at, count))
        count = find_runs(p, w, t, n, at«»km_if(km_tile_rows > 1, «, low»), 0);
    if (t < BLOCK)
        set_runs(p, w, t, BLOCK - t, slot_at(last), 1, 0);
}

km_touch_extents«»m4_dnl
km_inline(«void», «find_rows(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    struct place here = at <= 0 ? (struct place){p->extent, at} : w->next;
    for (int64_t i = 0; at <= 0 && i < RUN; i++) {
km_each_side(«_km_set_steps»)m4_dnl
    }
km_if(km_part(«is_transposed», km_key), «    w->keys = p->key;
»)m4_dnl
    find_block(p, w, here«»km_if(km_tile_rows > 1, «, at < 0 ? -at : 0»), n);
    w->next = here = place_after(here, BLOCK);
    for (int64_t t = BLOCK, count; t < FOUND; t += count, here = place_after(here, count)) {
        const int after = at + t >= p->count && p->after_key != NULL;
        count = find_runs(p, w, t, FOUND, here«»km_if(km_tile_rows > 1, «, 0»), after);
    }
km_if(km_outer > 0, «    touch_extents(p, here, at + FOUND >= p->count && p->after_key != NULL);
»)km_list_ahead«»m4_dnl
km_if(km_outer > 0 && (km_scales_apart(«key») || km_scales_apart(«value»)), «m4_dnl
    for (int64_t t = at <= 0 ? 0 : FOUND - BLOCK; t < FOUND; t += RUN) {
km_fetch_scales(«key»)km_fetch_scales(«value»)m4_dnl
    }
»)m4_dnl
}
»)
m4_divert(0)m4_dnl
