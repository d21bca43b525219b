m4_divert(-1)
m4_dnl flow_program.m4 -- programs of sparse flows, one op after another.  Values are matrices of floats, members of a
m4_dnl struct in the workspace, so that compilers know that they do not overlap.  If pages are complete, loops have
m4_dnl constant bounds.  Sums are added in the order of runtime/flow/flow_ops.c.  Each product has a -0 added that
m4_dnl compilers cannot see through; otherwise they would fuse the product with the next sum, which rounds only once.
km_need_all(«the spec that has the flow», «km_program», «km_steps»)

m4_dnl ---- Statements ----

m4_dnl km_each_step(PREFIX) -- for every statement WORD ..., the macro PREFIX_WORD(...), if there is one.
m4_define(«km_each_step», «m4_pushdef(«_km_prefix», «$1»)km_steps«»m4_popdef(«_km_prefix»)»)
m4_define(«km_step», «_km_step(_km_prefix«_$1», m4_shift($@))»)
m4_define(«_km_step», «m4_ifdef(«$1», «m4_indir(«$1», m4_shift($@))»)»)

m4_dnl km_rows_of(VALUE) -- its rows, in C; km_room_of(VALUE) -- their largest number; km_columns_of(VALUE) -- its
m4_dnl columns.
m4_define(«km_rows_of», «m4_ifelse(m4_indir(«_km_rows_$1»), «n», «rows», «m4_indir(«_km_rows_$1»)»)»)
m4_define(«km_room_of», «m4_ifelse(m4_indir(«_km_rows_$1»), «n», «km_page», «m4_indir(«_km_rows_$1»)»)»)
m4_define(«km_columns_of», «m4_indir(«_km_columns_$1»)»)
m4_define(«_km_shape», «m4_define(«_km_rows_$1», «$2»)m4_define(«_km_columns_$1», «$3»)»)

m4_dnl Facts that later passes look up.  A step of an index program begins with a word that says when it runs.
m4_define(«_km_fact_cache», «m4_define(«km_page», «$1»)m4_define(«km_is_growing», m4_ifelse(«$2», «growing», 1, 0))»)
m4_define(«_km_fact_index», «m4_define(«km_stages», «$1»)m4_define(«km_page», «$2»)m4_define(«km_is_growing»,
    0)m4_define(«km_page_blocks», m4_ifelse(«$3», «», 1, «$3»))»)
m4_define(«_km_fact_rows», «_km_shape(«$1», «$5», «$6»)_km_note_load(«$2»)_km_note_load(«$3»)»)
m4_define(«_km_fact_field»,
    «_km_shape(«$1», «$3», «$4»)m4_define(«_km_type_$1», «$2»)m4_define(«_km_sharers_$1»,
    m4_ifelse(«$5», «», 1, «$5»))m4_define(«_km_page_bytes_$1», «$6»)_km_note_elements(«$2»)m4_dnl
_km_note_store(«$2»)»)
m4_define(«_km_fact_round», «m4_define(«km_rounds»)»)
m4_define(«_km_fact_write», «m4_define(«_km_is_written_$2»)_km_note_store(«$3»)»)
m4_define(«_km_fact_query», «_km_shape(«$1», «$3», «$4»)_km_note_load(«$2»)»)
m4_define(«_km_fact_constant», «_km_shape(«$1», «$3», «$4»)m4_define(«_km_taps_$1», «$2»)»)
m4_define(«_km_fact_atom», «_km_shape(«$1», «$2», «$3»)»)
m4_define(«_km_fact_keep», «m4_define(«_km_kept_$1»)»)
m4_define(«_km_fact_step», «m4_ifdef(«_km_type_$1», «», «_km_shape(«$1», «$2», «$3»)»)»)
m4_define(«_km_fact_once», «_km_shape(«$2», «$3», «$4»)»)
m4_define(«_km_fact_over», «_km_shape(«$2», «$3», «$4»)»)
m4_define(«_km_fact_page»,
    «_km_shape(«$2», «$3», «$4»)m4_define(«_km_has_$1»)_km_mark(«$1», m4_shift(m4_shift(m4_shift(m4_shift($@)))))»)
