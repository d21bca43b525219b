m4_dnl read_rows_groups -- products of codes and the scales of their groups, rounded to the type of the scales.
m4_define(«km_rounded», «m4_ifelse(km_scale, «f32», «$1», «round_«»km_scale«»($1)»)»)m4_dnl
m4_define(«km_codes_at», «m4_ifelse(km_element, «i8», «codes_i8(from + km_at($1))», «codes_i4(from, km_at($1))»)»)m4_dnl
km_head(«Read rows: products of codes and the scales of their groups.», km_headers)
km_row_functions(floats, km_of_words, load_«»km_scale, codes_«»km_element, km_put_words(km_activation))m4_dnl
m4_ifelse(km_scale, «f32», «», «km_use(round_«»km_scale)»)m4_dnl
m4_define(«km_groups_row», «km_padded(«from», km_row_bytes, m4_ifelse(km_element, «i8», km_row_lanes, «m4_eval((km_row_lanes + 1) / 2)»))m4_dnl
km_padded(«scales», «m4_eval(km_groups * km_size(km_scale))», «m4_eval(km_row_lanes * km_size(km_scale))»)m4_dnl
km_group_floats(«scale»)m4_dnl
km_steps(«G», km_groups, km_row_lanes, «    keep(scale + G, load_«»km_scale«»(scales + km_at(G * km_size(km_scale))));
»)m4_dnl
km_spread(«scale»)m4_dnl
km_steps(«E», km_dim, km_row_lanes, «    {
        lanes product = km_codes_at(E) * km_of(«scale», «E»);
km_put(«$1», km_activation, km_row_lanes, «to + km_at(E * km_size(km_activation))», «m4_eval(km_left * km_size(km_activation))», «km_rounded(product)»)m4_dnl
    }
»)m4_dnl
»)m4_dnl
km_read(«km_groups_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
