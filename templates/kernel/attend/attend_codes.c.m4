m4_divert(-1)
m4_dnl attend_codes -- keys as integer codes with positions in the lanes, queries as km_limbs signed digits of base 256.
m4_dnl Three digits are as exact as float32: what is lost is 2^-24 of the largest element of the query.

m4_define(«km_key_by_codes», 1)
m4_define(«km_key_word_dims», «km_word_dims(km_key)»)
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

m4_dnl km_element_of(I) -- the element that is byte I of the codes once nibbles are taken apart: of eight those in the
m4_dnl low nibbles, then those in the high ones; or of 32 a word's low ones, then its high ones.
m4_define(«km_element_of», «km_if(km_part(«in_turn», km_key), «$1 / 8 * 8 + $1 % 4 * 2 + $1 / 4 % 2»,
    «$1 / 32 * 32 + $1 % 32 / 8 * 4 + $1 % 4 + $1 / 4 % 2 * 16»)»)

m4_dnl The largest number of so many signed digits.
m4_define(«_km_most_of_limbs_1», «127.f»)
m4_define(«_km_most_of_limbs_2», «127.f * 256.f»)
m4_define(«_km_most_of_limbs_3», «127.f * 65536.f»)

m4_define(«km_set_query», «/* The digits of x; what the last one is worth, NaN where x has one.  */
km_inline(«float», «split_query(const float *x, int8_t digit[km_limbs][KEY_DIM])»)
{
    const float most = m4_indir(«_km_most_of_limbs_»km_limbs);
    vf top = broadcast(0.f), sum = broadcast(0.f);
    for (int d = 0; d < KEY_DIM; d += LANES) {
        top = max_f32(top, abs_f32(load_f32(x + d)));
        sum += load_f32(x + d);
    }
    float largest = largest_of(top), factor = largest > 0.f ? most / largest : 0.f;
    for (int d = 0; d < KEY_DIM; d += LANES) {
        vi rest = round_even(load_f32(x + d) * factor);
        for (int i = 0; i < km_limbs; i++) {
            vi low = ((rest + 128) & 255) - 128;
            store_low_bytes(&digit[i][d], low);
            rest = (rest - low) >> 8;
        }
    }
    return largest / most + sum_of(sum) * 0.f;
}

km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    int8_t digit[km_limbs][KEY_DIM];
km_if(km_halves == 1, «», «    float in_order[KEY_DIM];
    for (int i = 0; i < KEY_DIM; i++)
        in_order[i] = x[km_element_of(«i»)];
    x = in_order;
»)m4_dnl
    w->unit[r] = split_query(x, digit);
    for (int i = 0; i < km_limbs; i++) {
        for (int g = 0; g < km_key_groups; g++) {
            int32_t total = 0;
            for (int d = 0; d < KEY_DIM / km_key_groups; d++)
                total += digit[i][g * (KEY_DIM / km_key_groups) + d];
            w->offset[r][i][g] = -km_code_offset(km_key) * total;
        }
        memcpy(w->query[r][i], digit[i], KEY_DIM);
    }
}
»)

m4_dnl _km_key_columns(WORD, COUNT) -- COUNT words of codes from WORD on of LANES keys.
m4_define(«_km_key_columns», «km_times(«I», km_lanes, «m4_dnl
            x[I] = (vf)km_code_words(km_key, «row[I]», «$1», m4_eval($2 * 4));
»)m4_dnl
            transpose(x);
km_times(«I», $2, «            store_words(&w->key[$1 + I][t], (vi)x[I] ^ km_word_flip(km_key));
»)»)

m4_define(«km_whole_words», «m4_eval(km_key_words / km_lanes * km_lanes)»)
m4_define(«km_load_keys», «km_load_scales(«key»)
km_inline(«void», «load_keys(struct work *w, int64_t n)»)
{
    load_key_scales(w, n);
    for (int64_t t = 0; t < n; t += LANES) {
        const unsigned char *const *row = w->key_row + t;
        vf x[LANES];
km_fetch_inner(«key», «t», «LANES»)km_fetch(«key», «t», «LANES»)m4_dnl
        for (int d = 0; d < km_whole_words; d += LANES) {
_km_key_columns(«d», km_lanes)m4_dnl
        }
km_if(km_whole_words < km_key_words, «        {
_km_key_columns(«km_whole_words», m4_eval(km_key_words - km_whole_words))m4_dnl
        }
»)m4_dnl
    }
}
»)

m4_dnl _km_score_digit -- digit I of four codes of query row R, times those of each vector of keys.
m4_define(«_km_score_digit», «m4_dnl
            vi km_named(a, H, R, I) = broadcast_words(w->query[r + R][I][km_if(km_halves == 1, «k», «2 * k + H»)]);
km_times(«V», km_words, «m4_dnl
            km_named(s, R, V, I) = add_products(km_named(s, R, V, I), km_named(b, H, V), km_named(a, H, R, I));
»)»)

m4_dnl _km_key_bytes -- the codes of a word, or its half H where these are nibbles, each in a byte.
m4_define(«_km_key_bytes», «km_if(km_halves == 1, «km_named(k, V)»,
    «km_named(k, V) >> m4_eval(4 * H) & 0x0f0f0f0f»)»)

m4_define(«_km_key_scale», «load_f32(w->key_scale[g] + t + km_vector($1))»)
m4_define(«_km_each_sum», «km_each_sum(km_words, «$1»)»)
m4_define(«km_score», «m4_dnl
/* Scores of a tile for a strip of positions from t on: integer products, four dims at a time, for each group; then the
   group's sum times its scale.  */
km_inline(«void», «score_strip(struct work *w, int64_t r, int64_t t)»)
{
    vf total[TILE][km_words] = {{{0}}};
    for (int g = 0; g < km_key_groups; g++) {
_km_each_sum(«km_times(«I», km_limbs, «        vi km_named(s, R, V, I) = (vi){0} + w->offset[r + R][I][g];
»)»)m4_dnl
        for (int i = 0; i < km_group_words; i++) {
            int64_t k = g * km_group_words + i;
km_times(«V», km_words, «            vi km_named(k, V) = load_words(&w->key[k][t + km_vector(V)]);
»)km_times(«H», km_halves, «m4_dnl
km_times(«V», km_words, «            vi km_named(b, H, V) = _km_key_bytes;
»)km_times(«R», km_tile, «km_times(«I», km_limbs, «_km_score_digit»)»)»)        }
_km_each_sum(«        vf km_named(y, R, V) = (km_number(«km_named(s, R, V)»)) * _km_key_scale(V);
        total[R][V] += km_named(y, R, V);
»)m4_dnl
    }
_km_each_sum(«    store_f32(w->score[r + R] + t + km_vector(V), total[R][V] * w->unit[r + R]);
»)}

km_score_strips(km_words)»)
m4_divert(0)m4_dnl
km_head(«Attend: scores from integer codes.», km_headers)
km_attend«»m4_dnl
