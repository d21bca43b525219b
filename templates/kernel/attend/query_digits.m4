m4_divert(-1)
m4_dnl query_digits.m4 -- queries as integers, for `codes` and `pairs`.  A query row has one unit, the value of 1 in its
m4_dnl last digit, to which its elements are rounded.  The unit follows from the largest element, and must not be too
m4_dnl coarse for the others.  If it is, the row is *wide*, and its scores are computed in parts: the digits of each
m4_dnl part are those of what the parts before it left out, and the scores of the parts are added.  A variant defines:
m4_dnl   km_most_of_query  the largest number that the digits of an element can hold
m4_dnl   km_set_digits     set_digits (w, r, x, unit), which stores row r in units, and the unit in w->unit[r]

m4_define(«km_query_work», «    float unit[ROWS];                /* of a query's last digit */
    unsigned char wide[ROWS / TILE]; /* whether a row of the tile is wide */
»)

m4_define(«km_set_query», «/* The largest magnitude of x, or NaN if x contains one.  */
km_inline(«float», «largest_magnitude(const float *x)»)
{
    vf top = broadcast(0.f), sum = broadcast(0.f);
    for (int d = 0; d < KEY_DIM; d += LANES) {
        top = max_f32(top, abs_f32(load_f32(x + d)));
        sum += load_f32(x + d);
    }
    return largest_of(top) + sum_of(sum) * 0.f;
}

/* Whether digits for numbers up to `top` are too coarse for x: more than a quarter of its elements that are not 0 are
   below a 64th of that.  */
km_inline(«int», «is_wide(const float *x, float top)»)
{
    vf limit = broadcast(top / 64.f), zero = broadcast(0.f);
    vi count = {0}; /* 4 for each number below the limit, of which 3 are taken off for each 0 */
    for (int d = 0; d < KEY_DIM; d += LANES) {
        vf size = abs_f32(load_f32(x + d));
        count += 3 * (size == zero) - 4 * (size < limit);
    }
    return sum_of(__builtin_convertvector(count, vf)) > KEY_DIM;
}

/* The unit of numbers up to `max`.  That of wide rows is a power of 2, so that what digits leave out is a float32;
   it is 0 if so little is left that its inverse may be too large.  */
km_inline(«float», «unit_of(float max, int wide)»)
{
    float unit = max / km_most_of_query;
    if (!wide)
        return unit;
    return unit < 0x1p-120f ? 0.f : float_of((bits_of(unit) + 0x7fffff) & 0xff800000);
}

km_set_digits
km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    float max = largest_magnitude(x);
    int wide = is_wide(x, max);
    set_digits(w, r, x, unit_of(max, wide));
    w->wide[r / TILE] |= wide;
}
»)

m4_dnl km_score_parts -- defines score_parts, which is called after the scores of a tile with a wide row.
m4_define(«km_score_parts», «/* Take from x what its digits hold.  */
km_inline(«void», «take_digits(float *x, float unit)»)
{
    vf per_unit = broadcast(unit > 0.f ? 1.f / unit : 0.f);
    for (int d = 0; d < KEY_DIM; d += LANES) {
        vf here = load_f32(x + d);
        store_f32(x + d, here - __builtin_convertvector(round_even(here * per_unit), vf) * unit);
    }
}

/* Set the digits of the next part of row r.  `rest` is what the digits so far, except for the last ones, left out of x.
   Returns whether anything is left.  */
km_inline(«int», «set_next_part(struct work *w, int64_t r, const float *x, float *rest)»)
{
    if (is_wide(x, w->unit[r] * km_most_of_query))
        take_digits(rest, w->unit[r]);
    else
        memset(rest, 0, KEY_PADDED * sizeof *rest);
    float unit = unit_of(largest_magnitude(rest), 1);
    set_digits(w, r, rest, unit);
    return unit > 0.f;
}

/* Add the other parts to the scores of a tile for n positions, and set the digits of the first part again.  */
km_rare(«void», «score_parts(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t n)»)
{
    const int64_t rows = smaller(TILE, km_at_p(«rows») - r);
    float x[TILE][KEY_PADDED], rest[TILE][KEY_PADDED], sum[TILE][BLOCK];
    int more = 1;
    for (int64_t i = 0; i < rows; i++) {
        load_query(p, r + i, x[i]);
        memcpy(rest[i], x[i], sizeof x[i]);
        memset(sum[i], 0, sizeof sum[i]);
    }
    while (more) {
        more = 0;
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t t = 0; t < n; t += LANES)
                store_f32(sum[i] + t, load_f32(sum[i] + t) + load_f32(w->score[r + i] + t));
            more |= set_next_part(w, r + i, x[i], rest[i]);
        }
        if (more)
            score(w, r, n);
    }
    for (int64_t i = 0; i < rows; i++) {
        memcpy(w->score[r + i], sum[i], sizeof sum[i]);
        set_query(w, r + i, x[i]);
    }
}
»)
m4_divert(0)m4_dnl
