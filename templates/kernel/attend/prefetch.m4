m4_divert(-1)
m4_dnl prefetch.m4 -- lines of the cache that are needed later: those of the row OUTER rows ahead are brought into the
m4_dnl outer cache (the second), those of the row INNER ahead into the inner one (the first).  Rows are
m4_dnl fetched a few at a time beside the arithmetic, each line once per level, never in an innermost loop: the
m4_dnl processor can only hold so many lines in flight, and these should never run out.
m4_define(«km_lines», «m4_eval((km_row_bytes_of(km_$1, km_$1_dim) + 63) / 64)»)

m4_dnl km_fetch(SIDE, ROW, COUNT) -- for COUNT rows from ROW on those OUTER ahead; km_fetch_inner(SIDE, ROW, COUNT) --
m4_dnl those INNER ahead.
m4_define(«km_fetch», «km_if(km_outer > 0, «        fetch_$1_rows(w, $2 + OUTER, $3);
»)»)
m4_define(«km_fetch_inner», «km_if(km_inner > 0, «        fetch_inner_$1_rows(w, $2 + INNER, $3);
»)»)

m4_dnl km_fetch_line(SIDE, ROW, COUNT, LINE), km_fetch_inner_line(SIDE, ROW, COUNT, LINE) -- one line of each.
m4_define(«km_fetch_line», «km_if(km_outer > 0, «_km_fetch_line(«$1», «$2 + OUTER», $3, «$4», 2)»)»)
m4_define(«km_fetch_inner_line», «km_if(km_inner > 0, «_km_fetch_line(«$1», «$2 + INNER», $3, «$4», 3)»)»)
m4_define(«_km_fetch_line», «km_times(«I», $3, «        __builtin_prefetch(w->$1_row[$2 + I] + ($4) * 64, 0, $5);
»)»)

m4_dnl km_fetch_scales(SIDE) -- of rows that are found OUTER ahead, where these are new: a line of them at a time.
m4_define(«km_fetch_scales», «km_if(km_outer > 0 && km_scales_apart(«$1»), «m4_dnl
    int64_t $1_step = km_at_p(«$1_scale_stride») > 0 && km_at_p(«$1_scale_stride») < 64 ?m4_dnl
 64 / km_at_p(«$1_scale_stride») : 1;
    for (int64_t i = 0; moves && i < n; i += $1_step)
        __builtin_prefetch(w->$1_scale_row[t + i], 0, 3);
»)»)

m4_dnl km_define_fetch -- defines them.
m4_define(«km_define_fetch», «m4_dnl
km_if(km_outer > 0, «_km_define_fetch(«fetch», «key», 2)_km_define_fetch(«fetch», «value», 2)»)m4_dnl
km_if(km_inner > 0, «_km_define_fetch(«fetch_inner», «key», 3)_km_define_fetch(«fetch_inner», «value», 3)»)»)
m4_define(«_km_define_fetch», «km_inline(«void», «$1_$2_rows(const struct work *w, int64_t first, int64_t count)»)
{
    for (int64_t t = first; t < first + count; t++) {
        const unsigned char *row = w->$2_row[t];
km_times(«I», km_lines(«$2»), «        __builtin_prefetch(row + m4_eval(I * 64), 0, $3);
»)    }
}

»)
m4_divert(0)m4_dnl
