m4_divert(-1)
m4_dnl q8_0.m4 -- blocks of 32 int8 codes in order.  In llama.cpp's format each block begins with a float16 scale; in
m4_dnl ik_llama.cpp's, the row has one scale at its beginning.
m4_define(«_km_byte_words», «m4_define(«km_piece_$1», 32)m4_dnl
m4_define(«km_block_codes_$1», «load_i8($»«1 + km_codes_at_$1 + $»«2)»)m4_dnl
m4_define(«km_half_codes_$1», «load_vh_i8($»«1 + ($»«2) / 32 * km_block_bytes_$1 + km_codes_at_$1)»)m4_dnl
»)
km_for_words(«T», «km_q8_0_formats», «_km_byte_words(T)»)
m4_divert(0)m4_dnl
