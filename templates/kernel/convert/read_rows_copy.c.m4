m4_dnl read_rows_copy -- rows of the cache's own type.
km_require(km_row_bytes == km_from_bytes, «a copy changes nothing»)m4_dnl
km_head(«Read rows: copies.», «»)
km_read(«km_copy_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