m4_dnl _km_need_STAGE_VALUE -- set if a step of STAGE reads VALUE.
m4_define(«_km_mark», «m4_ifelse(«$2», «», «», «m4_define(«_km_need_$1_$2»)_km_mark(«$1», m4_shift(m4_shift($@)))»)»)
m4_dnl The types that are loaded, and those that are stored.
m4_define(«_km_note_load»,
    «m4_ifdef(«km_is_float_$1», «km_if(km_part(«is_float», «$1») && !km_part(«is_transposed», «$1»),
        «_km_note_elements(«$1»)»)»)»)
m4_define(«_km_note_elements», «m4_ifelse(«$1», «f32», «», «m4_define(«_km_loads_$1»)»)»)
m4_define(«_km_note_store», «m4_ifelse(m4_index(« f16 bf16 », « $1 »), -1, «», «m4_define(«_km_stores_$1»)»)»)
km_each_step(«_km_fact»)

m4_dnl km_size_of(VALUE) -- its floats.
m4_define(«km_size_of», «m4_eval(km_room_of(«$1») * km_columns_of(«$1»))»)

m4_dnl The workspace: km_value_floats floats as members of a struct, followed by values that are kept for all pages.
m4_define(«km_value_floats», 0)
m4_define(«km_page_floats», 0)
m4_define(«_km_lay», «m4_ifdef(«_km_kept_$1»,
    «m4_define(«_km_offset_$1», km_page_floats)_km_count(«km_page_floats», «$1»)», «_km_count(«km_value_floats»,
    «$1»)»)»)
m4_define(«_km_count», «m4_define(«$1», m4_eval($1 + km_size_of(«$2»)))»)
m4_define(«km_each_place»,
    «m4_pushdef(«_km_at_place», m4_defn(«$1»))km_each_step(«_km_placed»)m4_popdef(«_km_at_place»)»)
m4_define(«_km_placed_rows», «_km_at_place(«$1»)»)
m4_define(«_km_placed_field», «_km_at_place(«$1»)»)
m4_define(«_km_placed_query», «_km_at_place(«$1»)»)
m4_define(«_km_placed_atom», «_km_at_place(«$1»)»)
m4_define(«_km_placed_step», «m4_ifdef(«_km_type_$1», «», «_km_at_place(«$1»)»)»)
m4_define(«_km_placed_once», «_km_at_place(«$2»)»)
m4_define(«_km_placed_over», «_km_at_place(«$2»)»)
m4_define(«_km_placed_page», «_km_at_place(«$2»)»)
km_each_place(«_km_lay»)

m4_dnl km_values_struct -- the declaration of the struct.
m4_define(«_km_member», «m4_ifdef(«_km_kept_$1», «», «    float $1[km_size_of(«$1»)];
»)»)
m4_define(«km_values_struct», «struct values {
km_each_place(«_km_member»)};

»)

m4_dnl ---- Elements of memory ----

m4_dnl km_load_floats(TYPE, TO, FROM, COUNT) -- loads elements as floats.  km_store_floats(TYPE, TO, FROM, COUNT,
m4_dnl DIRECTION) -- rounds floats to elements, stores these, and sets the floats to what was stored.  DIRECTION 1
m4_dnl rounds up, -1 down, 0 to nearest.
m4_define(«km_load_floats», «m4_ifelse(«$1», «f32», «memcpy($2, $3, m4_eval(4 * ($4)))», «load_floats_$1($2, $3, $4)»)»)
m4_define(«km_store_floats»,
    «m4_ifelse(«$1», «f32», «memcpy($2, $3, m4_eval(4 * ($4)))», «store_floats_$1($2, $3, $4, $5)»)»)

m4_define(«_km_load_function»,
    «m4_ifdef(«_km_loads_$1», «km_inline(«void», «load_floats_$1(float *to, const unsigned char *from, int64_t count)»)
{
    int64_t i = 0;
    for (; i + km_lanes <= count; i += km_lanes)
        store_kept(to + i, load_$1(from + km_size(«$1») * i));
    if (i < count) {
        unsigned char part[m4_eval(km_size(«$1») * km_lanes)] = {0};
        float rest[km_lanes];
        memcpy(part, from + km_size(«$1») * i, (size_t)(count - i) * km_size(«$1»));
        store_kept(rest, load_$1(part));
        memcpy(to + i, rest, (size_t)(count - i) * sizeof *to);
    }
}

»)»)

