m4_divert(-1)
m4_dnl i8.m4 -- rows of int8 codes; a scale for each group of them.

m4_dnl km_take_i8(ROW, SCALES, DIM, COUNT, GROUP) -- elements DIM ... of a row as floats; COUNT of them exist.
m4_define(«km_take_i8», «km_if($4 < km_floats, «load_some_i8($1 + ($3), $4)», «load_i8($1 + ($3))») * km_spread(«$2», $3, $5)»)

m4_dnl km_scales_i8(DIM, GROUP) -- scales of a row.
m4_define(«km_scales_i8», «m4_eval($1 / $2)»)
m4_define(«km_row_bytes_i8», «$1»)

m4_dnl Codes as integers: a word of 32 bits holds km_word_dims of them.  km_code_words_T(ROW, WORD, BYTES): 64 bytes of codes
m4_dnl from word WORD on, of which BYTES exist.  km_code_bytes_T(X): codes in X as bytes, plus km_code_offset if not signed.
m4_define(«km_word_dims_i8», 4)
m4_define(«km_code_offset_i8», 128)
m4_define(«km_code_words_i8», «load_bytes($1 + ($2) * 4, $3)»)
m4_define(«km_word_flip_i8», «(int32_t)0x80808080»)
m4_define(«km_four_i8», «load_four($1 + ($5), $2 + ($5), $3 + ($5), $4 + ($5))»)

m4_dnl km_half_codes_T(ROW, DIM) -- HALVES codes from DIM on, a multiple of as many, as float16.
m4_define(«km_half_codes_i8», «half_codes_i8($1 + $2)»)
m4_divert(0)m4_dnl
