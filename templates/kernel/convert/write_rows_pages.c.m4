m4_dnl write_rows_pages -- elements of the cache's type, stored in pages of transposed keys.
m4_define(«km_stored», «km_part(«codes», km_element)»)m4_dnl
km_head(«Write rows: elements of keys whose pages are transposed.», km_headers)
km_tile_words(km_element, km_row_bytes)m4_dnl
m4_define(«km_pages_batch», «m4_dnl
    for (int r = 0; r < count; r++) {
        const unsigned char *from = row[r].from;
        unsigned char *to = km_to(«$1»);
km_fetch_row«»m4_dnl
km_cast(km_how(«$1»), km_activation, km_stored)    }
»)m4_dnl
km_write_batches(«km_pages_batch»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
