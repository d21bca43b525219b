m4_divert(-1)
m4_dnl attend.m4 -- shared by the attention kernels.
m4_dnl
m4_dnl A call attends to the rows of a cache, km_block positions at a time, in one pass (online softmax).  The loop nest
m4_dnl is in run.m4.  The steps of a block, and the files that define them:
m4_dnl   find_rows    find the rows of the block, and those that are prefetched (find_rows.m4, prefetch.m4)
m4_dnl   load_keys    convert or rearrange keys, unless they are used where they are (the variant, score_turned.m4)
m4_dnl   load_values  the same for values (load.m4, accumulate_WAY.m4)
m4_dnl   score        q . k for all query rows (the variant: attend_VARIANT.c.m4)
m4_dnl   softmax      turn scores into weights exp (score - max); if `max` grew, rescale the sums (softmax.m4;
m4_dnl                units.m4 if weights become integers)
m4_dnl   set_aside    take out what rows do not see and is not finite (unseen.m4)
m4_dnl   accumulate   add weight * v to the sums (accumulate.m4, accumulate_WAY.m4)
m4_dnl Scores and sums are computed for a tile of km_tile query rows at a time.  Both are products of the same form,
m4_dnl which km_product generates: a tile of rows by a strip of vectors, with all sums in registers.  Most variants have
m4_dnl positions in the lanes for scores, so that no sum runs across lanes.  Scores are in units of log 2.
km_need_all(«the definitions», «km_symbol», «km_activation», «km_key», «km_value», «km_key_dim», «km_value_dim»,
    «km_key_quant_group», «km_value_quant_group», «km_key_scale», «km_value_scale», «km_rows», «km_terms», «km_math»)
km_check_tuning

m4_dnl The number of rows is rounded up to a multiple of a tile, of a vector's quads, or of a group.
m4_define(«km_row_multiple», «km_if(km_quads, «m4_eval(km_lanes / 4)»,
    «km_if(km_dims && km_few_rows, km_group_rows, «km_tile»)»)»)

m4_dnl The number of vectors of a value; the first dim of a key that is not in a whole vector.
m4_define(«km_value_vectors», «m4_eval((km_value_dim + km_lanes - 1) / km_lanes)»)
m4_define(«km_key_whole», «m4_eval(km_key_dim / km_lanes * km_lanes)»)
m4_dnl Whether all rows are one register tile.
m4_define(«km_one_tile», «(km_rows <= km_tile)»)
m4_define(«km_tiles», «m4_eval(km_padded_rows / km_tile)»)
m4_define(«km_padded_rows», «m4_eval((km_rows + km_row_multiple - 1) / km_row_multiple * km_row_multiple)»)

m4_dnl km_vector(V) -- the first lane of vector V, counted over all vectors of a row or strip.
m4_define(«km_vector», «m4_eval(($1) * km_lanes)»)

m4_dnl km_values(WHAT) -- WHAT is work, load, accumulate or has_order: the macro of this name for the way in which
m4_dnl values are summed up.  Each way has a file, accumulate_WAY.m4; floats are in accumulate.m4.
m4_define(«km_values», «m4_indir(«km_$1_as_»km_values_are)»)
m4_define(«km_values_are», «m4_indir(«_km_values_are_»km_summing)»)
m4_define(«_km_values_are_0», «floats»)
m4_define(«_km_values_are_1», «codes»)
m4_define(«_km_values_are_2», «halves»)
m4_define(«_km_values_are_3», «pairs»)

m4_dnl km_aligned -- for arrays of the workspace that are loaded as vectors: loads across cache lines take twice as
m4_dnl long.
m4_define(«km_aligned», «_Alignas(64)»)

