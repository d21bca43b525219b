m4_divert(-1)
m4_dnl attend_codes -- keys as integer codes with positions in the lanes, queries as km_limbs signed digits of base 256.
m4_dnl Three digits are as exact as float32: what is lost is 2^-24 of the largest element of the query.

m4_define(«km_key_by_codes», 1)
m4_define(«km_key_word_dims», «m4_indir(«km_word_dims_»km_key)»)
m4_define(«km_key_words», «m4_eval(km_key_dim / km_key_word_dims)»)
m4_define(«km_key_groups», «km_scales(«key»)»)
m4_dnl Nibbles of a word make two words of bytes.
m4_define(«km_halves», «m4_eval(km_key_word_dims / 4)»)
m4_define(«km_group_words», «m4_eval(km_key_words / km_key_groups)»)

m4_define(«km_query_and_key», «    int32_t key[km_key_words][BLOCK];
    int32_t query[ROWS][km_limbs][KEY_DIM / 4];
    int32_t offset[ROWS][km_limbs][km_key_groups];
    float unit[ROWS]; /* of a query's last digit */
»)

m4_define(«km_set_query», «km_digits
»)

m4_dnl The order of a query's bytes is that of the codes once nibbles are taken apart.
m4_define(«km_digits», «km_if(km_halves == 1, «», «m4_ifelse(m4_indir(«km_nibble_order_»km_key), «alternate», «/* Of eight elements first those in the low nibbles.  */
static const unsigned char from_element[8] = {0, 2, 4, 6, 1, 3, 5, 7};
», «/* Of 32 elements those in a word's low nibbles, then those in its high ones.  */
static const unsigned char from_element[32] = {km_each(«I», 0, 31, 1, «m4_ifelse(I, 0, «», «, »)m4_eval(I / 8 * 4 + I % 4 + I % 8 / 4 * 16)»)};
»)»)m4_dnl
km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    const float most = m4_ifelse(km_limbs, 1, «127.f», km_limbs, 2, «127.f * 256.f», «127.f * 65536.f»);
    vf top = all(0.f), sum = all(0.f);
    int8_t digit[km_limbs][KEY_DIM];
    for (int d = 0; d < KEY_DIM; d += LANES) {
        top = larger(top, magnitude(load(x + d)));
        sum += load(x + d);
    }
    float largest = largest_of(top), factor = largest > 0.f ? most / largest : 0.f;
    w->unit[r] = largest / most + sum_of(sum) * 0.f; /* NaN where there is one */
    for (int d = 0; d < KEY_DIM; d += LANES) {
        vi rest = rounded(load(x + d) * factor);
        for (int i = 0; i < km_limbs; i++) {
            vi low = ((rest + 128) & 255) - 128;
            store_low_bytes(&digit[i][d], low);
            rest = (rest - low) >> 8;
        }
    }
    for (int i = 0; i < km_limbs; i++) {
        for (int g = 0; g < km_key_groups; g++) {
            int32_t total = 0;
            for (int d = 0; d < KEY_DIM / km_key_groups; d++)
                total += digit[i][g * (KEY_DIM / km_key_groups) + d];
            w->offset[r][i][g] = -m4_indir(«km_code_offset_»km_key) * total;
        }
km_if(km_halves == 1, «        memcpy(w->query[r][i], digit[i], KEY_DIM);
», «        int8_t *to = (int8_t *)w->query[r][i];
        for (int d = 0; d < KEY_DIM; d++)
            to[d] = digit[i][d / (int)sizeof from_element * (int)sizeof from_element + from_element[d % sizeof from_element]];
»)m4_dnl
    }
}
»)

m4_dnl _km_key_columns(WORD, COUNT) -- COUNT words of codes from WORD on of LANES keys.
m4_define(«_km_key_columns», «km_each(«I», 0, m4_eval(km_floats - 1), 1, «            x[I] = (vf)m4_indir(«km_code_words_»km_key, «row[I]», «$1», m4_eval($2 * 4));
»)m4_dnl
            transpose(x);
km_each(«I», 0, m4_eval($2 - 1), 1, «            store_words(&w->key[$1 + I][t], (vi)x[I] ^ m4_indir(«km_word_flip_»km_key));
»)»)

