m4_dnl write_rows_copy -- rows of the cache's own type.
km_require(km_row_bytes == km_from_bytes, «a copy changes nothing»)m4_dnl
km_head(«Write rows: copies.», «»)
km_write(«km_copy_row»)m4_dnl
km_convert_descriptor(«KVMILL_WRITE_ROWS»)m4_dnl
