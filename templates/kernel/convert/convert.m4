m4_divert(-1)
m4_dnl convert.m4 -- what the kernels that convert and quantise rows have in common: tokens and heads around a
m4_dnl row, steps of whole vectors and what is left of them, the largest magnitudes of groups.
km_need_all(«the definitions», «km_symbol», «km_activation», «km_element», «km_scale», «km_dim», «km_quant_group», «km_straight_units», «km_around», «km_unroll», «km_ahead»)

m4_dnl km_groups -- of a row; km_round_up(N, TO).
m4_define(«km_groups», «m4_eval(km_dim / km_quant_group)»)
m4_define(«km_round_up», «m4_eval((($1) + ($2) - 1) / ($2) * ($2))»)

m4_dnl ---- Steps through a row ----

m4_dnl km_steps(VAR, COUNT, STEP, BODY) -- BODY for every STEP of COUNT, VAR being where it begins, and
m4_dnl km_left how many there are, which is less than STEP in the last one only.  Straight-line code, if it is
m4_dnl short; then VAR is a number, else the name in small letters.
m4_define(«km_steps», «m4_ifelse(m4_eval($2 / ($3) <= km_unroll), 1, «_km_steps_straight($@)», «_km_steps_loop($@)»)»)
m4_define(«_km_steps_straight», «km_each(«$1», 0, $2 - 1, $3, «m4_define(«km_left», m4_ifelse(m4_eval($2 - $1 < ($3)), 1, «m4_eval($2 - $1)», «m4_eval($3)»))$4»)»)
m4_define(«_km_steps_loop», «m4_define(«km_left», m4_eval($3))m4_pushdef(«$1», m4_translit(«$1», «A-Z», «a-z»))    for (int $1 = 0; $1 + km_left <= $2; $1 += km_left)
$4«»m4_popdef(«$1»)_km_steps_rest(«$1», m4_eval(($2) % ($3)), m4_eval(($2) / ($3) * ($3)), «$4»)»)
m4_define(«_km_steps_rest», «m4_ifelse($2, 0, «», «m4_pushdef(«$1», $3)m4_define(«km_left», $2)$4«»m4_popdef(«$1»)»)»)

m4_dnl km_at(EXPRESSION) -- its value, if it is made of numbers.
m4_define(«km_at», «m4_ifelse(m4_regexp(«$1», «[a-z]»), -1, «m4_eval($1)», «($1)»)»)

m4_dnl km_put(HOW, WORD, STEP, TO, BYTES, VALUES) -- HOW_WORD (TO, VALUES) of STEP elements; where fewer are left,
m4_dnl through a buffer: their BYTES only.  HOW is store or stream.
m4_define(«km_put», «m4_ifelse(m4_eval(km_left < ($3)), 1, «        unsigned char part[64];
        store_$2(part, $6);
        memcpy($4, part, $5);
», «        $1_$2($4, $6);
»)»)

m4_dnl km_padded(NAME, BYTES, STEP) -- where vectors would read after the row: a copy with zeros after it.
m4_define(«km_padded», «m4_ifelse(m4_eval(($2) % ($3)), 0, «», «    static const unsigned char $1_end[64];
    unsigned char $1_padded[km_round_up($2, $3)];
    memcpy($1_padded, $1, $2);
    memcpy($1_padded + $2, $1_end, m4_eval(km_round_up($2, $3) - ($2)));
    $1 = $1_padded;
»)»)

m4_dnl km_copy_row(HOW) -- a row as it is.
m4_define(«km_copy_row», «    (void)scales;
m4_ifelse(m4_eval(km_row_bytes > km_straight_units), 1, «    memcpy(to, from, km_row_bytes);
», «$1», «stream», «km_straight(«km_stream», «km_stream_bytes», km_row_bytes, «to», «from»)»,
  «km_straight(«km_move», «km_widths», km_row_bytes, «to», «from»)»)»)

m4_dnl km_cast(HOW, FROM, TO) -- a row of elements of one type to another.
m4_define(«km_cast», «    (void)scales;
km_padded(«from», m4_eval(km_dim * km_size($2)), m4_eval(km_lanes * km_size($2)))m4_dnl
km_steps(«E», km_dim, km_lanes, «    {
km_put(«$1», $3, km_lanes, «to + km_at(E * km_size($3))», «m4_eval(km_left * km_size($3))», «load_$2(from + km_at(E * km_size($2)))»)m4_dnl
    }
»)»)