m4_dnl km_attend_types -- constants, and what a call keeps in its workspace.
m4_define(«km_attend_types», «enum {
    KEY_DIM = km_key_dim,
    KEY_PADDED = m4_eval((km_key_dim + km_lanes - 1) / km_lanes * km_lanes),
    VALUE_DIM = km_value_dim,
    VALUE_PADDED = m4_eval(km_value_vectors * km_lanes),
    ROWS = km_padded_rows,
    ALL_ROWS = m4_eval((km_padded_rows + km_lanes - 1) / km_lanes * km_lanes),
    TILE = km_tile,
    SOFTMAX_ROWS = km_softmax_rows, /* query rows that go through softmax at a time */
    STRIP = m4_eval(km_strip * km_lanes),
    BLOCK = km_block,
km_if(km_inner > 0, «    INNER = km_inner, /* rows ahead that are brought into the first cache */
»)km_if(km_outer > 0,
    «    OUTER = km_outer, /* rows ahead that are brought into the km_if(km_inner > 0, «second», «first») cache */
»)m4_dnl
    RUN = 8,          /* rows of the cache that are found together */
    FOUND = m4_eval(km_block + (km_most_of(km_inner + 8, km_outer) + 7) / 8 * 8), /* rows of a block and ahead of it */
};

km_run_words
struct work {
km_query_and_key«»m4_dnl
    km_aligned float acc[ROWS][VALUE_PADDED];
    km_aligned float score[ROWS][BLOCK]; /* after softmax: weights */
km_values(«work»)km_value_codes_work«»m4_dnl
km_unseen_work«»m4_dnl
    /* Where the rows of the block and those ahead of it are, and where the next block begins.  */
km_each_side(«km_run_work»)m4_dnl
km_work_ahead«»m4_dnl
    struct place next;
_km_scale_table(«key»)_km_scale_table(«value»)m4_dnl
    int64_t seen[ALL_ROWS]; /* positions of the block that the row's tile sees */
    float max[ALL_ROWS], sum[ALL_ROWS], rescale[ALL_ROWS];
};
»)
m4_define(«_km_scale_table», «km_if(km_minimums(«$1»), «    km_aligned float $1_minimum[km_scales(«$1»)][BLOCK];
»)km_if(km_scales(«$1») == 0, «», «km_if(km_by_group($1), «    km_aligned float $1_scale[km_scales(«$1»)][BLOCK];
», «    float $1_scale[BLOCK + LANES][km_scales(«$1»)]; /* vectors read past the end of a row */
»)»)»)

m4_define(«km_attend_words», «static const float log2_e = 1.44269504f, ln_2 = 0.693147181f;

km_inline(«int64_t», «smaller(int64_t a, int64_t b)»)
{
    return a < b ? a : b;
}

»)

m4_dnl km_product(NAME, PARAMETERS, VECTORS, PART, TEXT, ...) -- defines the function NAME, which computes a register
m4_dnl tile of km_tile rows by VECTORS vectors: sum[R][V] += left[R] * right[V] for each step k.  In its text these are
m4_dnl s_R_V, a_R and b_V.  Its parts, for row R and vector V:
m4_dnl   begin    the initial value of the sum
m4_dnl   steps    the number of steps
m4_dnl   left     the factor of the row at step k
m4_dnl   right    the factor of the vector at step k
m4_dnl   end      what to do with the sum s_R_V
m4_dnl   unroll   text before the loop over steps
m4_dnl   values   how many rows of values a step reads from the cache, as value_0, value_1; the loop then goes run by
m4_dnl            run, and prefetches (km_fetch_in_strip)
m4_dnl   strip, strips  with `values`: which strip of a value this is, and of how many
m4_dnl   starts   with `values`: when this is the first part of the strip, unless it always is
m4_dnl   add      a macro of (SUM, LEFT, RIGHT), if the sums are not floats
m4_dnl   about    a comment that says what the function computes
m4_define(«km_product», «m4_define(«km_tile_unroll», «»)m4_define(«km_tile_values», 0)m4_dnl
m4_define(«km_tile_starts», «»)m4_dnl
m4_define(«km_tile_add», «_km_multiply_add»)m4_dnl
_km_set_parts(m4_shift(m4_shift(m4_shift($@))))_km_product(«$1», «$2», $3)»)
m4_define(«_km_set_parts», «m4_ifelse(«$1», «», «»,
    «m4_define(«km_tile_$1», «$2»)_km_set_parts(m4_shift(m4_shift($@)))»)»)
m4_define(«_km_multiply_add», «$1 += $2 * $3»)

