m4_dnl store_rows_line -- the new rows of all heads of a batch entry, in straight-line code.
km_require(«km_heads > 0 && km_new_rows > 0 && km_row > 0», «straight-line code needs heads, rows and row»)m4_dnl
km_head(«Store rows: all heads of a batch entry in straight-line code.», km_dtype_headers)
km_helpers«»km_first_slot
km_store_straight(«km_each(«H», 0, km_heads - 1, 1, «        /* Head H.  */
km_store_head(«$1»)»)»)
km_rows_descriptor(«KVMILL_STORE_ROWS», 1)m4_dnl
