m4_dnl read_rows_cast -- elements rounded to the type of the activations.
km_head(«Read rows: each element rounded to the type of the activations.», km_headers)
m4_define(«km_cast_row», «km_cast(«$1», km_element, km_activation)»)m4_dnl
km_read(«km_cast_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
