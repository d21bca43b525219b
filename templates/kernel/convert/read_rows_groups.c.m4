m4_dnl read_rows_groups -- codes times the scales of their groups, rounded to the type of the scales.
m4_define(«km_rounded», «m4_ifelse(km_scale, «f32», «$1», «km_typed(«round», km_scale)($1)»)»)m4_dnl
m4_define(«km_codes_at», «m4_dnl
km_typed(«load», km_part(«codes», km_element))(from + km_at(km_offset_of(km_element, «$1»)))»)m4_dnl
km_head(«Read rows: products of codes and the scales of their groups.», km_headers)
km_tile_words(km_element, km_row_bytes)m4_dnl
m4_define(«km_groups_row», «km_row_in_turn(«from», km_row_bytes, km_row_bytes_of(km_element, km_lanes))m4_dnl
km_padded(«scales», «m4_eval(km_groups * km_size(km_scale))», «m4_eval(km_lanes * km_size(km_scale))»)m4_dnl
km_group_floats(«scale», «km_round_up(km_groups, km_lanes)»)m4_dnl
km_steps(«G», km_groups, km_lanes, «m4_dnl
    store_kept(scale + G, km_typed(«load», km_scale)(scales + km_at(G * km_size(km_scale))));
»)m4_dnl
km_spreading(«scale»)m4_dnl
km_steps(«E», km_dim, km_lanes, «    {
        vf x = km_codes_at(E) * km_of(«scale», «E»);
km_put(«$1», km_activation, km_lanes, «to + km_at(E * km_size(km_activation))», m4_dnl
«m4_eval(km_left * km_size(km_activation))», «km_rounded(x)»)m4_dnl
    }
»)m4_dnl
»)m4_dnl
km_read(«km_groups_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
