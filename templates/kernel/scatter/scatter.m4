m4_divert(-1)
m4_dnl scatter.m4 -- shared by the scatter kernels: loops over points, index vectors, and windows that are partly out of
m4_dnl bounds.  A point is an element of the index space; it has an index vector and a window of updates.
km_need_all(«the definitions», «km_symbol», «km_components», «km_row», «km_index_code», «km_index_bits», «km_unroll»,
    «km_ahead»)

m4_dnl km_context -- an extra argument of combine_one and combine_row: the problem, in kernels that need more than the
m4_dnl element.  km_context_parameter -- its declaration.
km_default(«km_context», «»)
m4_define(«km_context_parameter»,
    «m4_ifelse(m4_defn(«km_context»), «», «», «const struct kvmill_scatter_windows *p, »)»)

m4_dnl km_update_size -- bytes of an update's element, whose type may differ from the result's.
km_default(«km_update_size», «km_size»)

m4_dnl km_for_starts(BODY) -- BODY for every component K.
m4_define(«km_for_starts», «km_each(«K», 0, km_components - 1, 1, «$1»)»)

m4_dnl km_array -- the length of arrays with an entry per component; C has no arrays of length 0.
m4_define(«km_array», «km_if(km_components, «km_components», 1)»)

m4_dnl km_apart(TYPE, DECLARATION) -- a function that is not inlined: inlining recursive functions made code ten times
m4_dnl as long.
m4_define(«km_apart», «km_function(«__attribute__((noinline)) $1», «$2»)»)

m4_dnl ---- Index components ----

m4_define(«_km_index_type», «int«»km_if(km_index_bits < 8, 8, km_index_bits)«»_t»)
m4_dnl Indices of fewer than 8 bits: the other bits of the byte are ignored.
m4_define(«km_index_value», «m4_ifelse(
  km_index, «i1», «value != 0»,
  km_index, «ui64», «value > INT64_MAX ? INT64_MAX : (int64_t)value»,
  m4_eval(km_index_bits >= 8), 1, «value»,
  km_index_code, 0, «(int64_t)((value & m4_eval((1 << km_index_bits) - 1)) ^ m4_eval(1 << (km_index_bits - 1))) -
    m4_eval(1 << (km_index_bits - 1))»,
  «value & m4_eval((1 << km_index_bits) - 1)»)»)

m4_dnl km_index_functions -- defines load_index (at): the index as int64; larger numbers become INT64_MAX.
m4_define(«km_index_functions»,
    «typedef m4_ifelse(km_index_code, 0, «», «u»)«»_km_index_type component __attribute__((may_alias, aligned(1)));

km_inline(«int64_t», «load_index(const unsigned char *at)»)
{
    component value = *(const component *)at;
    return km_index_value;
}

»)

m4_dnl ---- Windows ----

m4_dnl km_window_functions -- defines combine_rows, walk and partial.
m4_define(«km_window_functions», «/* Combine the elements along a loop.  */
km_function(«void», «combine_along(km_context_parameter«»const struct kvmill_scatter_loop *loop, unsigned char *to,
    const unsigned char *from)»)
{
    if (loop->result_step == km_size && loop->update_step == km_update_size) {
        combine_row(km_context«»to, from, loop->count);
        return;
    }
    for (int64_t i = 0; i < loop->count; i++)
        combine_one(km_context«»to + i * loop->result_step, from + i * loop->update_step);
}

km_apart(«void», «walk(km_context_parameter«»const struct kvmill_scatter_loop *loop, int loops, unsigned char *to,
    const unsigned char *from)»)
{
    if (loops == 0)
        combine_one(km_context«»to, from);
    else if (loops == 1)
        combine_along(km_context«»loop, to, from);
    else
        for (int64_t i = 0; i < loop->count; i++)
            walk(km_context«»loop + 1, loops - 1, to + i * loop->result_step, from + i * loop->update_step);
}

/* Set [*low, *high), the coordinates of a window from `start` on that may be written.  Returns 0 if there are none.  */
static int
clip(const struct kvmill_scatter_start *s, int64_t start, int64_t turn, int64_t *low, int64_t *high)
{
    if ((uint64_t)start > s->most || start >= s->high - turn || start <= s->low - turn - s->extent)
        return 0;
    *low = s->low - turn - start;
    *high = s->high - turn - start;
    return 1;
}

/* Restrict a loop to the coordinates [low, high), and move `to` and `from` to its new beginning.  */
static void
cut(struct kvmill_scatter_loop *loop, int64_t low, int64_t high, unsigned char **to, const unsigned char **from)
{
    int64_t first = low > 0 ? low : 0, last = high < loop->count ? high : loop->count;
    *to += first * loop->result_step;
    *from += first * loop->update_step;
    loop->count = last - first;
}

/* Write the part of a window that is inside, for a point whose window is not inside as a whole.  */
km_apart(«void», «partial(const struct kvmill_scatter_windows *p, const struct inside *inside, const int64_t *start,
        unsigned char *to, const unsigned char *from)»)
{
    struct kvmill_scatter_loop loop[KVMILL_MOST_SCATTER_LOOPS];
    memcpy(loop, p->window, (size_t)p->window_loops * sizeof *loop);
    for (int k = 0; k < km_components; k++) {
        const struct kvmill_scatter_start *s = &p->start[k];
        int64_t low, high;
        if (!clip(s, start[k], inside->turn[k], &low, &high))
            return;
        to += start[k] * s->result_step;
        if (s->axis >= 0)
            cut(&loop[s->axis], low, high, &to, &from);
    }
    walk(km_context«»loop, p->window_loops, to, from);
}

»)

