m4_divert(-1)
m4_dnl attend_codes -- keys as integer codes, with positions in the lanes; queries as km_limbs signed digits of base
m4_dnl 256.  Three digits are as exact as float32.

m4_define(«km_key_by_codes», 1)
m4_dnl km_query_is_spread -- for few rows, words of the query are stored in all lanes of a vector, unless the
m4_dnl instruction that multiplies can broadcast its operand.
m4_define(«km_query_is_spread», «(km_one_tile && !km_spreads)»)
m4_define(«km_query_and_key», «km_turned_keys«»m4_dnl
    km_if(km_query_is_spread, «vi», «int32_t») query[ROWS][km_limbs][KEY_DIM / 4];m4_dnl
km_if(km_query_is_spread, « /* in all lanes: a product loads them itself */»)
    int32_t offset[ROWS][km_limbs][km_key_groups];
km_query_work«»m4_dnl
»)

m4_dnl _km_byte_code(I) -- the code that is byte I after nibbles have been split: of each eight codes, first those in
m4_dnl the low nibbles, then those in the high ones.
m4_define(«_km_byte_code», «($1 / 8 * 8 + $1 % 4 * 2 + $1 / 4 % 2)»)

m4_dnl The largest number with so many signed digits.
m4_define(«_km_most_of_limbs_1», «127.f»)
m4_define(«_km_most_of_limbs_2», «127.f * 256.f»)
m4_define(«_km_most_of_limbs_3», «127.f * 65536.f»)

m4_define(«km_most_of_query», «(m4_indir(«_km_most_of_limbs_»km_limbs))»)

m4_define(«km_set_digits», «/* Split row r into digits.  */
km_apart(«void», «set_digits(struct work *w, int64_t r, const float *x, float unit)»)
{
    int8_t digit[km_limbs][KEY_DIM];
    const float per_unit = unit > 0.f ? 1.f / unit : 0.f;
km_if(km_pieces_of_word == 1, «», «    float in_order[KEY_DIM];
    for (int i = 0; i < KEY_DIM; i++)
        in_order[i] = x[km_code_element(km_key, «_km_byte_code(i)»)];
    x = in_order;
»)m4_dnl
    for (int d = 0; d < KEY_DIM; d += LANES) {
        vi rest = round_even(load_f32(x + d) * per_unit);
        for (int i = 0; i < km_limbs; i++) {
            vi low = ((rest + 128) & 255) - 128;
            store_low_bytes(&digit[i][d], low);
            rest = (rest - low) >> 8;
        }
    }
    w->unit[r] = unit;
    for (int i = 0; i < km_limbs; i++) {
        for (int g = 0; g < km_key_groups; g++) {
            int32_t sum = 0;
            for (int d = 0; d < KEY_DIM / km_key_groups; d++)
                sum += digit[i][g * (KEY_DIM / km_key_groups) + d];
            w->offset[r][i][g] = -km_code_offset(km_key) * sum;
        }
km_if(km_query_is_spread, «        for (int k = 0; k < KEY_DIM / 4; k++)
            w->query[r][i][k] = broadcast_words(*(const kvmill_word4 *)&digit[i][4 * k]);
», «        memcpy(w->query[r][i], digit[i], KEY_DIM);
»)m4_dnl
    }
}
»)

m4_define(«km_digits», «km_limbs»)
m4_dnl Two products can start in a cycle, and each takes five.
m4_define(«km_chains», 10)
m4_define(«km_sum_type», «vi»)
m4_dnl A word of nibbles is split into two words of bytes.
m4_define(«km_pieces_of_word», «m4_eval(km_key_word_dims / 4)»)
m4_define(«km_piece», «km_if(km_pieces_of_word == 1, «$1», «$1 >> m4_eval(4 * $2) & 0x0f0f0f0f»)»)
m4_define(«km_turned_flip», «m4_ifelse(km_word_flip(km_key), 0, «», « ^ km_word_flip(km_key)»)»)
m4_define(«km_query_piece»,
    «km_if(km_query_is_spread, «w->query[$1][$3][$2]», «broadcast_words(w->query[$1][$3][$2])»)»)
m4_define(«km_first», «(vi){0} + w->offset[$1][$2][g]»)
m4_define(«km_add», «$1 = add_products($1, $3, $2)»)
m4_define(«km_sum», «(km_number(«$1»))»)
m4_define(«km_unit», « * w->unit[r + R]»)
m4_define(«km_load_keys», «km_load_turned»)
m4_define(«km_score», «km_score_turned»)
m4_divert(0)m4_dnl
km_head(«Attend: scores from integer codes.», km_headers)
km_late_addresses«»m4_dnl
km_attend«»m4_dnl
