m4_dnl store_rows_heads -- the new rows of one head in straight-line code, in a loop over the heads.
km_require(«km_heads > 0 && km_new_rows > 0 && km_row > 0», «straight-line code needs heads, rows and row»)m4_dnl
km_head(«Store rows: one head in straight-line code, in a loop over the heads.», km_dtype_headers)
km_helpers«»km_first_slot
km_store_straight(«        for (int h = 0; h < km_heads; h++) {
km_store_head(«$1»)        }
»)
km_rows_descriptor(«KVMILL_STORE_ROWS», 1)m4_dnl
