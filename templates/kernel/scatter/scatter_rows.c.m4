m4_dnl scatter_rows -- rows of windows, as vectors; rows of a known length are straight-line code.
km_head(«Scatter: rows of windows.», m4_ifelse(km_kind, «halves», «km_headers»))
km_combine_functions«»km_combine_row
km_index_functions«»km_point_types«»km_window_functions«»m4_dnl
km_if(km_row > 0, «km_apart(«void», «combine_rows(const struct kvmill_scatter_windows *p,
    const struct kvmill_scatter_loop *loop, int loops, unsigned char *to,
             const unsigned char *from)»)
{
    if (!p->fits) {
        walk(loop, loops, to, from);
        return;
    }
    if (loops > 1) {
        for (int64_t i = 0; i < loop->count; i++)
            combine_rows(p, loop + 1, loops - 1, to + i * loop->result_step, from + i * loop->update_step);
        return;
    }
km_combine_straight(km_row)}

», «km_walked_rows»)«»km_row_points«»km_scatter_descriptor«»m4_dnl
