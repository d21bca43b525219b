m4_divert(-1)
m4_dnl select.m4 -- shared by the kernels that select pages.
km_check_tuning«»m4_dnl
km_need_all(«the definitions», «km_symbol», «km_score»)

m4_dnl km_score_keys -- turns scores into integers in the order in which pages are selected.
m4_define(«km_score_keys», «/* Both zeros give the same key; NaN counts as -infinity.  */
km_inline(«vi», «keys_of(vf score)»)
{
    vi bits = (vi)(max_f32(score, broadcast(-__builtin_inff())) + broadcast(0.f));
    return bits ^ (bits >> 31 & 0x7fffffff);
}

/* The keys of LANES scores from i on; after the last score, keys below all others.  */
km_inline(«vi», «keys_at(const struct kvmill_select_pages *p, int64_t i)»)
{
    const vi lane = { km_lane_list(«L») };
    if (i + LANES <= p->count)
        return keys_of(load_f32(p->score + i));
    vi keys = keys_of(load_some_f32(p->score + i, (size_t)(p->count - i)));
    return (vi)choose(lane < (int32_t)(p->count - i), (vf)keys, (vf)broadcast_words(INT32_MIN));
}
»)

m4_dnl km_select_descriptor -- what the library sees of the kernel.
m4_define(«km_select_descriptor», «km_descriptor(«KVMILL_SELECT_PAGES», «kvmill_select_shape shape = {
    .score = KVMILL_F32,
}», 0)»)
m4_divert(0)m4_dnl
