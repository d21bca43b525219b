m4_divert(-1)
m4_dnl gather.m4 -- shared by the kernels that gather windows: loading indices, finding windows, walking along axes.
m4_dnl struct kvmill_gather_geometry has the strides.
km_check_tuning«»m4_dnl
km_need_all(«the definitions», «km_symbol», «km_unit», «km_index», «km_bounds», «km_components», «km_bytes»)

m4_dnl ---- Indices ----

m4_define(«km_index_bits», «m4_substr(km_index, 1)»)
m4_define(«km_index_signed», «m4_ifelse(m4_substr(km_index, 0, 1), «i», 1, 0)»)
m4_define(«km_is_filled», «m4_ifelse(km_bounds, «fill», 1, 0)»)

m4_dnl km_index_at(AT) -- the index there, widened to int64; a larger number becomes the largest int64.
m4_define(«_km_part_of_byte»,
    «km_if(km_index_signed, «(int8_t)(*$1 << m4_eval(8 - km_index_bits)) >> m4_eval(8 - km_index_bits)»,
    «*$1 & m4_eval((1 << km_index_bits) - 1)»)»)
m4_define(«km_index_at»,
    «km_if(km_index_bits < 8, «_km_part_of_byte(«$1»)», «_km_whole_index(«$1», m4_eval(km_index_bits / 8))»)»)
m4_define(«_km_word_at», «m4_ifelse($2, 1, «*$1», «*(const kvmill_word$2 *)$1»)»)
m4_define(«_km_whole_index», «km_if(km_index_signed, «(int«»km_index_bits«»_t)_km_word_at(«$1», $2)»,
    «km_if($2 < 8, «_km_word_at(«$1», $2)»,
    «(int64_t)(_km_word_at(«$1», $2) < INT64_MAX ? _km_word_at(«$1», $2) : INT64_MAX)»)»)»)

m4_dnl km_gather_functions -- the functions that all kernels need.  The starts are copied to a local struct, so that the
m4_dnl compiler sees that stores to windows do not change them.
m4_define(«km_gather_functions», «m4_dnl
struct starts {
    struct kvmill_gather_component component[km_if(km_components, km_components, 1)];
};

/* A place in the indices, the operand and the result.  */
struct place {
    const unsigned char *indices, *operand;
    unsigned char *result;
};

km_inline(«struct starts», «starts_of(const struct kvmill_gather_geometry *g)»)
{
    struct starts starts = { { { 0 } } };
    (void)g;
km_each(«C», 0, km_components - 1, 1, «    starts.component[C] = g->component[C];
»)m4_dnl
    return starts;
}

km_inline(«int64_t», «clamped(int64_t start, int64_t most)»)
{
    if (__builtin_expect((uint64_t)start > (uint64_t)most, 0))
        start = start < 0 ? 0 : most;
    return start;
}

km_inline(«const unsigned char *», «window_at(const struct starts *starts, struct place at)»)
{
    (void)starts;
km_each(«C», 0, km_components - 1, 1, «    const unsigned char *index«»C = at.indices + starts->component[C].index;
    at.operand += clamped(km_index_at(«index»C), starts->component[C].most) * starts->component[C].from;
»)m4_dnl
    return at.operand;
}

km_if(km_is_filled, «km_inline(«int», «is_outside(const struct starts *starts, struct place at)»)
{
    int outside = 0;
    (void)starts;
km_each(«C», 0, km_components - 1, 1, «    const unsigned char *index«»C = at.indices + starts->component[C].index;
    outside |= (uint64_t)(int64_t)(km_index_at(«index»C)) > (uint64_t)starts->component[C].most;
»)m4_dnl
    return outside;
}

km_function(«void», «fill_bytes(unsigned char *to, const unsigned char *fill, int64_t count)»)
{
    for (; count > 64; count -= 64, to += 64)
        memcpy(to, fill, 64);
    memcpy(to, fill, (size_t)count);
}

»)km_inline(«void», «move(struct place *place, const struct kvmill_gather_axis *axis, int64_t turns)»)
{
    place->indices += turns * axis->index;
    place->operand += turns * axis->from;
    place->result += turns * axis->to;
}

/* The place of a window; `turn` gets its coordinates along the axes.  */
km_function(«struct place», «place_of(const struct kvmill_gather_windows *p, int64_t window, int64_t *turn)»)
{
    const struct kvmill_gather_geometry *g = p->geometry;
    struct place place = { p->indices, p->operand, p->result };
    for (int64_t a = g->axes - 1; a >= 0; a--) {
        turn[a] = window % g->axis[a].extent;
        window /= g->axis[a].extent;
        move(&place, &g->axis[a], turn[a]);
    }
    return place;
}

»)

