m4_divert(-1)
m4_dnl q8_0.m4 -- rows of llama.cpp's blocks of 32: a float16 scale, then 32 int8 codes.

m4_dnl km_take_q8_0(ROW, SCALES, DIM, COUNT, GROUP) -- elements DIM ... of a row as floats; COUNT of them exist.
m4_define(«km_take_q8_0», «load_i8($1 + ($3) / 32 * 34 + 2 + ($3) % 32) * km_spread(«$2», $3, 32)»)

m4_define(«km_scales_q8_0», «m4_eval($1 / 32)»)
m4_define(«km_scale_step_q8_0», 34)
m4_define(«km_row_bytes_q8_0», «m4_eval($1 / 32 * 34)»)

m4_dnl Codes as integers, see i8.m4.
m4_define(«km_word_dims_q8_0», 4)
m4_define(«km_code_offset_q8_0», 128)
m4_define(«km_code_words_q8_0», «load_four($1 + ($2) / 8 * 34 + 2, $1 + ($2) / 8 * 34 + 18, $1 + km_if($3 > 32, «($2) / 8 * 34 + 36, $1 + ($2) / 8 * 34 + 52», «($2) / 8 * 34 + 2, $1 + ($2) / 8 * 34 + 18»))»)
m4_define(«km_word_flip_q8_0», «(int32_t)0x80808080»)
m4_define(«km_four_q8_0», «load_four(km_for_words(«P», «$1, $2, $3, $4», «m4_ifelse(P, «$1», «», «, »)P + ($5) / 32 * 34 + 2 + ($5) % 32»))»)
m4_define(«km_half_codes_q8_0», «half_codes_i8($1 + ($2) / 32 * 34 + 2)»)
m4_divert(0)m4_dnl
