m4_divert(-1)
m4_dnl q4_0.m4 -- llama.cpp's blocks of 32 elements: a float16 scale, then 16 bytes with code + 8 of element i in the
m4_dnl low and of element i + 16 in the high nibble of byte i.
m4_define(«km_piece_q4_0», 16)
m4_define(«km_block_codes_q4_0», «load_q4($1 + km_codes_at_q4_0 + $2, km_shift_of(«$3»))»)
m4_divert(0)m4_dnl
