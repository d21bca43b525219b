m4_divert(-1)
m4_dnl attend_pairs -- keys as codes, with positions in the lanes, which become pairs of 16 bits; a query has one digit
m4_dnl of 16 bits per element.

m4_define(«km_key_by_codes», 1)
m4_define(«km_pieces_of_word», «m4_eval(km_key_word_dims / 2)»)
m4_define(«km_query_and_key», «km_turned_keys«»m4_dnl
    vi query[ROWS][KEY_DIM / 2]; /* pairs, the same in all lanes, in the order of codes */
km_query_work«»m4_dnl
»)

m4_define(«km_most_of_query», «32767.f»)

m4_dnl A pair has code I of the lower half of a word, and code I of the upper half.
m4_define(«km_set_digits», «/* Round row r to 16-bit integers.  */
km_apart(«void», «set_digits(struct work *w, int64_t r, const float *x, float unit)»)
{
    enum { HALF = km_pieces_of_word };
    int32_t digit[KEY_PADDED];
    const float per_unit = unit > 0.f ? 1.f / unit : 0.f;
    for (int d = 0; d < KEY_DIM; d += LANES)
        store_words(digit + d, round_even(load_f32(x + d) * per_unit));
    for (int i = 0; i < KEY_DIM / 2; i++) {
        int code = i / HALF * 2 * HALF + i % HALF;
        int32_t low = digit[km_code_element(km_key, «code»)], high = digit[km_code_element(km_key, «(code + HALF)»)];
        w->query[r][i] = broadcast_words((int32_t)((uint32_t)high << 16 | (uint16_t)low));
    }
    w->unit[r] = unit;
}
»)

m4_define(«km_chains», 4)
m4_define(«km_pieces_kept», 1)
m4_define(«km_sum_type», «vi»)
m4_define(«km_piece», «km_pair_of(km_key, «$1», «$2»)»)
m4_define(«km_query_piece», «w->query[$1][$2]»)
m4_define(«km_add», «$1 = add_pairs($1, $2, $3)»)
m4_define(«km_sum», «__builtin_convertvector($1, vf)»)
m4_define(«km_unit», « * w->unit[r + R]»)
m4_define(«km_load_keys», «km_load_turned»)
m4_define(«km_score», «km_score_turned»)
m4_divert(0)m4_dnl
km_head(«Attend: scores from pairs of integer codes, positions in the lanes.», km_headers)
km_attend«»m4_dnl
