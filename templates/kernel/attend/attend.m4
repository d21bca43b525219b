m4_divert(-1)
m4_dnl attend.m4 -- what the kernels that attend have in common.
m4_dnl
m4_dnl A call takes the cache in blocks of km_block positions.  Of each block the keys are laid out with positions
m4_dnl in the lanes, so that no sum runs across lanes; then tiles of km_tile query rows at a time
m4_dnl   score   q . k of a tile and the block,
m4_dnl   weigh   turn scores into exp (score - largest), and
m4_dnl   gather  add weight * v to the sums,
m4_dnl both products by one register tile.  Scores are in units of log 2.
km_need_all(«the definitions», «km_symbol», «km_activation», «km_key», «km_value», «km_key_dim», «km_value_dim», «km_key_quant_group», «km_value_quant_group», «km_key_scale», «km_value_scale», «km_rows», «km_terms», «km_math»)
km_check_tuning

m4_dnl Rows come in whole tiles, or in whole vectors of quads.
m4_define(«km_row_multiple», «km_if(km_quads, «m4_eval(km_lanes / 4)», «km_tile»)»)

m4_dnl Vectors of a value, and the first dim that is not in a whole vector of a key.
m4_define(«km_value_vectors», «m4_eval((km_value_dim + km_lanes - 1) / km_lanes)»)
m4_define(«km_key_whole», «m4_eval(km_key_dim / km_lanes * km_lanes)»)
m4_dnl All rows are one register tile.
m4_define(«km_one_tile», «(km_rows <= km_tile)»)
m4_define(«km_padded_rows», «m4_eval((km_rows + km_row_multiple - 1) / km_row_multiple * km_row_multiple)»)

m4_dnl km_take(SIDE, ROW, T, DIM, COUNT) -- LANES elements of a row of SIDE (key, value) from DIM on, as floats; T is its
m4_dnl place in the block.
m4_define(«km_take», «km_codes_of(km_$1, «$2», «$4», $5)km_if(km_scales(«$1»), « * km_spread(«km_factor_at(«scale», «$1», «$3», «$4»)», «$4», km_group_of(«$1»))»)km_if(km_minimums(«$1»), « + km_spread(«km_factor_at(«minimum», «$1», «$3», «$4»)», «$4», km_group_of(«$1»))»)»)

m4_dnl Scales of a block: by group, then position, where a vector has one scale; else by position, then group.
m4_dnl km_scales(SIDE), km_minimums(SIDE) -- how many of them a row has.
m4_define(«km_scales», «m4_ifelse(km_part(«scales_of», km_$1), «none», 0, «m4_eval(km_$1_dim / km_group_of(«$1»))»)»)
m4_define(«km_minimums», «km_if(km_part(«has_minimum», km_$1), «km_scales(«$1»)», 0)»)
m4_define(«km_group_of», «km_if(_km_in_blocks(«$1»), «km_part(«block», km_$1)», «km_$1_quant_group»)»)
m4_define(«_km_in_blocks», «km_is_in(km_$1, «blocks»)»)
m4_define(«km_by_group», «(km_group_of($1) % m4_ifelse($1, «value», «m4_eval(km_lanes * (1 + km_half_values))», km_lanes) == 0 m4_ifdef(«km_$1_by_codes», «|| 1») m4_ifelse($1, «value», «|| km_value_codes»))»)
m4_dnl km_factor_at(WHAT, SIDE, T, DIM) -- the scale or minimum of an element.
m4_define(«km_factor_at», «km_if(km_by_group($2), «w->$2_$1[($4) / km_group_of($2)][$3]», «w->$2_$1[$3] + ($4) / km_group_of($2)»)»)

m4_dnl km_spread(SCALES, DIM, GROUP) -- the factor of each lane.
m4_define(«km_spread», «km_if($3 % km_lanes == 0, «broadcast($1)», «km_if(km_lanes % $3 == 0, «__builtin_shufflevector(load_f32($1), load_f32($1), km_lane_list(«m4_eval(L / $3)»))», «((vf){km_lane_list(«($1)[(($2) + L) / $3 - ($2) / $3]»)})»)»)»)