m4_dnl store_some_floats is not inlined, because clang would take minutes for a field in straight-line code, with all
m4_dnl its small copies.  To round up or down, the nearest half is changed by one unit in the last place: neighbouring
m4_dnl halves have neighbouring bits.
m4_define(«_km_store_function», «m4_ifdef(«_km_stores_$1», «km_function(«__attribute__((noinline)) void»,
    «store_some_floats_$1(unsigned char *to, float *from, size_t some, int direction)»)
{
    float exact[km_lanes] = {0}, near[km_lanes];
    uint16_t half[km_lanes];
    memcpy(exact, from, some * sizeof *exact);
    store_$1((unsigned char *)half, load_f32(exact));
    store_kept(near, load_$1((const unsigned char *)half));
    for (int l = 0; direction != 0 && l < km_lanes; l++) {
        uint32_t u = half[l], is_negative = u >> 15;
        uint32_t beyond = direction > 0 ? near[l] < exact[l] : near[l] > exact[l];
        uint32_t inwards = direction > 0 ? is_negative : 1 - is_negative;
        half[l] = (uint16_t)(u + beyond - 2 * (beyond & inwards));
    }
    store_kept(near, load_$1((const unsigned char *)half));
    memcpy(to, half, some * sizeof *half);
    memcpy(from, near, some * sizeof *near);
}

km_inline(«void», «store_floats_$1(unsigned char *to, float *from, int64_t count, int direction)»)
{
    int64_t i = 0;
    for (; i + km_lanes <= count; i += km_lanes)
        store_some_floats_$1(to + 2 * i, from + i, km_lanes, direction);
    if (i < count)
        store_some_floats_$1(to + 2 * i, from + i, (size_t)(count - i), direction);
}

»)»)

m4_dnl km_single(TYPE, ADDRESS) -- one element as a float.
m4_define(«km_single», «m4_ifelse(«$1», «f32», «float_of(*(const kvmill_word4 *)($2))», «load_one_$1($2)»)»)

m4_dnl ---- Rows of the cache: load_NAME (to, from, scales) ----

m4_define(«km_row_loader»,
    «km_inline(«void», «load_$1(float *to, const unsigned char *from, const unsigned char *scales)»)
{
m4_indir(«_km_load_»km_part(«scales_of», «$2»), «$2», «$3», «$4», «$6»)}

»)
m4_define(«_km_loader_rows», «km_if(_km_has_single_rows(«$2», «$6»), «km_row_loader($@)»)m4_dnl
km_if(_km_squares(«$2», «$6»), «_km_turned_loader($@)»)»)

m4_dnl _km_squares(ELEMENT, DIM) -- whether as many rows of a page as there are lanes are loaded together;
m4_dnl _km_has_single_rows -- whether some are alone.
m4_define(«_km_squares», «(km_transposes && km_part(«is_transposed», «$1») && m4_dnl
km_page % km_lanes == 0 && $2 % km_lanes == 0)»)
m4_define(«_km_has_single_rows», «(km_is_growing || !_km_squares(«$1», «$2»))»)
m4_define(«_km_turned_loader», «km_inline(«void», «load_rows_of_$1(float *to, const unsigned char *from)»)
{
    for (int64_t i = 0; i < $6; i += km_lanes) {
km_turn(«km_typed(«load», km_part(«codes», «$2»))(from + (i + J) * km_step_of_page(«$2», «$4»))», m4_dnl
«store_kept(to + J * $6 + i, x[J])»)m4_dnl
    }
}

»)

m4_dnl _km_load_KIND(ELEMENT, SCALE, GROUP, DIM) -- loads a row, for each place where scales can be.
m4_define(«_km_load_none», «    (void)scales;
km_if(km_part(«is_transposed», «$1»), «    for (int64_t i = 0; i < $4; i++)
        to[i] = km_single(km_part(«codes», «$1»), «from + i * km_step_of_page(«$1», «$3»)»);
», «    km_load_floats(«$1», «to», «from», «$4»);
»)»)

