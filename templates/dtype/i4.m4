m4_divert(-1)
m4_dnl i4.m4 -- rows of int4 codes in two's complement, element 2 i in the low nibble of byte i; a scale for each
m4_dnl group of them.

m4_dnl km_take_i4(ROW, SCALES, DIM, COUNT, GROUP) -- elements DIM ... of a row as floats; COUNT of them exist.
m4_define(«km_take_i4», «load_i4($1 + ($3) / 2, km_if($4 < km_floats, «m4_eval($4 / 2)», «m4_eval(km_floats / 2)»)) * km_spread(«$2», $3, $5)»)

m4_define(«km_type_words_i4», «km_inline(«vf», «load_i4(const unsigned char *from, size_t count)»)
{
    const vi left = {km_lane_list(«km_if(L % 2, 24, 28)»)};
    uint64_t pairs = 0;
    memcpy(&pairs, from, count);
    return __builtin_convertvector(spread_twice(pairs) << left >> 28, vf);
}
»)

m4_define(«km_scales_i4», «m4_eval($1 / $2)»)
m4_define(«km_row_bytes_i4», «m4_eval($1 / 2)»)

m4_dnl Codes as integers, see i8.m4: the low nibbles of a word hold every other element.
m4_define(«km_word_dims_i4», 8)
m4_define(«km_code_offset_i4», 8)
m4_define(«km_code_words_i4», «load_bytes($1 + ($2) * 4, $3)»)
m4_define(«km_word_flip_i4», «(int32_t)0x88888888»)
m4_define(«km_four_i4», «load_four($1 + ($5) / 2, $2 + ($5) / 2, $3 + ($5) / 2, $4 + ($5) / 2)»)
m4_define(«km_nibble_order_i4», «alternate»)
m4_define(«km_half_codes_i4», «half_codes_i4($1 + ($2) / 2)»)
m4_divert(0)m4_dnl