m4_define(«km_has_cap», «m4_ifelse(km_terms, «cap», 1, km_terms, «capbias», 1, 0)»)
m4_define(«km_has_bias», «m4_ifelse(km_terms, «bias», 1, km_terms, «capbias», 1, 0)»)

m4_dnl km_attend_types -- constants, and what a call keeps in its workspace.
m4_define(«km_attend_types», «enum {
    KEY_DIM = km_key_dim,
    KEY_PADDED = m4_eval((km_key_dim + km_lanes - 1) / km_lanes * km_lanes),
    VALUE_DIM = km_value_dim,
    VALUE_PADDED = m4_eval(km_value_vectors * km_lanes),
    ROWS = km_padded_rows,
    ALL_ROWS = m4_eval((km_padded_rows + km_lanes - 1) / km_lanes * km_lanes),
    TILE = km_tile,
    STRIP = m4_eval(km_strip * km_lanes),
    BLOCK = km_block,
    NEAR = km_near,   /* rows ahead that are brought into the first cache */
    AHEAD = km_ahead, /* and into the second */
    FOUND = BLOCK + (NEAR > LANES ? NEAR : LANES),
    LISTED = BLOCK + AHEAD > FOUND ? BLOCK + AHEAD : FOUND,
};

struct work {
km_query_and_key«»m4_dnl
    float sum[ROWS][VALUE_PADDED];
    float score[ROWS][BLOCK]; /* then weights */
km_if(km_value_codes, «km_value_work«»», «km_if(km_half_values, «km_half_work«»», «km_if(km_direct, «», «    float value[BLOCK][VALUE_PADDED];
»)»)»)m4_dnl
    const unsigned char *key_row[FOUND], *value_row[FOUND]; /* of the block, and a little more */
km_if(km_ahead > 0, «    const unsigned char *next[BLOCK * km_row_lines]; /* lines of the rows AHEAD */
»)m4_dnl
_km_scale_table(«key»)_km_scale_table(«value»)m4_dnl
    int64_t seen[ALL_ROWS]; /* positions of the block that the tile of a row sees */
    float largest[ALL_ROWS], total[ALL_ROWS], grow[ALL_ROWS];
};
»)
m4_define(«_km_scale_table», «km_if(km_minimums(«$1»), «    float $1_minimum[km_scales(«$1»)][BLOCK];
»)km_if(km_scales(«$1») == 0, «», «km_if(km_by_group($1), «    float $1_scale[km_scales(«$1»)][BLOCK];
», «    float $1_scale[BLOCK + LANES][km_scales(«$1»)]; /* vectors reach beyond a row */
»)»)»)

m4_define(«km_attend_words», «static const float log2_e = 1.44269504f, ln_2 = 0.693147181f;

km_inline(«int64_t», «smaller(int64_t a, int64_t b)»)
{
    return a < b ? a : b;
}

/* Cache row of position i of the call; behind the last one, the last one again.  */
km_inline(«int64_t», «slot_of(const struct kvmill_attend *p, int64_t i)»)
{
    return p->slot[smaller(i, p->count - 1)];
}

km_inline(«int64_t», «slot_ahead(const struct kvmill_attend *p, int64_t i)»)
{
    return p->slot[smaller(i, p->count + p->ahead - 1)];
}

»)

m4_dnl km_fetch(SHARE, STEP, STEPS) -- in step STEP of STEPS fetch a part of SHARE of the lines that are needed AHEAD rows
m4_dnl on.  The processor's own prefetching loses the thread, and it can only hold so many lines in flight: so that
m4_dnl these never run out, the requests trickle through all of the arithmetic.
m4_define(«km_lines», «m4_eval((km_row_bytes_of(km_$1, km_$1_dim) + 63) / 64)»)
m4_define(«km_row_lines», «m4_eval(km_lines(«key») + km_lines(«value»))»)
m4_dnl Shares of 1000: FIRST, COUNT.  Many tiles of rows would fetch again what the first one did.
m4_define(«km_share_keys», «km_if(km_one_tile, «0, 200», «0, 500»)»)
m4_define(«km_share_score», «km_if(km_one_tile, «200, 250», «0, 0»)»)
m4_define(«km_share_weigh», «km_if(km_one_tile, «450, 100», «0, 0»)»)
m4_define(«km_share_values», «km_if(km_one_tile, «550, 200», «500, 500»)»)
m4_define(«km_share_gather», «km_if(km_one_tile, «km_if(km_direct, «550, 450», «750, 250»)», «0, 0»)»)
m4_define(«km_fetch», «_km_fetch(m4_indir(«km_share_$1»), «$2», $3)»)
m4_define(«_km_fetch», «km_if($2 == 0 || km_ahead == 0, «», «_km_fetch_lines(m4_eval($1 * km_row_lines * km_block / 1000), m4_eval(($1 + $2) * km_row_lines * km_block / 1000 - $1 * km_row_lines * km_block / 1000), «$3», $4)»)»)
m4_define(«_km_fetch_lines», «_km_fetch_some($1, $2, «$3», m4_eval(($2 + $4 - 1) / ($4)), $4)»)
m4_define(«_km_fetch_some», «km_each(«I», 0, m4_eval($4 - 1), 1, «        km_if($4 * ($5) > $2, «if (($3) * $4 + I < $2) »)__builtin_prefetch(w->next[$1 + ($3) * $4 + I], 0, 2);
»)»)