m4_define(«_km_padded», «m4_eval(($1 + km_lanes - 1) / km_lanes * km_lanes)»)
m4_define(«_km_whole_vectors», «m4_eval($1 / km_lanes * km_lanes)»)
m4_define(«_km_bytes_before», «m4_eval(km_offset_of(«$1», «$2»))»)
m4_define(«_km_codes», «km_codes_of(«$1», «$2», «$3», km_lanes)»)
m4_dnl If a vector is in one group, its scale is broadcast; otherwise each element has its own.
m4_define(«_km_is_even», «m4_eval($1 % km_lanes == 0)»)
m4_define(«_km_scales», «m4_ifelse(_km_is_even(«$1»), 1, «broadcast(scale[$2 / $1])», «load_f32(spread + $2)»)»)
m4_define(«_km_load_groups», «    float scale[m4_eval($4 / $3)];
    for (int g = 0; g < m4_eval($4 / $3); g++)
        scale[g] = km_single(«$2», «scales + km_size(«$2») * g»);
m4_ifelse(_km_is_even(«$3»), 1, «», «    float spread[_km_padded(«$4»)] = {0};
    for (int i = 0; i < $4; i++)
        spread[i] = scale[i / $3];
»)m4_dnl
    for (int i = 0; i < _km_whole_vectors(«$4»); i += km_lanes)
        store_kept(to + i, multiply(_km_codes(«$1», «from», «i»), _km_scales(«$3», «i»)));
m4_ifelse(m4_eval($4 % km_lanes), 0, «», «    unsigned char part[km_lanes] = {0};
    float rest[km_lanes];
    memcpy(part, from + _km_bytes_before(«$1», _km_whole_vectors(«$4»)), _km_bytes_before(«$1», «$4 % km_lanes»));
    store_kept(rest, multiply(_km_codes(«$1», «part», 0), _km_scales(«$3», _km_whole_vectors(«$4»))));
    memcpy(to + _km_whole_vectors(«$4»), rest, m4_eval($4 % km_lanes * 4));
»)»)

m4_define(«_km_block_loop», «        for (int i = 0; i < km_part(«piece», «$1»); i += km_lanes)
            store_kept(to + b * km_part(«block», «$1») + $2 + i,
                multiply(m4_indir(«km_block_codes_$1», «block», «i», «$2 / km_part(«piece», «$1»)»),
                broadcast(scale))km_if(km_part(«has_minimum», «$1»), « + minimum»));
»)
m4_define(«_km_load_blocks», «    (void)scales;
    for (int b = 0; b < m4_eval($4 / km_part(«block», «$1»)); b++) {
        const unsigned char *block = from + b * km_part(«block_bytes», «$1»);
        const float scale = load_one_f16(block);
km_if(km_part(«has_minimum», «$1»), «        const float minimum = load_one_f16(block + 2);
»)m4_dnl
km_each(«FIRST», 0, km_part(«block», «$1») - 1, km_part(«piece», «$1»), «_km_block_loop(«$1», FIRST)»)m4_dnl
    }
»)

m4_define(«_km_load_row», «    (void)scales;
    const vf scale = broadcast(km_single(«f32», «from»));
    for (int i = 0; i < $4; i += km_lanes)
        store_kept(to + i, multiply(_km_codes(«$1», «from», «i»), scale));
»)

m4_dnl km_load_rows(NAME, ELEMENT, SCALE, GROUP, ROWS, COLUMNS, SLOT, HEAD) -- loads the rows of a page, which begin at
m4_dnl row SLOT of the cache.
m4_define(«km_load_rows», «m4_pushdef(«SIDE», «m4_ifelse(«$1», «k», «key», «value»)»)m4_dnl
km_if(_km_squares(«$2», «$6»), «    for (int64_t r = 0; r + LANES <= km_rows_of(«$1»); r += LANES)
        load_rows_of_$1(_km_to_and_from($@));
»)m4_dnl
km_if(_km_has_single_rows(«$2», «$6»), «m4_dnl
    for (int64_t r = km_if(_km_squares(«$2», «$6»), «km_rows_of(«$1») / LANES * LANES», 0); r < km_rows_of(«$1»); r++)
        load_$1(_km_to_and_from($@),
            m4_ifelse(«$3», «none», «NULL»,
            «p->SIDE.scale + ($7 + r) * p->SIDE.scale_row_stride + $8 * p->SIDE.scale_head_stride»));
»)m4_popdef(«SIDE»)»)
m4_define(«_km_to_and_from»,
    «km_place(«$1») + r * $6, _km_row_at(«$2», «($7 + r)», «$4») + $8 * p->SIDE.head_stride»)
m4_define(«_km_row_at», «km_if(km_part(«is_transposed», «$1»),
    «km_row_of_page(«$1», «p->SIDE.data», «p->SIDE.row_stride», «$2», «$3»)»,
    «p->SIDE.data + $2 * p->SIDE.row_stride»)»)

