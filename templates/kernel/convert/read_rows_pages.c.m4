m4_dnl read_rows_pages -- elements rounded to the type of the activations, from pages of transposed keys.
m4_define(«km_stored», «km_part(«codes», km_element)»)m4_dnl
km_head(«Read rows: elements of keys whose pages are transposed.», km_headers)
km_tile_words(km_element, km_row_bytes)m4_dnl
m4_define(«km_pages_row», «    unsigned char in_turn[km_row_bytes];
    row_from_tile(in_turn, from);
    from = in_turn;
km_cast(«$1», km_stored, km_activation)»)m4_dnl
km_read(«km_pages_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
