m4_divert(-1)
m4_dnl convert.m4 -- shared by the kernels that convert and quantise rows: loops over tokens and heads, steps through a
m4_dnl row by whole vectors and a remainder, and the largest magnitudes of groups.
km_need_all(«the definitions», «km_symbol», «km_activation», «km_element», «km_scale», «km_dim», «km_quant_group»)
km_need_all(«the definitions», «km_straight_units», «km_around», «km_unroll», «km_ahead»)

m4_dnl km_groups -- the groups of a row.  km_round_up(N, TO) -- N, rounded up to a multiple of TO.
m4_define(«km_groups», «m4_eval(km_dim / km_quant_group)»)
m4_define(«km_round_up», «m4_eval((($1) + ($2) - 1) / ($2) * ($2))»)

m4_dnl ---- Steps through a row ----

m4_dnl km_steps(VAR, COUNT, STEP, BODY) -- BODY for every STEP elements of COUNT.  VAR is where the step begins, and
m4_dnl km_left is its size, which is less than STEP only in the last step.  Few steps become straight-line code, in
m4_dnl which VAR is a number.  Otherwise there is a loop, and VAR is its variable, the name in small letters.
m4_define(«km_steps», «m4_ifelse(m4_eval($2 / ($3) <= km_unroll), 1, «_km_steps_straight($@)», «_km_steps_loop($@)»)»)
m4_define(«_km_steps_straight», «km_each(«$1», 0, $2 - 1, $3, «m4_dnl
m4_define(«km_left», km_if($2 - $1 < ($3), «m4_eval($2 - $1)», «m4_eval($3)»))$4»)»)
m4_define(«_km_steps_loop», «m4_define(«km_left», m4_eval($3))m4_pushdef(«$1», m4_translit(«$1», «A-Z», «a-z»))m4_dnl
    for (int $1 = 0; $1 + km_left <= $2; $1 += km_left)
$4«»m4_popdef(«$1»)_km_steps_rest(«$1», m4_eval(($2) % ($3)), m4_eval(($2) / ($3) * ($3)), «$4»)»)
m4_define(«_km_steps_rest», «m4_ifelse($2, 0, «», «m4_pushdef(«$1», $3)m4_define(«km_left», $2)$4«»m4_popdef(«$1»)»)»)

m4_dnl km_at(EXPRESSION) -- evaluates the expression if it consists of numbers.
m4_define(«km_at», «m4_ifelse(m4_regexp(«$1», «[a-z]»), -1, «m4_eval($1)», «($1)»)»)

m4_dnl km_put(HOW, WORD, STEP, TO, BYTES, VALUES) -- HOW_WORD (TO, VALUES), which writes STEP elements.  If fewer are
m4_dnl left, only their BYTES are written, through a buffer.  HOW is store or stream.
m4_define(«km_put», «m4_ifelse(m4_eval(km_left < ($3)), 1, «        unsigned char part[64];
        store_$2(part, $6);
        memcpy($4, part, $5);
», «        $1_$2($4, $6);
»)»)

m4_dnl km_padded(NAME, BYTES, STEP) -- if vectors would read past the end of the row, use a copy that ends with zeros.
m4_define(«km_padded», «m4_ifelse(m4_eval(($2) % ($3)), 0, «», «    static const unsigned char $1_end[64];
    unsigned char $1_padded[km_round_up($2, $3)];
    memcpy($1_padded, $1, $2);
    memcpy($1_padded + $2, $1_end, m4_eval(km_round_up($2, $3) - ($2)));
    $1 = $1_padded;
»)»)

m4_dnl km_row_in_turn(NAME, BYTES, STEP) -- the same for a row of the cache, which may be in a tile.
m4_define(«km_row_in_turn», «km_if(km_in_tiles(km_element), «    unsigned char in_turn[km_round_up($2, $3)] = {0};
    row_from_tile(in_turn, $1);
    $1 = in_turn;
», «km_padded(«$1», «$2», «$3»)»)»)