m4_dnl km_field_at(FIELD, PAGE, HEAD) -- the address of a matrix.  km_shared(FIELD, HEADS) -- divides a number of kv
m4_dnl heads by the number that share a matrix.
m4_define(«km_shared», «m4_ifelse(m4_indir(«_km_sharers_$1»), 1, «$2», «($2 / m4_indir(«_km_sharers_$1»))»)»)
m4_define(«km_field_at»,
    «p->field[m4_substr(«$1», 1)] + m4_ifelse(m4_indir(«_km_page_bytes_$1»), «», «($2 * km_shared(«$1»,
    «p->kv_heads») + km_shared(«$1», «$3»)) * m4_eval(km_size_of(«$1») * km_size(m4_indir(«_km_type_$1»)))»,
    «$2 * m4_indir(«_km_page_bytes_$1»)»)»)

m4_dnl ---- Arithmetic ----

m4_dnl _km_with(TEXT, X, Y) -- TEXT with X and Y replaced.
m4_define(«_km_with», «m4_pushdef(«X», «$2»)m4_pushdef(«Y», «$3»)$1«»m4_popdef(«X», «Y»)»)

m4_dnl km_times(A, B) -- a product that is rounded before it is added to anything.
m4_define(«km_times», «($1 * $2 + minus_0)»)

