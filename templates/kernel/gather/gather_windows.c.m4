m4_dnl gather_windows -- windows of a known size, one after the other along the innermost axis.
m4_divert(-1)
m4_dnl km_move_run(TO, FROM) -- move adjacent bytes by km_by; km_move_run_ahead also prefetches those of NEXT.
m4_define(«km_move_run», «m4_pushdef(«km_to», «$1»)m4_pushdef(«km_from», «$2»)km_in_stretches(km_bytes,
    «_km_move_block»)m4_popdef(«km_to», «km_from»)»)
m4_define(«_km_move_block», «m4_indir(m4_defn(«km_by»), «$1», «km_to», «$2», «km_from», «$2»)»)
m4_define(«km_move_run_ahead», «m4_pushdef(«km_next», «$3»)m4_pushdef(«_km_move_block»,
    m4_defn(«_km_move_block_ahead»))km_move_run($@)m4_popdef(«km_next», «_km_move_block»)»)
m4_define(«_km_move_block_ahead», «km_each(«L», 0, $1 - 1, 64, «        __builtin_prefetch(km_next + $2 + L);
»)m4_indir(m4_defn(«km_by»), «$1», «km_to», «$2», «km_from», «$2»)»)
m4_define(«km_fill_run», «        fill_bytes($1, g->fill, km_bytes);
»)

m4_dnl km_one_window(BODY) -- the window at `at`, then on to the next one.
m4_define(«km_one_window», «km_if(km_is_filled, «        if (is_outside(&starts, at)) {
km_window(«km_fill_run», «at.result», «at.operand», «»)        } else {
$1        }
», «$1»)        move(&at, &axis, 1);
»)

m4_dnl km_line(NAME) -- defines NAME(g, at, count): `count` windows along the innermost axis.
m4_define(«km_line», «km_if(km_streams > 1 && km_streams == km_preset_streams, «_km_line(«$1_in_turn»)m4_dnl
m4_pushdef(«km_streams», 1)_km_line(«$1_in_order»)m4_popdef(«km_streams»)m4_dnl
km_function(«void», «$1(const struct kvmill_gather_geometry *g, struct place at, int64_t count)»)
{
    if (g->streams > 1)
        $1_in_turn(g, at, count);
    else
        $1_in_order(g, at, count);
}

», «_km_line(«$1»)»)»)
m4_define(«_km_line», «km_function(«void», «$1(const struct kvmill_gather_geometry *g, struct place at, int64_t count)»)
{
    const struct kvmill_gather_axis axis = g->axis[g->axes - 1];
    const struct starts starts = starts_of(g);
    int64_t i = 0;
km_if(km_ahead, «    for (; i < count - km_ahead; i++) {
        struct place later = at;
        move(&later, &axis, km_ahead);
        const unsigned char *from = window_at(&starts, at), *next = window_at(&starts, later);
km_one_window(«km_window(«km_move_run_ahead», «at.result», «from», «next»)»)    }
»)m4_dnl
    for (; i < count; i++) {
        const unsigned char *from = window_at(&starts, at);
km_one_window(«km_window(«km_move_run», «at.result», «from», «»)»)    }
}

»)
m4_divert(0)m4_dnl
km_head(«Gather windows: of a known size, one after the other.», «»)
km_gather_functions«»m4_dnl
m4_define(«km_by», «km_copy»)m4_dnl
km_line(«gather_line»)m4_dnl
km_if(km_around, «m4_define(«km_by», «km_copy_around»)m4_dnl
km_line(«gather_line_around»)m4_dnl
km_function(«int», «goes_around(const struct kvmill_gather_windows *p)»)
{
    const struct kvmill_gather_geometry *g = p->geometry;
    int64_t all = (int64_t)(uintptr_t)p->result;
    for (int64_t a = 0; a < g->axes; a++)
        all |= g->axis[a].to;
    return g->result_bytes >= km_around_from && all % km_stream_bytes == 0;
}

»)m4_dnl
/* Go to the first window of the next line.  */
km_function(«void», «next_line(const struct kvmill_gather_geometry *g, int64_t *turn, struct place *at)»)
{
    int64_t a = g->axes - 1;
    move(at, &g->axis[a], -turn[a]);
    turn[a] = 0;
    while (--a >= 0) {
        move(at, &g->axis[a], 1);
        if (++turn[a] < g->axis[a].extent)
            return;
        move(at, &g->axis[a], -turn[a]);
        turn[a] = 0;
    }
}

km_run_function
{
    const struct kvmill_gather_windows *p = problem;
    const struct kvmill_gather_geometry *g = p->geometry;
    int64_t turn[KVMILL_MOST_GATHER_AXES], inner = g->axes - 1;
    struct place at = place_of(p, first, turn);
km_if(km_around, «    int around = goes_around(p);
»)m4_dnl
    /* The loop nest: lines of windows; in gather_line() the windows of a line, and the bytes of each.  */
    while (first < last) {
        int64_t line = g->axis[inner].extent - turn[inner], left = last - first;
        int64_t count = line < left ? line : left;
km_if(km_around, «        if (around)
            gather_line_around(g, at, count);
        else
            gather_line(g, at, count);
», «        gather_line(g, at, count);
»)m4_dnl
        first += count;
        next_line(g, turn, &at);
    }
km_if(km_around, «    if (around)
        km_stream_end;
»)m4_dnl
}

km_gather_descriptor«»m4_dnl