m4_dnl km_fetch_near(SIDE, I, FROM, LINES) -- bring LINES lines from byte FROM on of the row NEAR behind row I closer.
m4_define(«km_fetch_near», «km_if(km_near > 0, «_km_fetch_near($@)»)»)
m4_define(«_km_fetch_near», «km_each(«I», 0, m4_eval($4 - 1), 1, «        __builtin_prefetch(w->$1_row[$2 + NEAR] + $3 + I * 64, 0, 3);
»)»)

m4_dnl km_take_scales -- defines take_SIDE_scales (p, w, at, n): the scales of a block as floats.
m4_define(«km_take_scales», «km_if(km_scales(«$1») == 0, «», «km_if(km_by_group($1), «km_if(km_scales(«$1») % km_lanes == 0 && !_km_in_blocks($1), «_km_scales_turned(«$1»)», «km_if(_km_scale_words(«$1») <= 2 && !_km_in_blocks($1), «_km_scales_in_words(«$1»)», «_km_scales_by_group(«$1»)»)»)», «_km_scales_by_row(«$1»)»)»)»)

m4_define(«_km_scale_type», «km_if(_km_in_blocks(«$1»), «f16», «m4_indir(«km_$1_scale»)»)»)
m4_define(«_km_scale_c_type», «m4_ifelse(_km_scale_type(«$1»), «f32», «uint32_t», «uint16_t»)»)
m4_define(«_km_scale_size», «m4_ifelse(_km_scale_type(«$1»), «f32», 4, 2)»)
m4_define(«_km_scale_row», «km_if(_km_in_blocks(«$1»), «p->$1 + slot_of(p, at + t) * p->$1_stride», «p->$1_scale + slot_of(p, at + t) * p->$1_scale_stride»)»)
m4_define(«_km_scale_step», «km_if(_km_in_blocks(«$1»), «km_part(«block_bytes», km_$1)», «_km_scale_size(«$1»)»)»)