m4_dnl km_arithmetic -- sums, roots, exponentials.  Sums of adjacent terms have sixteen lanes.
m4_define(«km_arithmetic», «km_inline(«float», «chosen(uint32_t truth, float a, float b)»)
{
    return float_of(bits_of(b) ^ ((bits_of(a) ^ bits_of(b)) & -truth));
}

/* Newton's method in double precision.  Rounded to float, the result is the correctly rounded root of a float.  */
km_inline(«float», «root(float x)»)
{
    double wide = x, y;
    uint64_t u;
    memcpy(&u, &wide, sizeof u);
    u = (u >> 1) + 0x1ff7a3bea91d9b1b;
    memcpy(&y, &u, sizeof y);
    for (int i = 0; i < 5; i++)
        y = 0.5 * (y + wide / y);
    return chosen((x > 0) & (x < __builtin_inff()), (float)y, x);
}

km_inline(«float», «exponential(float x, float minus_0)»)
{
    float above = x > 89.f ? 89.f : x, within = above < -104.f ? -104.f : above;
    float shifted = km_times(«within», «1.44269504f») + 0x1.8p23f, n = shifted - 0x1.8p23f;
    float first = within - km_times(«n», «0x1.63p-1f»), r = first - km_times(«n», «-2.12194440e-4f»);
    float y = 1.9875691500e-4f;
    y = km_times(«y», «r») + 1.3981999507e-3f;
    y = km_times(«y», «r») + 8.3334519073e-3f;
    y = km_times(«y», «r») + 4.1665795894e-2f;
    y = km_times(«y», «r») + 1.6666665459e-1f;
    y = km_times(«y», «r») + 5.0000001201e-1f;
    y = km_times(«km_times(«y», «r»)», «r») + r + 1.f;
    int32_t k = (int32_t)(bits_of(shifted) - 0x4b400000u), half = k >> 1;
    return km_times(«km_times(«y», «float_of((uint32_t)(half + 127) << 23)»)»,
        «float_of((uint32_t)(k - half + 127) << 23)»);
}

km_inline(«float», «logarithm(float x, float minus_0)»)
{
    uint32_t small = x < 0x1p-126f;
    uint32_t u = bits_of(chosen(small, x * 0x1p23f, x));
    int32_t exponent = (int32_t)(u - 0x3f3504f3u) >> 23;
    float z = float_of(u - ((uint32_t)exponent << 23)) - 1.f, square = km_times(«z», «z»);
    float n = (float)(exponent - 23 * (int32_t)small);
    float y = 7.0376836292e-2f;
    y = km_times(«y», «z») + -1.1514610310e-1f;
    y = km_times(«y», «z») + 1.1676998740e-1f;
    y = km_times(«y», «z») + -1.2420140846e-1f;
    y = km_times(«y», «z») + 1.4249322787e-1f;
    y = km_times(«y», «z») + -1.6668057665e-1f;
    y = km_times(«y», «z») + 2.0000714765e-1f;
    y = km_times(«y», «z») + -2.4999993993e-1f;
    y = km_times(«y», «z») + 3.3333331174e-1f;
    y = km_times(«km_times(«y», «z»)», «square») + km_times(«n», «-2.12194440e-4f»);
    y = z + (y - km_times(«0.5f», «square»)) + km_times(«n», «0x1.63p-1f»);
    y = chosen(x < __builtin_inff(), y, x);
    y = chosen(x == 0, -__builtin_inff(), y);
    return chosen(x < 0, __builtin_nanf(""), y);
}

enum { TERMS = 16 };

km_inline(«float», «added(float lane[TERMS])»)
{
    for (int l = 0; l < 8; l++)
        lane[l] += lane[l + 8];
    for (int l = 0; l < 4; l++)
        lane[l] += lane[l + 4];
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

_km_across(«sum», «const float *x», «x[i + l]»)
_km_across(«squares», «const float *x», «km_times(«x[i + l]», «x[i + l]»)»)
_km_across(«dot», «const float *x, const float *y», «km_times(«x[i + l]», «y[i + l]»)»)
_km_extreme_across(«largest», «>»)
_km_extreme_across(«least», «<»)
_km_down(«sum», «0.f», «Y + X», 0)
_km_down(«squares», «0.f», «Y + km_times(«X», «X»)», 0)
_km_down(«largest», «x[j]», «X > Y ? X : Y», 1)
_km_down(«least», «x[j]», «X < Y ? X : Y», 1)
»)

m4_dnl _km_across(NAME, INPUTS, TERM) -- defines NAME_across, which reduces `count` adjacent numbers.
m4_define(«_km_across», «km_inline(«float», «$1_across($2, int64_t count, float minus_0)»)
{
    float lane[TERMS] = {0};
    int64_t i = 0;
    (void)minus_0;
    for (; i + TERMS <= count; i += TERMS)
        for (int l = 0; l < TERMS; l++)
            lane[l] += $3;
    for (int l = 0; l < count % TERMS; l++)
        lane[l] += $3;
    return added(lane);
}
»)
m4_define(«_km_extreme_across», «km_inline(«float», «$1_across(const float *x, int64_t count)»)
{
    float y = x[0];
    for (int64_t i = 1; i < count; i++)
        y = x[i] $2 y ? x[i] : y;
    return y;
}
»)
m4_dnl _km_down(NAME, BEGIN, NEXT, FIRST) -- defines NAME_down, which reduces each column j of x to to[j], row by row
m4_dnl from row FIRST on.  minus_0 is added because compilers turn a plain copy into a slow instruction.
m4_define(«_km_down», «km_inline(«void»,
    «$1_down(float *restrict to, const float *restrict x, int64_t count, int64_t columns, float minus_0)»)
{
    for (int64_t j = 0; j < columns; j++)
        to[j] = $2 + minus_0;
    for (int64_t r = $4; r < count; r++)
        for (int64_t j = 0; j < columns; j++)
            _km_with(«to[j] = $3;», «x[r * columns + j]», «to[j]»)
}
»)

m4_dnl km_round_function -- defines rounded (), to the nearest bfloat16, ties to even.
m4_define(«km_round_function», «m4_ifdef(«km_rounds», «km_inline(«float», «rounded(float x)»)
{
    return float_of(brain_of(x) << 16);
}

»)»)

m4_dnl ---- Text of files ----

m4_dnl km_flow_head(SUMMARY) -- the head of a file, and the functions that programs call.
m4_define(«km_flow_head», «km_program_head(«$1», m4_defn(«km_program»), m4_defn(«km_headers»))
km_for_words(«FORMAT», «km_formats»,
    «_km_load_function(FORMAT)»)m4_dnl
_km_store_function(«f16»)_km_store_function(«bf16»)km_each_step(«_km_loader»)km_values_struct«»m4_dnl
km_arithmetic«»km_round_function«»km_hidden_zero»)

m4_dnl km_minus_0 -- a -0 that compilers cannot see through.
m4_define(«km_hidden_zero», «/* -0, in a form from which compilers cannot tell that adding it changes nothing.  */
km_inline(«float», «hidden_zero(void)»)
{
    float zero = -0.f;
    __asm__("" : "+m"(zero));
    return zero;
}

»)
m4_define(«km_minus_0», «    const float minus_0 = hidden_zero();
    (void)minus_0;
»)

m4_define(«km_program_descriptor», «km_descriptor(«KVMILL_FLOW_PROGRAM», «kvmill_flow_program_shape shape = {
    .program = km_program_string(m4_defn(«km_program»)),
}», 0)»)
m4_divert(0)m4_dnl
