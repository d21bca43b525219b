m4_divert(-1)
m4_dnl attend_words -- keys as codes, with positions in the lanes.  Each lane has a word of 32 bits of a key; its codes
m4_dnl become floats where they are multiplied.  The sum for each group of dims is multiplied with the group's scale.

m4_define(«km_key_by_codes», 1)
m4_define(«km_query_and_key», «km_turned_keys«»m4_dnl
    float query[ROWS][KEY_DIM]; /* in the order of codes */
»)

m4_define(«km_set_query», «km_inline(«void», «set_query(struct work *w, int64_t r, const float *x)»)
{
    for (int i = 0; i < KEY_DIM; i++)
        w->query[r][i] = x[km_code_element(km_key, «i»)];
}
»)

m4_dnl A piece is one code of each word, as a float.
m4_define(«km_chains», 8)
m4_define(«km_sum_type», «vf»)
m4_define(«km_pieces_of_word», «km_key_word_dims»)
m4_define(«_km_bits_above», «m4_eval(32 - ($1 + 1) * km_part(«bits», km_key))»)
m4_define(«km_piece», «__builtin_convertvector(_km_at_the_top(«$1», $2) >> m4_eval(32 - km_part(«bits», km_key)), vf)»)
m4_define(«_km_at_the_top», «km_if(_km_bits_above($2) == 0, «$1», «($1 << _km_bits_above($2))»)»)
m4_define(«km_query_piece», «broadcast(w->query[$1][$2])»)
m4_define(«km_add», «$1 += $2 * $3»)
m4_define(«km_sum», «$1»)
m4_define(«km_unit», «»)
m4_define(«km_load_keys», «km_load_turned»)
m4_define(«km_score», «km_score_turned»)
m4_divert(0)m4_dnl
km_head(«Attend: scores in float32 from integer codes, positions in the lanes.», km_headers)
km_attend«»m4_dnl
