m4_divert(-1)
m4_dnl f16.m4 -- rows of f16, as they are.

m4_dnl km_take_f16(ROW, SCALES, DIM, COUNT, GROUP) -- elements DIM ... of a row as floats; COUNT of them exist.
m4_define(«km_take_f16», «km_if($4 < km_floats, «load_some_f16($1 + ($3) * 2, $4)», «load_f16($1 + ($3) * 2)»)»)

m4_dnl km_scales_f16(DIM, GROUP) -- scales of a row.
m4_define(«km_scales_f16», 0)

m4_dnl km_row_bytes_f16(DIM)
m4_define(«km_row_bytes_f16», «m4_eval($1 * 2)»)
m4_divert(0)m4_dnl
