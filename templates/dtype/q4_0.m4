m4_divert(-1)
m4_dnl q4_0.m4 -- rows of llama.cpp's blocks of 32: a float16 scale, then 16 bytes with code + 8 of element i in the
m4_dnl low and of element i + 16 in the high nibble of byte i.

m4_dnl km_take_q4_0(ROW, SCALES, DIM, COUNT, GROUP) -- elements DIM ... of a row as floats; COUNT of them exist.
m4_define(«km_take_q4_0», «load_q4($1 + ($3) / 32 * 18 + 2 + ($3) % 16, ($3) % 32 < 16 ? 0 : 4) * km_spread(«$2», $3, 32)»)

m4_define(«km_type_words_q4_0», «km_inline(«vf», «load_q4(const unsigned char *from, int shift)»)
{
    return __builtin_convertvector((spread(from) >> shift & 15) - 8, vf);
}
»)

m4_define(«km_scales_q4_0», «m4_eval($1 / 32)»)
m4_define(«km_scale_step_q4_0», 18)
m4_define(«km_row_bytes_q4_0», «m4_eval($1 / 32 * 18)»)

m4_dnl Codes as integers, see i8.m4: the low nibbles of a block hold its first half.
m4_define(«km_word_dims_q4_0», 8)
m4_define(«km_code_offset_q4_0», 8)
m4_define(«km_code_words_q4_0», «load_four(km_each(«BLK», 0, 3, 1, «m4_ifelse(BLK, 0, «», «, »)$1 + (($2) / 4 + km_if(BLK * 16 < $3, BLK, 0)) * 18 + 2»))»)
m4_define(«km_word_flip_q4_0», 0)
m4_define(«km_four_q4_0», «load_four(km_for_words(«P», «$1, $2, $3, $4», «m4_ifelse(P, «$1», «», «, »)P + ($5) / 32 * 18 + 2»))»)
m4_define(«km_nibble_order_q4_0», «halves»)
m4_divert(0)m4_dnl
