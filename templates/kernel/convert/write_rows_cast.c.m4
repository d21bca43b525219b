m4_dnl write_rows_cast -- elements rounded to the cache's type.
km_head(«Write rows: each element rounded to the type of the cache.», km_headers)
m4_define(«km_cast_row», «km_cast(«$1», km_activation, km_element)»)m4_dnl
km_write(«km_cast_row»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
