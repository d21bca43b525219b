m4_dnl write_rows_groups -- int8 and int4 codes with a scale for each group of elements.
m4_define(«km_most», «km_part(«most», km_element)»)m4_dnl
m4_define(«km_code_step», «m4_eval(km_lanes * 4)»)m4_dnl
m4_define(«km_code_bytes», «km_offset_of(km_element, «$1»)»)m4_dnl
m4_define(«km_least», «m4_ifelse(km_activation, «f32», «1e-5f», «0x1.5p-17f»)»)m4_dnl
m4_define(«km_rounded», «m4_ifelse(km_activation, «f32», «$1», «km_typed(«round», km_activation)($1)»)»)m4_dnl
km_head(«Write rows: codes with a scale for each group of elements.», km_headers)
km_peak_helpers«»m4_dnl
/* Groups with an element that is not finite have a scale that is not, and codes 0.  */
static __attribute__((noinline, cold)) void
empty_groups(const float *scale, unsigned char *to, unsigned char *scales)
{
    static const unsigned char codes[m4_eval(km_code_bytes(km_quant_group))];
    static const unsigned char nan[] = m4_ifelse(km_scale, «f32», «{0, 0, 0xc0, 0x7f}», km_scale, «f16», «{0, 0x7e}», «{0xc0, 0x7f}»);
    for (int g = 0; g < km_groups; g++) {
        if (scale[g] - scale[g] == 0)
            continue;
        memcpy(to + g * m4_eval(km_code_bytes(km_quant_group)), codes, sizeof codes);
        if (scale[g] != scale[g])
            memcpy(scales + g * km_size(km_scale), nan, sizeof nan);
    }
}

m4_define(«km_code», «round_even(km_typed(«divide», km_activation)(km_typed(«load», km_activation)(from + km_at(($1) * km_size(km_activation))), km_of(«scale», «$1»), km_of(«inverse», «$1»)))»)m4_dnl
m4_define(«km_codes», «km_each(«K», 0, m4_eval((km_left + km_lanes - 1) / km_lanes - 1), 1, «        vi c«»K = km_code(«E + m4_eval(K * km_lanes)»);
»)»)m4_dnl
m4_dnl Vectors that are not there are stored as the first, into the part of a buffer that is left.
m4_define(«km_code_list», «c0«»km_each(«K», 1, 3, 1, ««, »m4_ifelse(m4_eval(K * km_lanes < km_left), 1, «c«»K», «c0»)»)»)m4_dnl
m4_define(«km_groups_row», «    int wild = 0;
km_padded(«from», km_from_bytes, m4_ifelse(km_by_vectors, 1, km_peak_bytes, «m4_eval(km_lanes * km_size(km_activation))»))m4_dnl
km_peaks«»m4_dnl
km_group_floats(«scale»)km_group_floats(«inverse»)m4_dnl
km_steps(«G», km_groups, km_lanes, «    {
        vi peak_bits = km_peak(G);
        vf s = max_f32(broadcast(km_least), km_rounded(km_typed(«value», km_activation)(peak_bits) / km_most.0f));
        store_kept(scale + G, s);
        store_kept(inverse + G, 1.0f / s);
        wild |= any_from(peak_bits, km_infinite);
km_put(«store», km_scale, km_lanes, «scales + km_at(G * km_size(km_scale))», «m4_eval(km_left * km_size(km_scale))», «s»)m4_dnl
    }
»)m4_dnl
km_spread(«scale»)km_spread(«inverse»)m4_dnl
km_steps(«E», km_dim, km_code_step, «    {
km_codes«»m4_dnl
km_put(«$1», km_element, km_code_step, «to + km_at(km_code_bytes(E))», «m4_eval(km_code_bytes(km_left))», «km_code_list»)m4_dnl
    }
»)m4_dnl
    if (wild)
        empty_groups(scale, to, scales);
»)m4_dnl
km_write(«km_groups_row»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