m4_dnl ---- Points ----

m4_dnl km_point_types -- types for the loops over points.
m4_define(«km_point_types», «/* The place of a point.  */
struct place {
    unsigned char *to;
    const unsigned char *from, *vector;
};

/* A window is inside as a whole if start[k] - low[k] is less than count[k] for every component k.  turn[k] is the
   coordinate of the enclosing loop that moves component k, or 0.  */
struct inside {
    int64_t low[km_array], turn[km_array];
    uint64_t count[km_array];
};

»)

m4_dnl km_point_loads(TURN, SUFFIX) -- load the components of point TURN to start_K_SUFFIX.
m4_define(«km_point_loads»,
    «km_for_starts(«        int64_t start_«»K«»_$2 = load_index(at.vector + ($1) * step.index_step + offset_«»K);
»)»)
m4_dnl km_point_inside(SUFFIX) -- whether its window is inside; km_point_to(TURN, SUFFIX) -- where its window begins.
m4_define(«km_point_inside», «km_if(km_components, «km_for_starts(«m4_ifelse(K, 0, «»,
    « & »)((uint64_t)start_«»K«»_$1 - (uint64_t)low_«»K < count_«»K)»)», 1)»)
m4_define(«km_point_to», «at.to + ($1) * step.result_step«»km_for_starts(« + start_«»K«»_$2 * step_«»K»)»)
m4_define(«km_point_from», «at.from + ($1) * step.update_step»)

m4_dnl km_point_partial(TURN, SUFFIX) -- for windows that are not inside as a whole; rarely used.
m4_define(«km_point_partial», «{
            const int64_t start[] = {km_for_starts(«start_«»K«»_$2, »)0};
            partial(p, &inside, start, at.to + ($1) * step.result_step, km_point_from($1));
        }»)