m4_dnl km_copy_row(HOW) -- copy a row.
m4_define(«km_copy_row», «m4_ifelse(m4_eval(km_row_bytes > km_straight_units), 1, «    memcpy(to, from, km_row_bytes);
», «$1», «stream», «km_straight(«km_stream», «km_stream_bytes», km_row_bytes, «to», «from»)»,
  «km_straight(«km_move», «km_widths», km_row_bytes, «to», «from»)»)»)

m4_dnl km_cast(HOW, FROM, TO) -- convert a row from one element type to another.
m4_define(«km_cast», «km_padded(«from», m4_eval(km_dim * km_size($2)), m4_eval(km_lanes * km_size($2)))m4_dnl
km_steps(«E», km_dim, km_lanes, «    {
km_put(«$1», $3, km_lanes, «to + km_at(E * km_size($3))», «m4_eval(km_left * km_size($3))», m4_dnl
«load_$2(from + km_at(E * km_size($2)))»)m4_dnl
    }
»)»)

m4_dnl ---- Numbers of which each group has one ----

m4_dnl km_group_floats(NAME, COUNT) -- an array for them, aligned for vectors.
m4_define(«km_group_floats», «    __attribute__((aligned(64))) float $1[$2];
»)

m4_dnl km_spreading(NAME, FROM) -- if groups do not fit vectors: an array NAME_of that repeats each group's number for
m4_dnl its elements.  km_of(NAME, I) -- a vector with the numbers for the elements from I on.
m4_define(«km_is_uniform», «m4_eval(km_quant_group % km_lanes == 0)»)
m4_define(«km_is_paired», «m4_eval(km_lanes == 16 && km_quant_group == 8)»)
m4_define(«km_is_spread», «m4_eval(!km_is_uniform && !km_is_paired)»)
m4_define(«km_spreading», «m4_ifelse(km_is_spread, 1, «    float $1_of[km_round_up(km_dim, km_lanes)];
    for (int i = 0; i < km_round_up(km_dim, km_lanes); i++)
        $1_of[i] = $1[i / km_quant_group];
»)»)
m4_define(«km_of», «m4_ifelse(
  km_is_spread, 1, «load_f32($1_of + km_at($2))»,
  km_is_paired, 1, «broadcast_pair($1 + km_at(($2) / km_quant_group))»,
  «broadcast($1[km_at(($2) / km_quant_group)])»)»)

m4_dnl ---- Largest magnitudes of the groups of a batch of rows ----

m4_dnl The numbers of row r begin at km_row_floats * r.  km_joint -- how many rows share a vector of groups, if a row
m4_dnl has few groups.
m4_define(«km_fills», «(km_groups < km_lanes && km_lanes % km_groups == 0 && km_by_vectors && m4_dnl
km_from_bytes % (km_peak_bytes + !km_peak_bytes) == 0)»)
m4_define(«km_row_floats», «km_if(km_fills, km_groups, km_round_up(km_groups, km_lanes))»)
m4_define(«km_joint», «km_if(km_fills, m4_dnl
«km_if(km_batch * km_groups < km_lanes, km_batch, «m4_eval(km_lanes / km_groups)»)», 1)»)
m4_define(«km_batch_floats», «km_round_up(km_batch * km_row_floats, km_lanes)»)

m4_dnl km_by_vectors -- whether vectors can find the largest magnitudes: groups are a power of two of at least 16 bytes,
m4_dnl or whole vectors, or a whole row.
m4_define(«km_span», «m4_ifelse(km_groups:m4_eval(km_peak_bytes > 0), 1:1, «km_round_up(km_from_bytes, km_peak_bytes)»,
  «m4_eval(km_quant_group * km_size(km_activation))»)»)
m4_define(«km_by_vectors», «m4_eval(km_peak_bytes > 0 && (km_span % (km_peak_bytes + !km_peak_bytes) == 0 ||
  (km_span >= 16 && (km_span & (km_span - 1)) == 0)))»)
m4_define(«km_unsigned», «m4_ifelse(km_activation, «f32», «u32», «u16»)»)

m4_dnl km_infinite -- the bits of infinity; those of NaN are above it.
m4_define(«km_infinite», «m4_ifelse(km_activation, «f32», «0x7f800000», km_activation, «f16», «0x7c00», «0x7f80»)»)

