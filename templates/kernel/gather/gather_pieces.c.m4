m4_dnl gather_pieces -- long contiguous windows, cut into pieces so that several parts of a run can share one.
km_head(«Gather windows: long ones, in pieces.», «»)
km_helpers«»km_long_copy(km_if(km_around, 4, 0), «stream > 1»)
km_gather_functions«»m4_dnl
km_run_function
{
    const struct kvmill_gather_windows *p = problem;
    const struct kvmill_gather_geometry *g = p->geometry;
    const struct starts starts = starts_of(g);
    int64_t turn[KVMILL_MOST_GATHER_AXES];
    int64_t around = km_if(km_around, «g->result_bytes >= km_around_from ? g->streams : 0», 0);
    /* The loop nest: pieces of windows; in copy_long() the bytes of a piece.  */
    for (int64_t u = first; u < last; u++) {
        struct place at = place_of(p, u / g->pieces, turn);
        int64_t begin = u % g->pieces * g->piece, left = g->bytes - begin;
        int64_t count = left < g->piece ? left : g->piece;
km_if(km_is_filled, «        if (is_outside(&starts, at)) {
            fill_bytes(at.result + begin, g->fill, count);
            continue;
        }
»)m4_dnl
        copy_long(at.result, begin, window_at(&starts, at), begin, count, around);
    }
}

km_gather_descriptor«»m4_dnl
