m4_dnl select_pages_threshold -- finds the threshold by bisection: count the keys above the middle of its range, and
m4_dnl halve the range.  Then list the pages whose keys reach the threshold.
m4_divert(-1)
m4_define(«km_each_vector», «km_each(«V», 0, km_strip - 1, 1, «$1»)»)
m4_divert(0)m4_dnl
km_head(«Select the best pages by their scores.», km_headers)
enum {
    STRIP = m4_eval(km_strip * km_lanes), /* keys that are counted at a time */
    SHRINK = km_shrink, /* keys are packed when at most one of SHRINK can still be the threshold */
km_if(km_sample, «    SAMPLE = km_sample,
    GUESS = km_guess, /* from this number of scores on, a sample first narrows the range */
»)m4_dnl
};

km_score_keys
/* The search for the threshold, which is a key in [low, high].  */
struct search {
    int32_t *keys;
    int64_t count;     /* keys in memory, */
    int64_t undecided; /* of which these are in the range, */
    int64_t beyond;    /* and these above it */
    int64_t above;     /* all keys above the range, in memory or not */
    int32_t low, high;
};

/* Fill the last strip with keys below all others.  */
km_inline(«void», «pad(struct search *s)»)
{
km_each_vector(«    store_words(s->keys + s->count + m4_eval(V * km_lanes), broadcast_words(INT32_MIN));
»)}

km_inline(«int64_t», «count_from(const struct search *s, int32_t least)»)
{
    vi sum = broadcast_words(0), from = broadcast_words(least);
    int64_t count = 0;
    /* The loop nest: strips of keys; this runs each time the range is halved.  */
    for (int64_t i = 0; i < s->count; i += STRIP) {
km_each_vector(«        sum = add_lanes_from(sum, load_words(s->keys + i + m4_eval(V * km_lanes)), from);
»)    }
    for (int i = 0; i < LANES; i++)
        count += sum[i];
    return count;
}

/* Keep only the keys in the range.  */
km_inline(«void», «pack(struct search *s)»)
{
    vi low = broadcast_words(s->low), high = broadcast_words(s->high);
    int64_t kept = 0;
    for (int64_t i = 0; i < s->count; i += LANES) {
        vi x = load_words(s->keys + i);
        uint32_t lanes = lanes_from(x, low) & lanes_from(high, x);
        store_words(s->keys + kept, pack_lanes(x, lanes));
        kept += __builtin_popcount(lanes);
    }
    s->count = kept;
    s->beyond = 0;
    pad(s);
}

/* Halve the range.  */
km_inline(«void», «halve(struct search *s, int64_t wanted)»)
{
    int32_t middle = (int32_t)((uint32_t)s->low + ((uint32_t)s->high - (uint32_t)s->low) / 2 + 1);
    int64_t upper = count_from(s, middle) - s->beyond;
    if (s->above + upper >= wanted) {
        s->low = middle;
        s->undecided = upper;
    } else {
        s->high = middle - 1;
        s->above += upper;
        s->beyond += upper;
        s->undecided -= upper;
    }
    if (s->undecided * SHRINK <= s->count)
        pack(s);
}

/* Halve the range until all keys from `low` on are wanted, or only `low` is left.  */
km_function(«void», «settle(struct search *s, int64_t wanted)»)
{
    while (s->low < s->high && s->above + s->undecided > wanted)
        halve(s, wanted);
}

km_inline(«struct search», «search_of(int32_t *keys, int64_t count)»)
{
    struct search s = { keys, count, count, 0, 0, INT32_MIN + 1, INT32_MAX };
    pad(&s);
    return s;
}

km_inline(«struct search», «search_all(const struct kvmill_select_pages *p)»)
{
    for (int64_t i = 0; i < p->count; i += LANES)
        store_words(p->keys + i, keys_at(p, i));
    return search_of(p->keys, p->count);
}

km_if(km_sample, «/* The key that `rank` keys of a sample reach.  */
km_inline(«int32_t», «sampled_key(const struct search *s, int64_t rank)»)
{
    int32_t keys[SAMPLE + STRIP];
    for (int64_t i = 0; i < SAMPLE; i++)
        keys[i] = s->keys[i * s->count / SAMPLE];
    struct search sample = search_of(keys, SAMPLE);
    settle(&sample, rank);
    return sample.low;
}

/* Narrow the range around the threshold of a sample.  Returns whether the threshold is in it.  */
km_function(«int», «guess(struct search *s, int64_t wanted)»)
{
    int64_t rank = wanted * SAMPLE / s->count, spread = 2;
    while (spread * spread < 6 * rank)
        spread++;
    if (rank + spread < SAMPLE)
        s->low = sampled_key(s, rank + spread);
    if (rank > spread)
        s->high = sampled_key(s, rank - spread) - 1;
    if (s->high < s->low)
        s->high = s->low;
    if (s->high < INT32_MAX)
        s->above = count_from(s, s->high + 1);
    pack(s);
    s->undecided = s->count;
    return s->above < wanted && s->above + s->undecided >= wanted;
}

»)m4_dnl
km_function(«struct search», «find_threshold(const struct kvmill_select_pages *p)»)
{
    struct search s = search_all(p);
km_if(km_sample, «    if (p->count >= GUESS && p->wanted < p->count && !guess(&s, p->wanted))
        s = search_all(p);
»)m4_dnl
    settle(&s, p->wanted);
    return s;
}

/* List the pages whose keys reach the threshold; of those that equal it, only the first `equal`.  */
km_function(«void», «list_from(const struct kvmill_select_pages *p, int32_t threshold, int64_t equal)»)
{
    vi least = broadcast_words(threshold), place = { km_lane_list(«L») };
    int32_t *list = p->list;
    for (int64_t i = 0; i < p->count; i += LANES, place += LANES) {
        vi x = keys_at(p, i);
        uint32_t taken = lanes_from(x, least), same = taken & lanes_from(least, x);
        while (__builtin_popcount(same) > equal) {
            uint32_t last = 1U << (31 - __builtin_clz(same));
            same -= last;
            taken -= last;
        }
        equal -= __builtin_popcount(same);
        store_some_words(list, pack_lanes(place, taken), __builtin_popcount(taken));
        list += __builtin_popcount(taken);
    }
}

km_run_function
{
    const struct kvmill_select_pages *p = problem;
    if (first == last || p->wanted == 0)
        return;
    struct search s = find_threshold(p);
    list_from(p, s.low, p->wanted - s.above);
}

km_select_descriptor«»m4_dnl