m4_dnl ---- A float for each group of elements ----

m4_dnl km_group_floats(NAME) -- room for one each, of which vectors are kept at a time.
m4_define(«km_group_floats», «    __attribute__((aligned(64))) float $1[km_round_up(km_groups, km_lanes)];
»)

m4_dnl km_spread(NAME) -- where groups fit no vectors: NAME_of, with a float for each element.
m4_dnl km_of(NAME, I) -- NAME for the elements from I on.
m4_define(«km_is_uniform», «m4_eval(km_quant_group % km_lanes == 0)»)
m4_define(«km_is_paired», «m4_eval(km_lanes == 16 && km_quant_group == 8)»)
m4_define(«km_is_spread», «m4_eval(!km_is_uniform && !km_is_paired)»)
m4_define(«km_spread», «m4_ifelse(km_is_spread, 1, «    float $1_of[km_round_up(km_dim, km_lanes)];
    for (int i = 0; i < km_round_up(km_dim, km_lanes); i++)
        $1_of[i] = $1[i / km_quant_group];
»)»)
m4_define(«km_of», «m4_ifelse(km_is_spread, 1, «load_f32($1_of + km_at($2))», «m4_ifelse(km_is_paired, 1, «broadcast_pair($1 + km_at(($2) / km_quant_group))», «broadcast($1[km_at(($2) / km_quant_group)])»)»)»)

m4_dnl ---- Largest magnitudes ----

m4_dnl Vectors see groups of a power of two of bytes from 16 on, of whole vectors, or of the whole row.
m4_define(«km_span», «m4_ifelse(km_groups:m4_eval(km_peak_bytes > 0), 1:1, «km_round_up(km_from_bytes, km_peak_bytes)», «m4_eval(km_quant_group * km_size(km_activation))»)»)
m4_define(«km_by_vectors», «m4_eval(km_peak_bytes > 0 && (km_span % (km_peak_bytes + !km_peak_bytes) == 0 || (km_span >= 16 && (km_span & (km_span - 1)) == 0)))»)
m4_define(«km_unsigned», «m4_ifelse(km_activation, «f32», «u32», «u16»)»)

m4_dnl km_infinite -- where the bits of what is not finite begin.
m4_define(«km_infinite», «m4_ifelse(km_activation, «f32», «0x7f800000», km_activation, «f16», «0x7c00», «0x7f80»)»)

m4_dnl km_peaks -- without vectors: peak[], the largest magnitudes of all groups as bits.
m4_dnl km_peak(G) -- those of the groups from G on, km_left of them.
m4_define(«km_peaks», «m4_ifelse(km_by_vectors, 1, «», «    int32_t peak[km_round_up(km_groups, km_lanes)];
    for (int g = 0; g < km_groups; g++)
        peak[g] = peak_of(from + g * km_span);
m4_ifelse(m4_eval(km_groups % km_lanes), 0, «», «    for (int g = km_groups; g < km_round_up(km_groups, km_lanes); g++)
        peak[g] = 0;
»)»)»)
m4_define(«km_peak_helpers», «m4_ifelse(km_by_vectors, 1, «», «km_function(«int32_t», «peak_of(const unsigned char *from)»)
{
    int32_t peak = 0;
    for (int i = 0; i < km_quant_group; i++) {
        int32_t magnitude = (int32_t)(*(const kvmill_word«»km_size(km_activation) *)(from + i * km_size(km_activation)) & m4_ifelse(km_activation, «f32», «0x7fffffff», «0x7fff»));
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

»)»)
m4_define(«km_peak», «m4_ifelse(km_by_vectors, 1, «km_typed(«largest», km_unsigned)(
            _km_fold(«$1», 0, _km_quarter),
            _km_fold(«$1», _km_quarter, _km_quarter),
            _km_fold(«$1», m4_eval(2 * _km_quarter), _km_quarter),
            _km_fold(«$1», m4_eval(3 * _km_quarter), _km_quarter))», «load_words(peak + km_at($1))»)»)
m4_define(«_km_quarter», «m4_eval(km_lanes / 4)»)

m4_dnl _km_fold(G, K, N) -- a vector with groups G + K ... + N - 1, each spread over the N-th part of it.
m4_define(«_km_fold», «m4_ifelse(
  m4_eval($2 >= km_left), 1, «(vi){0}»,
  m4_eval(km_span * ($3) == km_peak_bytes), 1, «km_typed(«magnitudes», km_unsigned)(from + km_at(($1 + $2) * km_span))»,
  $3, 1, «_km_tree(«($1 + $2) * km_span», 0, m4_eval(km_span / km_peak_bytes))»,
  «km_typed(«fold», km_unsigned)(_km_fold(«$1», $2, m4_eval($3 / 2)), _km_fold(«$1», m4_eval($2 + $3 / 2), m4_eval($3 / 2)))»)»)
m4_define(«_km_tree», «m4_ifelse($3, 1, «km_typed(«magnitudes», km_unsigned)(from + km_at($1 + $2 * km_peak_bytes))»,
  «km_typed(«larger», km_unsigned)(_km_tree(«$1», $2, m4_eval($3 / 2)), _km_tree(«$1», m4_eval($2 + $3 / 2), m4_eval($3 - $3 / 2)))»)»)

m4_dnl ---- Tokens and heads ----

m4_dnl km_write(ROW) -- defines run () from the text that ROW(HOW) gives, which writes from `from` to `to`, `scales`.
m4_dnl Rows of whole lines can be stored around the caches, which then do not read them first.
m4_define(«km_write», «m4_define(«_km_row», m4_defn(«$1»))_km_run(«p->cache.data», «p->cache.row_stride | p->cache.head_stride», «_km_write_rows»)»)
m4_define(«_km_write_rows», «km_function(«void», «$2_row(const unsigned char *from, unsigned char *to, unsigned char *scales)»)
{
_km_row(«$1»)}

km_function(«void», «$2_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; $2_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        const unsigned char *from = p.activation + t * p.token_stride;
        unsigned char *to = p.cache.data + p.slot[t] * p.cache.row_stride;
        unsigned char *scales = p.cache.scale;
        if (scales != NULL)
            scales += p.slot[t] * p.cache.scale_row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
km_fetch(«$1»)m4_dnl
            $2_row(from, to, scales);
            from += p.head_stride;
            to += p.cache.head_stride;
            if (scales != NULL)
                scales += p.cache.scale_head_stride;
        }
    }
$3}

»)

