m4_dnl read_rows_blocks -- llama.cpp's blocks of 32 elements: products of codes and their scale.
m4_define(«km_block_bytes», «m4_ifelse(km_element, «q8_0», 34, 18)»)m4_dnl
km_head(«Read rows: products of the codes of blocks and their scale.», km_headers)
km_row_functions(floats, load_f16, m4_ifelse(km_element, «q8_0», «codes_i8», «codes_low, codes_high»), km_put_words(km_activation))m4_dnl
m4_dnl km_codes(HOW, CODES, COUNT, FIRST) -- COUNT elements of block E, from FIRST on, by function CODES.
m4_define(«km_codes», «km_steps(«I», $3, km_row_lanes, «        $1_«»km_activation«»(to + km_at((E + $4 + I) * km_size(km_activation)), $2(from + km_at(E / 32 * km_block_bytes + 2 + I)) * all(scale));
»)»)m4_dnl
m4_dnl Vectors read whole words: of the one scale of each block, a copy.
m4_define(«km_blocks_row», «    (void)scales;
    unsigned char halves[m4_eval(2 * km_row_lanes)] = {0};
    float scale[km_row_lanes];
km_steps(«E», km_dim, 32, «    {
        memcpy(halves, from + km_at(E / 32 * km_block_bytes), 2);
        keep(scale, load_f16(halves));
m4_ifelse(km_element, «q8_0», «km_codes(«$1», «codes_i8», 32, 0)», «km_codes(«$1», «codes_low», 16, 0)km_codes(«$1», «codes_high», 16, 16)»)m4_dnl
    }
»)m4_dnl
»)m4_dnl
km_read(«km_blocks_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