m4_define(«km_whole_words», «m4_eval(km_key_words / km_floats * km_floats)»)
m4_define(«km_take_keys», «km_take_scales(«key»)
km_inline(«void», «take_keys(const struct kvmill_attend *p, struct work *w, int64_t at, int64_t n)»)
{
    take_key_scales(p, w, at, n);
    for (int64_t t = 0; t < n; t += LANES) {
        const unsigned char *const *row = w->key_row + t;
        vf x[LANES];
        for (int64_t i = 0; i < LANES; i++) {
km_fetch_near(«key», «t + i», 0, km_lines(«key»))m4_dnl
km_fetch(«keys», «t + i», km_block)m4_dnl
        }
        for (int d = 0; d < km_whole_words; d += LANES) {
_km_key_columns(«d», km_floats)m4_dnl
        }
km_if(km_whole_words < km_key_words, «        {
_km_key_columns(«km_whole_words», m4_eval(km_key_words - km_whole_words))m4_dnl
        }
»)m4_dnl
    }
}
»)

m4_dnl _km_each_sum(BODY) -- for every row R, vector V of the tile.
m4_define(«_km_each_sum», «km_each(«R», 0, m4_eval(km_tile - 1), 1, «km_each(«V», 0, m4_eval(km_code_strip - 1), 1, «$1»)»)»)
m4_define(«km_score», «km_inline(«void», «score_strip(struct work *w, int64_t r, int64_t t)»)
{
    vf total[TILE][km_code_strip] = {{{0}}};
    for (int g = 0; g < km_key_groups; g++) {
_km_each_sum(«km_each(«I», 0, m4_eval(km_limbs - 1), 1, «        vi s_«»R«»_«»V«»_«»I = (vi){0} + w->offset[r + R][I][g];
»)»)m4_dnl
        for (int i = 0; i < km_group_words; i++) {
            int64_t k = g * km_group_words + i;
km_fetch(«score», «t / m4_eval(km_code_strip * km_floats) * km_key_words + k», m4_eval(km_block / (km_code_strip * km_floats) * km_key_words))m4_dnl
km_each(«V», 0, m4_eval(km_code_strip - 1), 1, «            vi k_«»V = load_words(&w->key[k][t + m4_eval(V * km_floats)]);
»)km_each(«H», 0, m4_eval(km_halves - 1), 1, «m4_dnl
km_each(«V», 0, m4_eval(km_code_strip - 1), 1, «            vi b_«»H«»_«»V = km_if(km_halves == 1, «k_«»V», «k_«»V >> m4_eval(4 * H) & 0x0f0f0f0f»);
»)km_each(«R», 0, m4_eval(km_tile - 1), 1, «km_each(«I», 0, m4_eval(km_limbs - 1), 1, «            vi a_«»H«»_«»R«»_«»I = all_words(w->query[r + R][I][m4_ifelse(km_halves, 1, «k», «2 * k + H»)]);
km_each(«V», 0, m4_eval(km_code_strip - 1), 1, «            s_«»R«»_«»V«»_«»I = add_products(s_«»R«»_«»V«»_«»I, b_«»H«»_«»V, a_«»H«»_«»R«»_«»I);
»)»)»)»)        }
_km_each_sum(«        vf y_«»R«»_«»V = (km_number(«s_«»R«»_«»V»)) * load(w->key_scale[g] + t + m4_eval(V * km_floats));
        total[R][V] += y_«»R«»_«»V;
»)m4_dnl
    }
_km_each_sum(«    store(w->score[r + R] + t + m4_eval(V * km_floats), total[R][V] * w->unit[r + R]);
»)}

km_inline(«void», «score(const struct kvmill_attend *p, struct work *w, int64_t r, int64_t at, int64_t n)»)
{
    (void)p, (void)at;
    for (int64_t t = 0; t < n; t += m4_eval(km_code_strip * km_floats))
        score_strip(w, r, t);
}
»)
m4_divert(0)m4_dnl
km_head(«Attend: scores from integer codes.», km_headers)
km_attend«»m4_dnl