m4_define(«_km_product», «/* km_tile_about  */
km_inline(«void», «$1($2)»)
{
km_each_sum($3, «    __auto_type km_named(s, R, V) = km_tile_begin;
»)m4_dnl
km_if(km_tile_values, «km_fetch_in_strip(«before»)»)m4_dnl
_km_each_step(«km_times(«V», $3, «        __auto_type km_named(b, V) = km_tile_right;
»)km_times(«R», km_tile, «        __auto_type km_named(a, R) = km_tile_left;
km_times(«V», $3, «        m4_indir(m4_defn(«km_tile_add»), «km_named(s, R, V)», «km_named(a, R)», «km_named(b, V)»);
»)»)»)m4_dnl
km_each_sum($3, «    km_tile_end;
»)}
»)
m4_define(«_km_each_step», «km_if(km_tile_values == 0, «km_tile_unroll«»m4_dnl
    for (int64_t k = 0; k < km_tile_steps; k++) {
$1    }
», «    for (int64_t next = 0; next < km_tile_steps; next += m4_eval(8 / km_tile_values)) {
km_fetch_in_strip(«run»)m4_dnl
        const struct run run = w->value_run[next / m4_eval(8 / km_tile_values)];
_km_each_step_of_run«»m4_dnl
km_fetch_in_strip(«row»)m4_dnl
km_times(«I», km_tile_values, «m4_dnl
            const unsigned char *km_named(value, I) = run.first + run.step[_km_row_in_run + I];
»)m4_dnl
$1        }
    }
»)»)

m4_define(«_km_row_in_run», «km_if(km_tile_values == 1, «k - next», «km_tile_values * (k - next)»)»)
m4_dnl Steps that read two rows always cover a whole run, in straight-line code.
m4_define(«_km_each_step_of_run», «km_if(km_tile_values == 1, «m4_dnl
        for (int64_t k = next, end = smaller(next + RUN, km_tile_steps); k < end; k++) {
», «m4_dnl
#pragma GCC unroll 4
        for (int64_t k = next; k < next + m4_eval(8 / km_tile_values); k++) {
»)»)

m4_dnl km_each_sum(VECTORS, BODY) -- BODY for every row R and vector V of a tile.
m4_define(«km_each_sum», «km_times(«R», km_tile, «km_times(«V», $1, «$2»)»)»)

m4_dnl km_set_query_in_turn -- defines set_query, which stores the dims of a query row in order.
m4_define(«km_set_query_in_turn», «km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    memcpy(w->query[r], x, sizeof w->query[r]);
}
»)

m4_dnl km_score_strips(VECTORS) -- defines score, which goes by strips of VECTORS vectors of positions.
m4_define(«km_score_strips», «km_inline(«void», «score(struct work *w, int64_t r, int64_t n)»)
{
    for (int64_t t = 0; t < n; t += m4_eval($1 * km_lanes))
        score_strip(w, r, t);
}
»)

m4_dnl km_halving(COUNT, MACRO) -- MACRO(COUNT), MACRO(COUNT / 2), and so on down to MACRO(1).
m4_define(«km_halving», «$2(«$1»)km_if($1 > 1, «km_halving(m4_eval($1 / 2), «$2»)»)»)

m4_dnl km_number(NAME) -- the number whose digits in base 256 are NAME_0, NAME_1 ..., as floats.
m4_define(«km_number», «m4_indir(«_km_number_of_»km_limbs, «$1»)»)
m4_define(«_km_number_of_1», «_km_float(«$1«»_0»)»)
m4_define(«_km_number_of_2», «_km_float(«$1«»_1») * 256.f + _km_float(«$1«»_0»)»)
m4_define(«_km_number_of_3»,
    «(_km_float(«$1«»_2») * 256.f + _km_float(«$1«»_1»)) * 256.f + _km_float(«$1«»_0»)»)
m4_define(«_km_float», «__builtin_convertvector($1, vf)»)

m4_dnl km_attend -- the file of a kernel, after its head.
m4_define(«km_attend», «km_attend_types
km_attend_words
km_define_fetch
km_find_rows
m4_ifdef(«km_load_keys», «km_load_keys»)
km_values(«load»)
km_score
km_softmax
km_set_aside
km_values(«accumulate»)
km_set_query
km_begin
m4_ifdef(«km_set_digits», «km_score_parts
»)m4_dnl
km_end
km_attend_run
km_attend_descriptor»)

m4_dnl km_attend_descriptor -- what the library sees of the kernel.
m4_define(«_km_format», «{km_enumerator(km_$1), km_$1_dim, km_enumerator(km_$1_scale), km_$1_quant_group}»)
m4_define(«km_attend_descriptor», «km_descriptor(«KVMILL_ATTEND», «kvmill_attend_shape shape = {
    .activation = km_enumerator(km_activation),
    .key = _km_format(«key»),
    .value = _km_format(«value»),
    .rows = km_rows,
    .math = KVMILL_MATH_«»m4_translit(km_math, «a-z», «A-Z»),
    .terms = m4_eval(km_has_cap + 2 * km_has_bias),
    .workspace = sizeof(struct work),
}», 0, «kvmill_attend»)»)
m4_divert(0)m4_dnl
