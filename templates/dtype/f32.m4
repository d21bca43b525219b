m4_divert(-1)
m4_dnl f32.m4 -- rows of f32, as they are.

m4_dnl km_take_f32(ROW, SCALES, DIM, COUNT, GROUP) -- elements DIM ... of a row as floats; COUNT of them exist.
m4_define(«km_take_f32», «km_if($4 < km_floats, «load_some_f32($1 + ($3) * 4, $4)», «load_f32($1 + ($3) * 4)»)»)

m4_dnl km_scales_f32(DIM, GROUP) -- scales of a row.
m4_define(«km_scales_f32», 0)

m4_dnl km_row_bytes_f32(DIM)
m4_define(«km_row_bytes_f32», «m4_eval($1 * 4)»)
m4_divert(0)m4_dnl