m4_dnl km_run_functions -- defines repeat ().  A loop around the points may read the same index vectors again and again,
m4_dnl and these may name neighbours, as those of slices do.  Runs of neighbours are then found once and combined as
m4_dnl rows.
m4_define(«km_finds_runs», «(km_row == 1 && km_components > 0)»)
m4_define(«km_run_functions», «enum { MOST_RUNS = 512, LEAST_TURNS = 4, LEAST_RUN = 4 };

/* Points [first, first + count), whose results are adjacent from `to` on.  */
struct run {
    int64_t to, first, count;
};

static int
continues(const struct run *run, int64_t to, int64_t i)
{
    return to == run->to + run->count * km_size && i == run->first + run->count;
}

/* Find the runs.  Returns their number, or more than MOST_RUNS if there are too many.  */
km_apart(«int», «find_runs(const struct kvmill_scatter_windows *p, struct place at, struct inside inside,
    struct run *runs)»)
{
    const struct kvmill_scatter_loop step = p->point[p->point_loops - 1];
    int count = 0;
km_point_constants(«p->start[K].result_step»)    for (int64_t i = 0; i < step.count; i++) {
km_point_loads(«i», 0)        if (!(km_point_inside(0)))
            continue;
        int64_t to = i * step.result_step«»km_for_starts(« + start_«»K«»_0 * step_«»K»);
        if (count > 0 && continues(&runs[count - 1], to, i))
            runs[count - 1].count++;
        else if (count == MOST_RUNS)
            return MOST_RUNS + 1;
        else
            runs[count++] = (struct run){to, i, 1};
    }
    return count;
}

/* Combine by runs, if the loop at `depth` around the points repeats their index vectors.  Returns whether it did.  */
km_function(«int», «repeat(const struct kvmill_scatter_windows *p, int depth, struct place at, const int64_t *turn)»)
{
    const struct kvmill_scatter_loop *loop = &p->point[depth], *point = loop + 1;
    struct run runs[MOST_RUNS];
    if (loop->index_step != 0 || loop->count < LEAST_TURNS || point->update_step != km_update_size)
        return 0;
    for (int k = 0; k < km_components; k++)
        if (p->start[k].point == depth)
            return 0;
    int count = find_runs(p, at, inside_at(p, turn), runs);
    if (count > MOST_RUNS || count * LEAST_RUN > point->count)
        return 0;
    for (int64_t i = 0; i < loop->count; i++)
        for (int r = 0; r < count; r++)
            combine_row(km_context«»at.to + i * loop->result_step + runs[r].to,
                        at.from + i * loop->update_step + runs[r].first * km_update_size, runs[r].count);
    return 1;
}

»)

m4_dnl km_point_constants(STEP) -- numbers that are the same for all points.  STEP is the distance in the result between
m4_dnl coordinates of component K.
m4_define(«km_point_constants», «km_for_starts(«    const int64_t offset_«»K = p->start[K].index_offset, step_«»K = $1;
    const int64_t low_«»K = inside.low[K];
    const uint64_t count_«»K = inside.count[K];
»)»)

m4_dnl km_point_ahead(TURN) -- prefetch the elements of a later point.  Its index may be invalid, so the address is
m4_dnl computed as an integer.
m4_define(«km_point_ahead», «km_if(km_ahead, «        if ($1 + km_ahead < step.count) {
            const unsigned char *vector = at.vector + ($1 + km_ahead) * step.index_step;
            uint64_t address = (uintptr_t)at.to + (uint64_t)(($1 + km_ahead) * step.result_step);
km_for_starts(«            address += (uint64_t)load_index(vector + offset_«»K) * (uint64_t)step_«»K;
»)            (void)vector;
            __builtin_prefetch((const void *)(uintptr_t)address, 1);
        }
»)»)

m4_define(«km_index_bytes», «km_if(km_index_bits < 8, 1, m4_eval(km_index_bits / 8))»)