m4_dnl km_fetch(HOW) -- the lines of the row km_ahead heads from `to`, to be written.
m4_define(«km_fetch», «km_if(km_ahead && m4_ifelse(«$1», «store», 1, 0), «km_each(«L», 0, km_row_bytes - 1, 64, «            __builtin_prefetch(to + km_ahead * p.cache.head_stride + L, 1);
»)»)»)

m4_dnl km_read(ROW) -- the same with text that reads `from`, `scales` into a row of activations at `to`.
m4_define(«km_read», «m4_define(«_km_row», m4_defn(«$1»))_km_run(«p->activation», «p->token_stride | p->head_stride», «_km_read_rows»)»)
m4_define(«_km_read_rows», «km_function(«void», «$2_row(unsigned char *to, const unsigned char *from, const unsigned char *scales)»)
{
_km_row(«$1»)}

km_function(«void», «$2_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; $2_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        unsigned char *to = p.activation + t * p.token_stride;
        const unsigned char *from = p.cache.data + p.slot[t] * p.cache.row_stride;
        const unsigned char *scales = p.cache.scale;
        if (scales != NULL)
            scales += p.slot[t] * p.cache.scale_row_stride;
        for (int64_t h = 0; h < p.heads; h++) {
            for (int64_t r = 0; r < p.repeat; r++, to += p.head_stride)
                $2_row(to, from, scales);
            from += p.cache.head_stride;
            if (scales != NULL)
                scales += p.cache.scale_head_stride;
        }
    }
$3}

»)

m4_dnl _km_run(TARGET, STEPS, ROWS)
m4_define(«_km_run», «km_if(km_around, «$3(«stream», «stream», «    km_stream_end;
»)»)«»$3(«store», «store», «»)km_function(«void», «run(const void *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_convert *p = problem;
km_if(km_around, «    int64_t all = (int64_t)(uintptr_t)$1 | $2;
    if (p->stream && all % 64 == 0)
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
», «    store_rows(p, first, last);
»)}

»)

m4_dnl km_convert_descriptor(FAMILY)
m4_define(«km_convert_descriptor», «km_descriptor(«$1», «kvmill_convert_shape shape = {
    .activation = km_enumerator(km_activation),
    .format = {.element = km_enumerator(km_element), .dim = km_dim, .scale = km_enumerator(km_scale), .quant_group = m4_ifelse(km_scale, «none», 0, «km_quant_group»)},
}», 1)»)
m4_divert(0)m4_dnl
