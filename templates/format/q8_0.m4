m4_divert(-1)
m4_dnl q8_0.m4 -- llama.cpp's blocks of 32 elements: a float16 scale, then 32 int8 codes.
m4_define(«km_piece_q8_0», 32)
m4_define(«km_block_codes_q8_0», «load_i8($1 + km_codes_at_q8_0 + $2)»)
m4_define(«km_half_codes_q8_0», «load_vh_i8($1 + ($2) / 32 * km_block_bytes_q8_0 + km_codes_at_q8_0)»)
m4_divert(0)m4_dnl