m4_dnl _km_factors_by_group(WHAT, SIDE, AT) -- take_SIDE_WHATs, which lie AT bytes into each step.
m4_define(«_km_factors_by_group», «km_inline(«void», «take_$2_$1s(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    _km_scale_c_type(«$2») raw[km_scales(«$2»)][BLOCK];
    for (int64_t t = 0; t < (n + LANES - 1) / LANES * LANES; t++) {
        const unsigned char *from = _km_scale_row(«$2»);
km_each(«G», 0, km_scales(«$2») - 1, 1, «        memcpy(&raw[G][t], from + m4_eval(G * _km_scale_step(«$2») + $3), _km_scale_size(«$2»));
»)    }
    for (int g = 0; g < km_scales(«$2»); g++)
        for (int64_t t = 0; t < n; t += LANES)
            store_f32(w->$2_$1[g] + t, km_typed(«load», _km_scale_type(«$2»))(raw[g] + t));
$4}
»)
m4_define(«_km_scales_by_group», «km_if(km_minimums(«$1»), «_km_factors_by_group(«minimum», «$1», _km_scale_size(«$1»), «»)
»)_km_factors_by_group(«scale», «$1», 0, «km_if(km_minimums(«$1»), «    take_$1_minimums(p, w, at, n);
»)»)»)

m4_dnl All scales of a row are one or two words of 32 bits: those of sixteen rows are taken apart together.
m4_define(«_km_scale_words», «m4_eval((km_scales(«$1») * _km_scale_size(«$1») + 3) / 4)»)
m4_define(«_km_scale_of_f32», «(vf)$1»)
m4_define(«_km_scale_of_f16», «from_halves(__builtin_convertvector($1 >> $2 & 0xffff, halves))»)
m4_define(«_km_scale_of_bf16», «(vf)($1 >> $2 << 16)»)
m4_define(«_km_scales_in_words», «km_inline(«void», «take_$1_scales(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    uint32_t raw[BLOCK * _km_scale_words(«$1»)];
    for (int64_t t = 0; t < (n + LANES - 1) / LANES * LANES; t++)
        memcpy(&raw[t * _km_scale_words(«$1»)], _km_scale_row(«$1»), m4_eval(km_scales(«$1») * _km_scale_size(«$1»)));
    for (int64_t t = 0; t < n; t += LANES) {
        const uint32_t *from = raw + t * _km_scale_words(«$1»);
        vu word_0 = (vu)load_words((const int32_t *)from);
km_if(_km_scale_words(«$1») == 2, «        vu more = (vu)load_words((const int32_t *)from + LANES);
        vu word_1 = __builtin_shufflevector(word_0, more, km_lane_list(«m4_eval(2 * L + 1)»));
        word_0 = __builtin_shufflevector(word_0, more, km_lane_list(«m4_eval(2 * L)»));
»)km_each(«G», 0, km_scales(«$1») - 1, 1, «        store_f32(w->$1_scale[G] + t, m4_indir(«_km_scale_of_»_km_scale_type(«$1»), «word_«»m4_eval(G * _km_scale_size(«$1») / 4)», m4_eval(G * _km_scale_size(«$1») % 4 * 8)));
»)    }
}
»)

m4_define(«_km_scales_turned», «km_inline(«void», «take_$1_scales(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    for (int64_t first = 0; first < n; first += LANES) {
        for (int g = 0; g < km_scales(«$1»); g += LANES) {
            vf x[LANES];
            for (int64_t i = 0; i < LANES; i++) {
                int64_t t = first + i;
                x[i] = km_typed(«load», _km_scale_type(«$1»))(_km_scale_row(«$1») + g * _km_scale_size(«$1»));
            }
            transpose(x);
            for (int i = 0; i < LANES; i++)
                store_f32(w->$1_scale[g + i] + first, x[i]);
        }
    }
}
»)

m4_define(«_km_scales_by_row», «km_inline(«void», «take_$1_scales(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    _km_scale_c_type(«$1») raw[BLOCK][km_scales(«$1»)];
    for (int64_t t = 0; t < (n + LANES - 1) / LANES * LANES; t++) {
        const unsigned char *from = _km_scale_row(«$1»);
km_if(_km_in_blocks($1), «km_each(«G», 0, km_scales(«$1») - 1, 1, «        memcpy(&raw[t][G], from + m4_eval(G * _km_scale_step(«$1»)), _km_scale_size(«$1»));
»)», «        memcpy(raw[t], from, sizeof raw[t]);
»)    }
    for (int64_t i = 0; i < n * km_scales(«$1»); i += LANES)
        store_f32(w->$1_scale[0] + i, km_typed(«load», _km_scale_type(«$1»))(raw[0] + i));
}
»)

m4_dnl km_find_rows -- defines find_rows: where the rows of a block are, and those that come later.
m4_define(«km_find_rows», «km_inline(«void», «find_rows(const struct kvmill_attend *p, struct work *w, int64_t at)»)
{
    int64_t slot[LISTED];
    if (at + LISTED <= p->count)
        memcpy(slot, p->slot + at, sizeof slot);
    else
        for (int64_t t = 0; t < LISTED; t++)
            slot[t] = t < BLOCK ? slot_of(p, at + t) : slot_ahead(p, at + t);
    for (int64_t t = 0; t < FOUND; t++) {
        w->key_row[t] = p->key + slot[t] * p->key_stride;
        w->value_row[t] = p->value + slot[t] * p->value_stride;
    }
km_if(km_ahead > 0, «    for (int64_t t = 0; t < BLOCK; t++) {
        const unsigned char *key = p->key + slot[AHEAD + t] * p->key_stride;
        const unsigned char *value = p->value + slot[AHEAD + t] * p->value_stride;
km_each(«I», 0, m4_eval(km_lines(«key») - 1), 1, «        w->next[t * km_lines(«key») + I] = key + m4_eval(I * 64);
»)km_each(«I», 0, m4_eval(km_lines(«value») - 1), 1, «        w->next[BLOCK * km_lines(«key») + t * km_lines(«value») + I] = value + m4_eval(I * 64);
»)    }
»)m4_dnl
}
»)

m4_dnl km_take_values -- defines take_values: the values of a block.
m4_define(«km_take_values», «km_take_scales(«value»)
km_inline(«void», «take_values(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
km_if(km_scales(«value») > 0, «    take_value_scales(p, w, at, n);
»)m4_dnl
    (void)p, (void)w, (void)at, (void)n;
km_if(km_direct, «», «    for (int64_t t = 0; t < n; t++) {
        const unsigned char *row = w->value_row[t];
km_fetch_near(«value», «t», 0, km_lines(«value»))m4_dnl
km_fetch(«values», «t», km_block)m4_dnl
km_each(«V», 0, m4_eval(km_value_vectors - 1), 1, «        store_f32(w->value[t] + m4_eval(V * km_lanes), km_take(«value», «row», «t», m4_eval(V * km_lanes), m4_eval(km_value_dim - V * km_lanes)));
»)    }
»)m4_dnl
}
»)

m4_dnl km_product(NAME, PARAMETERS, VECTORS, BEGIN, STEPS, LEFT, RIGHT, END, FETCH) -- defines NAME: a register tile of km_tile
m4_dnl rows by VECTORS vectors; each of the STEPS adds LEFT, a vector for row R, times RIGHT, vector V; END keeps a
m4_dnl sum, s_R_V.
m4_define(«km_product», «km_inline(«void», «$1($2)»)
{
km_each(«R», 0, m4_eval(km_tile - 1), 1, «km_each(«V», 0, m4_eval($3 - 1), 1, «    __auto_type s_«»R«»_«»V = $4;
»)»)m4_dnl
    for (int64_t k = 0; k < $5; k++) {
$9«»km_each(«V», 0, m4_eval($3 - 1), 1, «        __auto_type b_«»V = $7;
»)km_each(«R», 0, m4_eval(km_tile - 1), 1, «        __auto_type a_«»R = $6;
km_each(«V», 0, m4_eval($3 - 1), 1, «        s_«»R«»_«»V += a_«»R * b_«»V;
»)»)    }
km_each(«R», 0, m4_eval(km_tile - 1), 1, «km_each(«V», 0, m4_eval($3 - 1), 1, «    $8;
»)»)}
»)

m4_dnl km_halving(COUNT, MACRO) -- MACRO of COUNT, of half as many, and so on, down to 1.
m4_define(«km_halving», «$2(«$1»)km_if($1 > 1, «km_halving(m4_eval($1 / 2), «$2»)»)»)

m4_dnl km_gather -- defines gather: add the weighted values to the sums of a tile of rows.
m4_define(«km_right», «km_if(km_direct, «km_take(«value», «w->value_row[k]», «k», «v + m4_eval(V * km_lanes)», km_lanes)», «load_f32(w->value[k] + v + m4_eval(V * km_lanes))»)»)
m4_define(«km_gather_strip», «km_product(«gather_strip_$1», «struct work *w, int64_t r, int64_t v, int64_t n», $1, «broadcast(w->grow[r + R]) * load_f32(w->sum[r + R] + v + m4_eval(V * km_lanes))»,
  «n», «broadcast(w->score[r + R][k])», «km_right», «store_f32(w->sum[r + R] + v + m4_eval(V * km_lanes), s_«»R«»_«»V)»,
  «km_if(km_direct, «km_fetch_strip($1)»)»)»)
m4_dnl Each strip fetches its share of a row.
m4_define(«_km_share», «m4_eval((km_lines(«$1») * $2 + km_value_vectors - 1) / km_value_vectors)»)
m4_define(«_km_share_at», «v / LANES * km_lines(«$1») / km_value_vectors * 64»)
m4_define(«km_fetch_strip», «km_fetch_near(«value», «k», «_km_share_at(«value»)», «_km_share(«value», $1)»)km_fetch(«gather», «v / LANES * BLOCK / $1 + k», m4_eval(km_value_vectors * km_block / $1))»)
m4_define(«km_rest», «m4_eval(km_value_vectors % km_strip)»)
m4_define(«km_gather», «km_if(km_value_vectors >= km_strip, «km_gather_strip(km_strip)
»)km_if(km_rest > 0, «km_gather_strip(km_rest)
»)km_inline(«void», «gather(struct work *w, int64_t r, int64_t n)»)
{
km_if(km_value_vectors >= km_strip, «    for (int64_t v = 0; v < m4_eval(km_value_vectors / km_strip * km_strip * km_lanes); v += STRIP)
        gather_strip_«»km_strip«»(w, r, v, n);
»)km_if(km_rest > 0, «    gather_strip_«»km_rest«»(w, r, m4_eval((km_value_vectors - km_rest) * km_lanes), n);
»)}
»)

m4_dnl km_across(NAME, TOGETHER) -- defines NAME_of_each: lane i gets NAME of the lanes of x[i], by TOGETHER of y and x[i].  Few are turned one by one.
m4_define(«km_across», «km_inline(«vf», «$1_of_each(vf x[LANES])»)
{
km_if(km_rows * 2 < km_lanes, «    float y[LANES] = {0};
    for (int i = 0; i < ROWS; i++)
        y[i] = $1_of(x[i]);
    return load_f32(y);
», «    transpose(x);
    vf y = x[0];
    for (int i = 1; i < LANES; i++)
        y = $2;
    return y;
»)}
»)

m4_dnl km_weigh -- defines weigh: the weights in a block that begins at position `from`.
m4_define(«km_weigh», «m4_dnl
km_if(km_has_cap, «km_inline(«vf», «capped(vf x, float cap)»)
{
    vf t = power_of_2(abs_f32(x) * (-2.f * log2_e / cap)), y = (1.f - t) / (1.f + t) * cap;
    return choose(x < 0.f, -y, y);
}

»)m4_dnl
km_if(km_has_bias, «km_inline(«vf», «load_mask(const unsigned char *from, int64_t count)»)
{
    if (count >= LANES)
        return km_typed(«load», km_activation)(from);
    return km_typed(«load_some», km_activation)(from, (size_t)count);
}

/* ALiBi and mask of `count` positions from `position` on.  */
km_inline(«vf», «bias(const struct kvmill_query_row *row, int64_t position, int64_t count)»)
{
    const vi lane = {km_lane_list(«L»)};
    vi distance = lane + (int32_t)(position - row->origin);
    vf x = __builtin_convertvector(distance, vf) * row->slope;
    return row->mask == NULL ? x : x + load_mask(row->mask + position * km_size(km_activation), count);
}

»)m4_dnl
/* Adds the terms of row r to its scores and hides what it does not see; the largest of each lane.  */
km_inline(«vf», «finish_scores(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t from)»)
{
    const struct kvmill_query_row *row = &p->row[r];
    int64_t n = w->seen[r], low = row->first - from, high = smaller(row->last - from, n);
    vf top = broadcast(-__builtin_inff());
    for (int64_t t = 0; t < n; t += LANES) {
        vf x = load_f32(w->score[r] + t);
km_if(km_has_cap, «        if (p->softcap != 0.f)
            x = capped(x, p->softcap * log2_e);
»)km_if(km_has_bias, «        x += bias(row, from + t, n - t) * log2_e;
»)m4_dnl
        if (low > t || high < t + LANES)
            x = hide_outside(x, low - t, high - t);
        store_f32(w->score[r] + t, x);
        top = max_f32(top, x);
    }
    return top;
}

/* Scores of row r become weights; the sums of each lane.  */
km_inline(«vf», «exponentials(struct work *w, int64_t r, float base«»km_if(km_value_codes, «, vf top[km_value_groups][LANES]»))»)
{
    vf total = broadcast(0.f);
    for (int64_t t = 0; t < w->seen[r]; t += LANES) {
        vf x = power_of_2(load_f32(w->score[r] + t) - base);
        store_f32(w->score[r] + t, x);
        total += x;
km_if(km_value_codes, «        for (int g = 0; g < km_value_groups; g++)
            top[g][r % LANES] = max_f32(x * load_f32(w->value_size[g] + t), top[g][r % LANES]);
»)m4_dnl
    }
    return total;
}

km_across(«largest», «max_f32(y, x[i])»)
km_across(«sum», «y + x[i]»)
km_if(km_value_codes, «km_set_units
»)m4_dnl
/* For LANES rows from r on, so that what there is one of for each row fills vectors.  */
km_inline(«void», «weigh(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t from)»)
{
    int64_t rows = smaller(LANES, p->rows - r);
    vf x[LANES];
    for (int64_t i = 0; i < LANES; i++)
        x[i] = broadcast(-__builtin_inff());
    for (int64_t i = 0; i < rows; i++)
        x[i] = finish_scores(p, w, r + i, from);
    vf before = load_f32(w->largest + r), largest = max_f32(before, largest_of_each(x));
    vf base = choose(largest == -__builtin_inff(), broadcast(0.f), largest), grow = power_of_2(before - base);
    float bases[LANES];
km_if(km_value_codes, «    vf top[km_value_groups][LANES] = {{{0}}};
»)m4_dnl
    store_f32(bases, base);
    for (int64_t i = 0; i < rows; i++) {
        x[i] = exponentials(w, r + i, bases[i]km_if(km_value_codes, «, top»));
km_fetch(«weigh», «r + i», km_tile)m4_dnl
    }
    for (int64_t i = rows; i < LANES; i++)
        x[i] = broadcast(0.f);
    store_f32(w->largest + r, largest);
    store_f32(w->grow + r, grow);
    store_f32(w->total + r, load_f32(w->total + r) * grow + sum_of_each(x));
km_if(km_value_codes, «    set_units(w, r, top);
»)m4_dnl
}
»)

m4_dnl km_begin -- defines begin: empty sums, and the queries in float32 with all factors of the score.
m4_define(«km_begin», «km_inline(«void», «begin(const struct kvmill_attend *p, struct work *w)»)
{
    vf factor = broadcast(p->scale * log2_e);
    memset(w->query, 0, sizeof w->query);
    memset(w->sum, 0, sizeof w->sum);
    for (int64_t r = 0; r < ALL_ROWS; r++) {
        w->grow[r] = 1.f;
        w->total[r] = 0.f;
        w->largest[r] = -__builtin_inff();
    }
    for (int64_t r = 0; r < p->rows; r++) {
        const unsigned char *query = p->row[r].query;
        float x[KEY_PADDED];
        for (int d = 0; d < km_key_whole; d += LANES)
            store_f32(x + d, km_typed(«load», km_activation)(query + d * km_size(km_activation)) * factor);
km_if(km_key_whole < km_key_dim, «        store_f32(x + km_key_whole, km_typed(«load_some», km_activation)(query + m4_eval(km_key_whole * km_size(km_activation)), m4_eval(km_key_dim - km_key_whole)) * factor);
»)m4_dnl
        set_query(w, r, x);
        if (p->row[r].sink > -__builtin_inff()) {
            w->largest[r] = p->row[r].sink * log2_e;
            w->total[r] = 1.f;
        }
    }
}
»)

m4_dnl km_end -- defines end: outputs, or partial results.
m4_define(«km_end», «km_inline(«void», «end(const struct kvmill_attend *p, struct work *w)»)
{
    enum { WHOLE = VALUE_DIM / LANES * LANES };
    for (int64_t r = 0; r < p->rows; r++) {
        int seen = w->largest[r] > -__builtin_inff() || w->total[r] != w->total[r];
km_if(km_has_order, «        set_order(w->sum[r]);
»)m4_dnl
        vf factor = broadcast(p->partial != NULL ? 1.f : seen ? 1.f / w->total[r] : 0.f);
        vf empty = broadcast(seen || p->partial != NULL ? 0.f : p->empty);
        if (p->partial != NULL) {
            float *to = p->partial + r * (2 + VALUE_DIM);
            to[0] = w->largest[r] * ln_2;
            to[1] = w->total[r];
            memcpy(to + 2, w->sum[r], VALUE_DIM * sizeof *to);
            continue;
        }
        unsigned char *to = p->row[r].output;
        for (int d = 0; d < WHOLE; d += LANES)
            km_typed(«store», km_activation)(to + d * km_size(km_activation), load_f32(w->sum[r] + d) * factor + empty);
km_if(km_value_dim % km_lanes, «        km_typed(«store_some», km_activation)(to + WHOLE * km_size(km_activation), load_f32(w->sum[r] + WHOLE) * factor + empty, VALUE_DIM - WHOLE);
»)m4_dnl
    }
}
»)

m4_dnl km_attend_run -- defines run.
m4_define(«km_attend_run», «/* How many of the n positions from `from` on some row of the tile sees; 0 also where all begin later.  */
km_inline(«int64_t», «seen_by(const struct kvmill_attend *p, int64_t r, int64_t from, int64_t n)»)
{
    int64_t first = INT64_MAX, last = 0;
    for (int64_t i = r; i < smaller(r + TILE, p->rows); i++) {
        first = smaller(first, p->row[i].first);
        last = last > p->row[i].last ? last : p->row[i].last;
    }
    return first >= from + n || last <= from ? 0 : smaller(n, last - from);
}

km_inline(«void», «attend_block(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    find_rows(p, w, at);
m4_ifdef(«km_take_keys», «    take_keys(p, w, at, n);
»)m4_dnl
    take_values(p, w, at, n);
    for (int64_t r = 0; r < p->rows; r += TILE) {
        int64_t seen = seen_by(p, r, p->first + at, n);
        for (int64_t i = r; i < r + TILE; i++)
            w->seen[i] = seen;
        if (seen > 0)
            score(p, w, r, at, seen);
    }
    for (int64_t r = 0; r < p->rows; r += LANES)
        weigh(p, w, r, p->first + at);
    for (int64_t r = 0; r < p->rows; r += TILE)
        if (w->seen[r] > 0)
            gather(w, r, w->seen[r]);
}

km_function(«void», «run(const void *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_attend *p = problem;
    struct work *w = p->workspace;
    (void)first;
    (void)last;
    if (p->begin)
        begin(p, w);
    for (int64_t at = 0; at < p->count; at += BLOCK)
        attend_block(p, w, at, smaller(BLOCK, p->count - at));
    if (p->end)
        end(p, w);
}
»)

m4_dnl km_number(NAME) -- the number that the digits NAME_0 ... stand for, as floats.
m4_define(«km_number», «m4_ifelse(km_limbs, 1, «_km_float(«$1«»_0»)», km_limbs, 2, «_km_float(«$1«»_1») * 256.f + _km_float(«$1«»_0»)», «(_km_float(«$1«»_2») * 256.f + _km_float(«$1«»_1»)) * 256.f + _km_float(«$1«»_0»)»)»)
m4_define(«_km_float», «__builtin_convertvector($1, vf)»)

m4_dnl km_attend -- the whole file behind its head.
m4_define(«km_attend», «km_attend_types
km_attend_words
km_find_rows
m4_ifdef(«km_take_keys», «km_take_keys»)
km_if(km_value_codes, «km_take_values_as_codes», «km_if(km_half_values, «km_take_values_as_halves», «km_take_values»)»)
km_score
km_if(km_value_codes, «km_gather_codes
km_set_order», «km_if(km_half_values, «km_gather_halves», «km_gather»)»)
km_weigh
km_set_query
km_begin
km_end
km_attend_run
km_attend_descriptor»)

m4_dnl km_attend_descriptor
m4_define(«_km_format», «{km_enumerator(km_$1), km_$1_dim, km_enumerator(km_$1_scale), km_$1_quant_group}»)
m4_define(«km_attend_descriptor», «km_descriptor(«KVMILL_ATTEND», «kvmill_attend_shape shape = {
    .activation = km_enumerator(km_activation),
    .key = _km_format(«key»),
    .value = _km_format(«value»),
    .rows = km_rows,
    .math = m4_ifelse(km_math, «f32», «KVMILL_MATH_F32», «KVMILL_MATH_FAST»),
    .terms = m4_eval(km_has_cap + 2 * km_has_bias),
    .workspace = sizeof(struct work),
}», 0)»)
m4_divert(0)m4_dnl
