m4_dnl read_rows_row -- codes times the scale of their row.
km_head(«Read rows: products of codes and the scale of their row.», km_headers)
m4_define(«km_scaled_row», «    float scale;
    memcpy(&scale, from, sizeof scale);
km_steps(«E», km_dim, km_lanes, «m4_dnl
    km_typed(«$1», km_activation)(to + km_at(E * km_size(km_activation)), m4_dnl
km_codes_of(km_element, «from», «E», km_lanes) * broadcast(scale));
»)m4_dnl
»)m4_dnl
km_read(«km_scaled_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
