m4_divert(-1)
m4_dnl rows.m4 -- shared by the kernels that move rows.  Cache and update are folded to [batch, heads, slots, row];
m4_dnl struct kvmill_rows has the strides.
km_need_all(«the definitions», «km_symbol», «km_unit», «km_variant», «km_straight_units», «km_around»)

m4_dnl Fields that a family's shape does not have are open.
km_default(«km_heads», -1)km_default(«km_capacity», -1)km_default(«km_new_rows», -1)km_default(«km_row», -1)
m4_dnl Without a mode, any start is wrapped; in a linear cache this only costs a comparison.
km_default(«km_mode», «circular»)

m4_dnl km_first_slot -- defines first_slot (rows, b): where the first new row of batch entry b goes.
m4_define(«km_first_slot», «km_if(km_needs_modulo, «static inline int64_t
floored(int64_t start, int64_t capacity)
{
    if (start >= 0 && start < capacity)
        return start;
    int64_t slot = start % capacity;
    return slot < 0 ? slot + capacity : slot;
}

»)m4_dnl
static int64_t
first_slot(const struct kvmill_rows *p, int64_t b)
{
    if (p->starts == NULL)
        return 0;
    int64_t start = p->starts[b * p->starts_stride];
    return km_wrapped(start);
}
»)

m4_dnl km_wrapped(START) -- START modulo the capacity, also if START is negative; in linear caches just START.
m4_define(«km_is_mask», «(km_capacity > 0 && (km_capacity & (km_capacity - 1)) == 0)»)
m4_define(«km_needs_modulo», «m4_ifelse(km_mode, «linear», 0, «!km_is_mask»)»)
m4_define(«km_wrapped», «m4_ifelse(km_mode, «linear», «$1»,
    «km_if(km_is_mask, «$1 & m4_eval(km_capacity - 1)», «floored($1, km_slots_of(«p->»))»)»)»)

m4_dnl km_slots -- the number of slots, in C; km_slots_of(PROBLEM) -- the same for text like "p." or "p->".
m4_define(«km_slots_of», «km_if(km_capacity < 0, «$1capacity», «km_capacity»)»)
m4_define(«km_slots», «km_slots_of(«p.»)»)

m4_dnl km_all_heads -- the number of heads, in C.
m4_define(«km_all_heads», «km_if(km_heads < 0, «p.heads», «km_heads»)»)

m4_dnl km_copy_row(TO, AT, FROM, BEGIN) -- copy one row.
m4_define(«km_is_straight», «(km_row > 0 && km_row <= km_straight_units)»)
m4_define(«km_copy_row»,
    «km_if(km_is_straight, «km_copy(km_row, «$1», «$2», «$3», «$4»)», «        copy_long($1, $2, $3, $4, p->row, 0);
»)»)

m4_dnl km_copy_run -- defines copy_run, which copies rows in consecutive slots.
m4_define(«km_copy_run»,
    «km_function(«void», «copy_run(const struct kvmill_rows *p, int64_t at, int64_t at_step, const unsigned char *from,
         int64_t begin, int64_t begin_step, int64_t count)»)
{
    unsigned char *to = p->present;
    if (count <= 0)
        return;
    if (at_step == p->row && begin_step == p->row) {
        copy_long(to, at, from, begin, count * p->row, p->km_stream_flag);
        return;
    }
    for (; count > 0; count--, at += at_step, begin += begin_step) {
km_copy_row(«to», «at», «from», «begin»)m4_dnl
    }
}
»)

m4_dnl km_unit_of_work -- splits the number u into chunk `chunk` of the slab of batch entry b and head h.
m4_define(«km_unit_of_work», «        int64_t slab = u / p.chunks, chunk = u % p.chunks;
        int64_t b = slab / km_all_heads, h = slab % km_all_heads;
»)

m4_dnl km_store_head(COPY) -- store the new rows of one head with COPY, then go on to the next head.
m4_define(«km_store_head»,
    «km_each(«S», 0, km_new_rows - 1, 1, «m4_indir(«$1», km_row, «to», «slot_»S« + at», «from», «km_row_of(S)»)»)m4_dnl
        at += km_p(«present_stride.head»);
        begin += km_p(«update_stride.head»);
»)

m4_dnl km_row_of(S) -- where row S of the update begins.
m4_define(«km_row_of», «begin«»km_if($1 == 0, «», « + $1 * km_p(«update_stride.row»)»)»)

m4_dnl km_store_straight(HEADS) -- defines km_run.  HEADS(COPY) is the code that stores all heads with COPY.
m4_dnl If rows can be stored around the caches, there are two loops.  Rows in the middle of a cache are rarely in the
m4_dnl processor's caches, and a large batch is 2 to 3 times as fast if they are not read first.
m4_define(«km_store_straight», «m4_define(«km_heads_by», «$1»)m4_dnl
km_if(km_around, «_km_store_loop(«store_around», «km_copy_around», «    km_stream_end;
»)
_km_store_loop(«store», «km_copy», «»)
km_run_function
{
    const struct kvmill_rows *p = problem;
    int64_t all = (int64_t)(uintptr_t)p->present |
        km_at_p(«present_stride.batch») | km_at_p(«present_stride.head») | km_at_p(«present_stride.row»);
    if (p->stream_store && all % km_stream_bytes == 0)
        store_around(p, first, last);
    else
        store(p, first, last);
}
», «_km_store_loop(«km_run», «km_copy», «»)»)»)

m4_dnl _km_store_loop(NAME, COPY, END) -- defines one such loop.
m4_define(«_km_store_loop», «km_function(«void», «$1«»(const void *problem, int64_t first, int64_t last)»)
{
    const struct kvmill_rows p = *(const struct kvmill_rows *)problem;
    unsigned char *to = p.present;
    const unsigned char *from = p.update;
    /* The loop nest: batch entries, the heads of each, and the new rows of each head.  */
    for (int64_t b = first; b < last; b++) {
        int64_t at = b * km_p(«present_stride.batch»), begin = b * km_p(«update_stride.batch»);
        int64_t slot = first_slot(&p, b);
        int64_t slot_0 = slot * km_p(«present_stride.row»);
km_each(«S», 1, km_new_rows - 1, 1, «        slot = km_next_slot;
        int64_t slot_«»S = slot * km_p(«present_stride.row»);
»)m4_dnl

km_heads_by(«$2»)m4_dnl
    }
$3}
»)
m4_define(«km_next_slot», «m4_ifelse(km_mode, «linear», «slot + 1», «slot + 1 == km_slots ? 0 : slot + 1»)»)

m4_dnl km_rows_descriptor(FAMILY, WHOLE_BATCH) -- what the library sees of the kernel.
m4_define(«km_rows_descriptor», «km_descriptor(«$1», «kvmill_rows_shape shape = {
    .unit_bits = km_unit_bits,
    .circular = m4_ifelse(km_mode, «circular», 1, 0),
    .heads = km_count(km_heads),
    .capacity = km_count(km_capacity),
    .rows = km_count(km_new_rows),
    .row = km_count(km_row),
}», «$2», «kvmill_rows»)»)
m4_divert(0)m4_dnl