m4_dnl km_may_overflow -- whether scales of finite groups may be too large for their type.
m4_dnl km_saturating(TEXT) -- TEXT if so.
m4_define(«km_may_overflow», «m4_ifelse(km_scale, «f16», «m4_ifelse(km_activation, «f16», 0, 1)», 0)»)
m4_define(«km_saturating», «km_if(km_may_overflow, «$1»)»)

m4_dnl km_each_groups(BODY, LARGEST) -- BODY for a vector of groups at a time, of km_joint rows from row[r] on.  `peak`
m4_dnl has the bits of their largest magnitudes, and km_group is the index of their first number.  If LARGEST is given,
m4_dnl it is the code that takes the place of computing `peak`.
m4_define(«km_each_groups», «    for (int r = 0; r < count; m4_ifelse(km_joint, 1, «r++», «r += km_joint»)) {
km_peaks«»m4_dnl
km_steps(«G», «m4_eval(km_joint * km_groups)», km_lanes, «        {
m4_ifelse(«$2», «», «_km_peaks_groups», «$2»)«»m4_dnl
$1«»m4_dnl
        }
»)m4_dnl
    }
»)
m4_define(«km_group», «km_row_floats * r + G»)

m4_dnl km_peaks -- the largest magnitudes of all groups of a row, if vectors cannot find them.
m4_define(«km_peaks», «km_if(km_by_vectors, «», «m4_dnl
        int32_t magnitudes[km_round_up(km_groups, km_lanes)] = {0};
        for (int g = 0; g < km_groups; g++)
            magnitudes[g] = peak_of(row[r].from + g * km_span);
»)»)
m4_define(«km_peak_helpers», «km_if(km_by_vectors, «», «m4_dnl
km_function(«int32_t», «peak_of(const unsigned char *from)»)
{
    int32_t peak = 0;
    for (int i = 0; i < km_quant_group; i++) {
        int32_t magnitude = (int32_t)(km_element_at(i) & m4_ifelse(km_activation, «f32», «0x7fffffff», «0x7fff»));
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

»)»)
m4_dnl km_elements_at(I) -- LANES elements as floats, from element I of `from` on.  km_element_at(I) -- the bits of one.
m4_define(«km_elements_at», «km_typed(«load», km_activation)(from + km_at(($1) * km_size(km_activation)))»)
m4_define(«km_element_at», «*(const kvmill_word«»km_size(km_activation) *)(from + ($1) * km_size(km_activation))»)

m4_dnl km_largest(NAME, LEAF, NONE) -- defines a vector NAME with the largest of each group.  LEAF(from) loads elements
m4_dnl in a form that can be compared as integers.  Lanes without a group get NONE.
m4_define(«km_largest», «m4_define(«_km_leaf», «$2»)m4_define(«_km_none», «$3»)km_each(«Q», 0, 3, 1, «m4_dnl
            vi $1«»Q = _km_tops(m4_eval(Q * _km_quarter), _km_quarter);
»)m4_dnl
            vi $1 = km_typed(«largest», km_unsigned)($1«»0, $1«»1, $1«»2, $1«»3);
»)
m4_define(«_km_peaks_groups», «km_if(km_by_vectors, «m4_dnl
km_largest(«peak», «km_typed(«magnitudes», km_unsigned)», «(vi){0}»)», «m4_dnl
            vi peak = load_words(magnitudes + km_at(G));
»)»)
m4_define(«_km_quarter», «m4_eval(km_lanes / 4)»)

m4_dnl km_bytes_of(K, BYTES) -- the address BYTES into group G + K.
m4_define(«km_bytes_of», «m4_ifelse(km_joint, 1, «row[r].from + km_at((G + $1) * km_span + $2)»,
  «row[r + m4_eval(($1) / km_groups)].from + m4_eval(($1) % km_groups * km_span + $2)»)»)

m4_dnl _km_tops(K, N) -- a vector whose N parts have candidates for the largest of groups G + K to G + K + N - 1.
m4_define(«_km_tops», «m4_ifelse(
  m4_eval($1 >= km_left), 1, «_km_none»,
  m4_eval(km_span * ($2) == km_peak_bytes), 1, «_km_leaf«»(km_bytes_of(«$1», 0))»,
  $2, 1, «_km_tree(«$1», 0, m4_eval(km_span / km_peak_bytes))»,
  «km_typed(«fold», km_unsigned)(_km_tops(«$1», m4_eval($2 / 2)), _km_tops(m4_eval($1 + $2 / 2), m4_eval($2 / 2)))»)»)
m4_define(«_km_tree», «m4_ifelse($3, 1, «_km_leaf«»(km_bytes_of(«$1», «$2 * km_peak_bytes»))»,
  «km_typed(«larger», km_unsigned)(_km_tree(«$1», $2, m4_eval($3 / 2)), m4_dnl
_km_tree(«$1», m4_eval($2 + $3 / 2), m4_eval($3 - $3 / 2)))»)»)

m4_dnl ---- Tokens and heads ----

m4_dnl km_write(ROW) -- defines km_run.  ROW(HOW) is the code that writes a row from `from` to `to`.  Rows of whole
m4_dnl lines can be stored around the caches, which then do not read the lines first.
m4_define(«km_write», «m4_define(«_km_row», m4_defn(«$1»))_km_run_written(«_km_write_rows»)»)
m4_define(«_km_run_written», «_km_run(«km_if(km_rows_are_alone, «_km_are_lines(«p->cache.data», m4_dnl
«km_at_p(«cache.row_stride») | km_at_p(«cache.head_stride»)»)», «km_lie_together»)», «$1»)»)
m4_define(«_km_are_lines», «((int64_t)(uintptr_t)$1 | $2) % 64 == 0»)
m4_define(«_km_write_rows», «km_function(«void», «$2_row(const unsigned char *from, unsigned char *to)»)
{
_km_row(«$1»)}

km_function(«void», «$2_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; $2_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        const unsigned char *from = p.activation + t * p.token_stride;
        unsigned char *to = p.cache.data + p.slot[t] * km_p(«cache.row_stride»);
        for (int64_t h = 0; h < km_p(«heads»); h++) {
km_fetch(«$1», «to»)m4_dnl
            $2_row(from, to);
            from += km_p(«head_stride»);
            to += km_p(«cache.head_stride»);
        }
    }
$3}

»)

m4_dnl km_fetch(HOW, TO) -- prefetch the lines of the row km_ahead heads further on, to be written.
m4_define(«km_fetch», «km_if(km_ahead && m4_ifelse(«$1», «store», 1, 0), «km_each(«L», 0, km_row_bytes - 1, 64, «m4_dnl
            __builtin_prefetch($2 + km_ahead * km_p(«cache.head_stride») + L, 1);
»)»)»)

m4_dnl ---- Batches of rows: the scales of all rows come first, so that no row waits for a division ----

m4_dnl km_write_batches(BATCH) -- defines km_run.  BATCH(HOW) is the code that writes the rows row[0] ... row[count - 1]
m4_dnl to km_to(HOW).  It may read up to row[km_batch - 1].
m4_define(«km_write_batches», «struct row {
    const unsigned char *from;
    unsigned char *to;
_km_scaled(«    unsigned char *scales;
»)m4_dnl
};

km_together_helpers«»m4_dnl
m4_define(«_km_batch», m4_defn(«$1»))_km_run_written(«_km_write_batches»)»)
m4_define(«_km_write_batches», «km_put_together(«$1»)km_function(«void», «$2_batch(struct row *row, int count, m4_dnl
int64_t ahead«»km_saturating(«, int64_t saturate»))»)
{
km_if(km_puts_together(«$1»), «km_rows_together«»»)m4_dnl
    for (int r = count; r < km_batch; r++)
        row[r] = row[0];
_km_batch(«$1»)«»m4_dnl
km_if(km_puts_together(«$1»), «    $1_together(row, together, count);
»)m4_dnl
}

km_if(km_writes_tiles, «_km_rows_by_head(«$2», «$2_rows», «$3»)», «km_if(km_puts_together(«$1»), «m4_dnl
_km_rows_by_token(«$1», «$2», «$2_tokens»)m4_dnl
_km_rows_by_head(«$2», «$2_heads»)m4_dnl
km_function(«void», «$2_rows(const struct kvmill_convert *p, int64_t first, int64_t last)»)
{
    if (km_at_p(«cache.row_stride») == km_row_bytes)
        $2_heads(p, first, last);
    else
        $2_tokens(p, first, last);
$3}

», «_km_rows_by_token(«$1», «$2», «$2_rows», «$3»)»)»)»)

m4_define(«_km_set_row», «m4_dnl
            row[count].from = p.activation + t * p.token_stride + h * km_p(«head_stride»);
            row[count].to = km_row_at(km_element, «p.cache.data», «km_p(«cache.row_stride»)», «p.slot[t]») + m4_dnl
h * km_p(«cache.head_stride»);
_km_scaled(«m4_dnl
            row[count].scales = p.cache.scale + p.slot[t] * km_p(«cache.scale_row_stride») + m4_dnl
h * km_p(«cache.scale_head_stride»);
»)»)

m4_dnl _km_rows_by_token(HOW, PREFIX, NAME, END) -- defines NAME, which goes token by token.
m4_define(«_km_rows_by_token», «km_function(«void», «$3(const struct kvmill_convert *problem, int64_t first, m4_dnl
int64_t last)»)
{
    const struct kvmill_convert p = *problem;
    struct row row[km_batch];
    int count = 0;
    const int64_t token = km_p(«heads») * km_from_bytes;
    const int64_t ahead = p.stream ? (km_fetch_bytes + token - 1) / token : 0;
    /* The loop nest: tokens, then heads; $2_batch() goes through km_batch rows at a time.  */
    for (int64_t t = first; t < last; t++)
        for (int64_t h = 0; h < km_p(«heads»); h++) {
_km_set_row«»m4_dnl
km_fetch(«$1», «row[count].to»)m4_dnl
            if (++count == km_batch) {
                $2_batch(row, count, ahead * p.token_stride«»km_saturating(«, p.saturate»));
                count = 0;
            }
        }
    if (count > 0)
        $2_batch(row, count, ahead * p.token_stride«»km_saturating(«, p.saturate»));
$4}

»)

m4_dnl _km_rows_by_head(PREFIX, NAME, END) -- defines NAME, which goes head by head through up to km_rows_of_run tokens.
m4_define(«_km_rows_by_head», «km_function(«void», «$2(const struct kvmill_convert *problem, int64_t first, m4_dnl
int64_t last)»)
{
    const struct kvmill_convert p = *problem;
    const int64_t heads = km_p(«heads»), heads_ahead = p.stream ? km_heads_ahead : 0;
    struct row row[km_batch];
    /* The loop nest: runs of tokens whose rows are together, heads, and the tokens of a run; $1_batch()
       goes through km_batch rows at a time.  */
    for (int64_t begin = first, end; begin < last; begin = end) {
        int count = 0;
        int64_t ahead = 0;
        end = begin + km_rows_of_run - p.slot[begin] % km_rows_of_run;
        end = end < last ? end : last;
        for (int64_t h = 0; h < heads; h++) {
            ahead = (h + heads_ahead) / heads * km_rows_of_run * p.token_stride +
                ((h + heads_ahead) % heads - h) * km_p(«head_stride»);
            for (int64_t t = begin; t < end; t++) {
_km_set_row«»m4_dnl
                if (++count == km_batch) {
                    $1_batch(row, count, ahead«»km_saturating(«, p.saturate»));
                    count = 0;
                }
            }
        }
        if (count > 0)
            $1_batch(row, count, ahead«»km_saturating(«, p.saturate»));
    }
$3}

»)

m4_dnl km_rows_of_run -- the most tokens of a run, whose rows of a head are written together.
m4_define(«km_rows_of_run», 16)
m4_define(«km_heads_ahead», «km_if(km_from_bytes < 1024, «m4_eval(1024 / km_from_bytes)», 1)»)

m4_dnl km_fetch_row -- prefetching while codes are computed.  If there are many rows they come from memory, and the row
m4_dnl that is fetched is whole tokens ahead, at least km_fetch_bytes.
m4_define(«km_fetch_bytes», 8192)
m4_define(«km_fetch_row», «km_each(«L», 0, km_from_bytes - 1, 64, «m4_dnl
        __builtin_prefetch(row[r].from + ahead + L);
»)»)

m4_dnl km_pad_rows(STEP) -- if vectors of STEP bytes would read past the end of rows, use copies that end with zeros.
m4_define(«km_pad_rows», «m4_ifelse(m4_eval(km_from_bytes % ($1)), 0, «», «m4_dnl
    unsigned char padded[km_batch][km_round_up(km_from_bytes, $1)];
    for (int r = 0; r < count; r++) {
        memcpy(padded[r], row[r].from, km_from_bytes);
        memset(padded[r] + km_from_bytes, 0, m4_eval(km_round_up(km_from_bytes, $1) - km_from_bytes));
        row[r].from = padded[r];
    }
»)»)

m4_dnl km_read(ROW) -- defines km_run.  ROW is the code that reads a row from `from`, with `scales` if it has any, and
m4_dnl writes activations to `to`.
m4_define(«km_read», «m4_define(«_km_row», m4_defn(«$1»))m4_dnl
_km_run(«_km_are_lines(«p->activation», «p->token_stride | km_at_p(«head_stride»)»)», «_km_read_rows»)»)
m4_define(«_km_scaled», «m4_ifelse(km_scale, «none», «», «$1»)»)
m4_define(«_km_read_rows», «km_function(«void», «m4_dnl
$2_row(unsigned char *to, const unsigned char *from«»_km_scaled(«, const unsigned char *scales»))»)
{
_km_row(«$1»)}

km_function(«void», «$2_rows(const struct kvmill_convert *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_convert p = *problem;
    /* The loop nest: tokens, then heads; $2_row() goes through a row.  */
    for (int64_t t = first; t < last; t++) {
        unsigned char *to = p.activation + t * p.token_stride;
        const unsigned char *from = km_row_at(km_element, «p.cache.data», «km_p(«cache.row_stride»)», «p.slot[t]»);
_km_scaled(«        const unsigned char *scales = p.cache.scale + p.slot[t] * km_p(«cache.scale_row_stride»);
»)m4_dnl
        for (int64_t h = 0; h < km_p(«heads»); h++) {
            for (int64_t r = 0; r < km_p(«repeat»); r++, to += km_p(«head_stride»))
                $2_row(to, from«»_km_scaled(«, scales»));
            from += km_p(«cache.head_stride»);
_km_scaled(«            scales += km_p(«cache.scale_head_stride»);
»)m4_dnl
        }
    }
$3}

»)

m4_dnl _km_run(CONDITION, ROWS) -- CONDITION says whether rows can be stored around the caches.
m4_define(«_km_run», «km_if(km_around, «$2(«stream», «stream», «    km_stream_end;
»)»)«»$2(«store», «store», «»)km_run_function
{
    const struct kvmill_convert *p = problem;
km_if(km_around, «    if (p->stream && $1)
        stream_rows(p, first, last);
    else
        store_rows(p, first, last);
», «    store_rows(p, first, last);
»)}

»)

m4_dnl km_convert_descriptor(FAMILY) -- what the library sees of the kernel.
m4_define(«_km_has_group», «(m4_ifelse(km_scale, «none», 0, 1) || km_part(«is_transposed», km_element))»)
m4_define(«km_convert_descriptor», «km_descriptor(«$1», «kvmill_convert_shape shape = {
    .activation = km_enumerator(km_activation),
    .format = {.element = km_enumerator(km_element), .dim = km_dim, .scale = km_enumerator(km_scale), m4_dnl
.quant_group = km_if(_km_has_group, km_quant_group, 0)},
}», 1, «kvmill_convert»)»)
km_include(«together»)
m4_divert(0)m4_dnl