m4_dnl ---- Windows ----

m4_dnl km_window(BODY, TO, FROM, NEXT) -- BODY(TO, FROM, NEXT) for each run of adjacent bytes of a window.  NEXT is the
m4_dnl same place in the window to prefetch.  Short windows are straight-line code.
m4_define(«km_moves_of_run»,
    «((km_if(km_bytes < km_stretch, km_bytes, km_stretch) + _km_first(km_widths) - 1) / _km_first(km_widths))»)
m4_define(«_km_first», «$1»)
m4_define(«km_window», «_km_loop(1, km_turns, «$1», «$2», «$3», «$4»)»)
m4_define(«_km_loop», «m4_ifelse($1, 4, «$3(«$4», «$5», «$6»)», «_km_this_loop($@)»)»)
m4_define(«_km_this_loop», «m4_ifelse(m4_indir(«km_extent$1»), 0, «_km_loop(m4_incr($1), $2, «$3», «$4», «$5», «$6»)»,
  «km_if($2 * km_moves_of_run <= km_most_moves, «_km_unrolled_loop(«km_turn$1», $@)»,
      «        for (int64_t i$1 = 0; i$1 < m4_indir(«km_extent$1»); i$1++) {
_km_inner(i$1, $@)        }
»)»)»)
m4_define(«_km_inner», «_km_loop(m4_incr($2), m4_eval($3 / m4_indir(«km_extent$2»)), «$4»,
    «$5 + $1 * m4_indir(«km_to$2»)», «$6 + $1 * INT64_C(m4_indir(«km_from$2»))»,
    «$7 + $1 * INT64_C(m4_indir(«km_from$2»))»)»)
m4_define(«_km_unrolled_loop», «km_each(«$1», 0, m4_indir(«km_extent$2») - 1, 1, «_km_inner($1, m4_shift($@))»)»)

m4_dnl km_in_stretches(N, BODY) -- BODY(COUNT, AT) for N bytes: blocks, taken from each stream in turn, then the rest.
m4_define(«km_stream_length», «m4_eval($1 / km_streams)»)
m4_define(«km_in_stretches», «km_if($1 <= km_stretch, «$2($1, 0)»,
    «        for (int64_t byte = 0; byte + km_stretch <= km_stream_length($1); byte += km_stretch) {
km_each(«S», 0, km_streams - 1, 1, «$2(km_stretch, byte + m4_eval(S * km_stream_length($1)))»)        }
m4_ifelse(m4_eval($1 % km_stretch), 0, «», «$2(m4_eval($1 % km_stretch), m4_eval($1 / km_stretch * km_stretch))»)»)»)

m4_dnl km_gather_descriptor -- what the library sees of the kernel.
m4_define(«km_gather_descriptor», «km_descriptor(«KVMILL_GATHER», «kvmill_gather_shape shape = {
    .index_bits = km_index_bits,
    .index_signed = km_index_signed,
    .fill = km_is_filled,
    .components = km_components,
    .bytes = km_count(km_bytes),
    .loop = { { km_extent1, km_from1, km_to1 }, { km_extent2, km_from2, km_to2 }, { km_extent3, km_from3, km_to3 } },
}», 0)»)
m4_divert(0)m4_dnl