m4_dnl km_points(BODY) -- defines km_run.  BODY loops over the points of the innermost loop.  For single elements that
m4_dnl are adjacent, the usual case, there is a copy with constant strides.
m4_define(«km_points», «km_inline(«void»,
    «points_by(const struct kvmill_scatter_windows *p, struct place at, struct inside inside,
          const struct kvmill_scatter_loop step, const int64_t last_step)»)
{
km_point_constants(«km_if(K == km_components - 1, last_step, «p->start[K].result_step»)»)    int64_t i = 0;
$1    (void)p;
    (void)inside;
    (void)last_step;
}

km_function(«void», «points(const struct kvmill_scatter_windows *p, struct place at, struct inside inside)»)
{
    const struct kvmill_scatter_loop step = p->point[p->point_loops - 1];
    const int64_t last_step = km_if(km_components, «p->start[m4_eval(km_components - 1)].result_step», 0);
km_if(km_row == 1 && km_components,
    «    const struct kvmill_scatter_loop dense = {step.count, 0, km_update_size,
        m4_eval(km_components * km_index_bytes)};
    if (step.result_step == 0 && step.update_step == dense.update_step && step.index_step == dense.index_step &&
        last_step == km_size) {
        points_by(p, at, inside, dense, km_size);
        return;
    }
»)    points_by(p, at, inside, step, last_step);
}

static int64_t
max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t
min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The limits for index components of windows that are inside as a whole, at these turns of the loops over points.  */
static struct inside
inside_at(const struct kvmill_scatter_windows *p, const int64_t *turn)
{
    struct inside inside = {{0}, {0}, {0}};
    for (int k = 0; k < km_components; k++) {
        const struct kvmill_scatter_start *s = &p->start[k];
        inside.turn[k] = s->point < 0 ? 0 : turn[s->point];
        inside.low[k] = s->low - inside.turn[k];
        int64_t last = s->high - inside.turn[k] - s->extent;
        if (s->most != UINT64_MAX) {
            inside.low[k] = max(inside.low[k], 0);
            last = min(last, (int64_t)s->most);
        }
        inside.count[k] = (uint64_t)max(last - inside.low[k] + 1, 0);
    }
    return inside;
}

km_if(km_finds_runs, «km_run_functions»)«»km_apart(«void»,
    «walk_points(const struct kvmill_scatter_windows *p, int depth, struct place at, int64_t *turn)»)
{
    const struct kvmill_scatter_loop *loop = &p->point[depth];
    if (depth == p->point_loops - 1) {
        points(p, at, inside_at(p, turn));
        return;
    }
km_if(km_finds_runs, «    if (depth == p->point_loops - 2 && repeat(p, depth, at, turn))
        return;
»)    /* The loop nest: loops over points, one inside the other, down to points(); there windows, or their elements.  */
    for (int64_t i = 0; i < loop->count; i++) {
        turn[depth] = i;
        walk_points(p, depth + 1, at, turn);
        at.to += loop->result_step;
        at.from += loop->update_step;
        at.vector += loop->index_step;
    }
}

km_run_function
{
    const struct kvmill_scatter_windows *p = problem;
    struct place at = {p->result, p->updates, p->indices};
    int64_t turn[KVMILL_MOST_SCATTER_LOOPS] = {0};
    (void)first;
    (void)last;
    walk_points(p, 0, at, turn);
}

»)

m4_dnl km_single_points -- points whose windows are one element, which is inside or ignored.  The components of several
m4_dnl points are loaded together.  Elements are combined in order, because points may name the same element.
m4_define(«km_single_point», «km_if(km_components, «        if (km_point_inside(«$2»))
    »)        combine_one(km_context«»km_point_to(«$1», «$2»), km_point_from(«$1»));
»)
m4_define(«km_single_points»,
    «km_points(«m4_ifelse(km_unroll, 1, «», «    for (; i + km_unroll <= step.count; i += km_unroll) {
km_each(«U», 0, km_unroll - 1, 1, «km_point_ahead(«i + U»)km_point_loads(«i + U», U)»)km_each(«U», 0, km_unroll - 1, 1,
    «km_single_point(«i + U», U)»)    }
»)    for (; i < step.count; i++) {
km_point_ahead(«i»)km_point_loads(«i», 0)km_single_point(«i», 0)    }
»)»)

m4_dnl km_walked_rows -- defines combine_rows: rows of any length.
m4_define(«km_walked_rows», «km_function(«void», «combine_rows(const struct kvmill_scatter_windows *p,
    const struct kvmill_scatter_loop *loop, int loops, unsigned char *to,
             const unsigned char *from)»)
{
    (void)p;
    walk(km_context«»loop, loops, to, from);
}

»)

m4_dnl km_row_points -- points whose windows are rows.
m4_define(«km_row_points», «km_points(«    for (; i < step.count; i++) {
km_point_ahead(«i»)km_point_loads(«i», 0)km_if(km_components, «        if (km_point_inside(0))
    »)        combine_rows(p, p->rows, p->row_loops, km_point_to(«i», 0), km_point_from(«i»));
km_if(km_components, «        else
            km_point_partial(«i», 0)
»)m4_dnl
    }
»)»)

m4_dnl km_scatter_descriptor -- what the library sees of the kernel.
m4_define(«km_scatter_descriptor», «km_descriptor(«KVMILL_SCATTER», «kvmill_scatter_shape shape = {
    .combiner = km_combiner_number,
    .element_code = km_element_code,
    .element_bits = km_element_bits,
    .index_code = km_index_code,
    .index_bits = km_index_bits,
    .components = km_components,
    .row = km_count(km_row),
}», 0)»)
m4_divert(0)m4_dnl
