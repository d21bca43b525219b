m4_dnl read_rows_blocks -- llama.cpp's blocks: codes times the block's scale, plus its minimum.
m4_define(«km_block», «km_part(«block», km_element)»)m4_dnl
m4_define(«km_block_bytes», «km_part(«block_bytes», km_element)»)m4_dnl
m4_define(«km_piece_size», «km_part(«piece», km_element)»)m4_dnl
m4_define(«km_minimum», «km_part(«has_minimum», km_element)»)m4_dnl
km_head(«Read rows: products of the codes of blocks and their scale.», km_headers)
m4_define(«km_block_at», «from + km_at(E / km_block * km_block_bytes)»)m4_dnl
m4_dnl km_read_piece(HOW, FIRST) -- a piece of block E, from element FIRST on.
m4_define(«km_read_piece», «km_steps(«I», km_piece_size, km_lanes, «m4_dnl
        km_typed(«$1», km_activation)(to + km_at((E + $2 + I) * km_size(km_activation)), m4_dnl
m4_indir(«km_block_codes_»km_element, «km_block_at», «I», «$2 / km_piece_size») * broadcast(scale[0])m4_dnl
km_if(km_minimum, « + broadcast(minimum[0])»));
»)»)m4_dnl
m4_dnl Vectors load whole words, so the single scale of a block is copied to a buffer.
m4_define(«km_blocks_row», «    unsigned char halves[m4_eval(2 * km_lanes)] = {0};
    float scale[km_lanes];
km_if(km_minimum, «    float minimum[km_lanes];
»)m4_dnl
km_steps(«E», km_dim, km_block, «    {
        memcpy(halves, km_block_at, 2);
        store_kept(scale, load_f16(halves));
km_if(km_minimum, «        memcpy(halves, km_block_at + 2, 2);
        store_kept(minimum, load_f16(halves));
»)m4_dnl
km_each(«FIRST», 0, km_block - 1, km_piece_size, «km_read_piece(«$1», FIRST)»)m4_dnl
    }
»)m4_dnl
»)m4_dnl
km_read(«km_blocks_row»)m4_dnl
km_convert_descriptor(«KVMILL_READ_ROWS»)m4_dnl
