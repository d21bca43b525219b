m4_divert(-1)
m4_dnl rows.m4 -- rows of all formats, by their parts, which defs/format.c lists: km_formats, of which the file of this
m4_dnl folder called FILE does the arithmetic of km_FILE_formats; and of each format T
m4_dnl   km_bits_T           of a code
m4_dnl   km_is_float_T       codes are floats
m4_dnl   km_is_signed_T      codes are in two's complement
m4_dnl   km_offset_T         the code of 0
m4_dnl   km_most_T           the largest code
m4_dnl   km_table_T          numbers that codes are the places of, if any
m4_dnl   km_word_codes_T     in a word of 32 bits; 0: none that instructions multiply
m4_dnl   km_in_turn_T        codes lie in the order of elements, not in halves of a block
m4_dnl   km_scales_of_T      "none", "groups", "blocks", or "row": a float32, then the sum of its codes
m4_dnl   km_block_T          elements of a block, or 0
m4_dnl   km_block_bytes_T    of all of it; km_codes_at_T, of what comes before its codes, a row's first ones
m4_dnl   km_row_head_T       bytes of a row before its blocks
m4_dnl   km_has_minimum_T    after the scale of a block
m4_dnl   km_rule_T           that codes are made by
m4_dnl   km_tile_T           rows that are interleaved, or 0; km_piece_of_tile_T, the bytes of one that lie together
m4_dnl   km_is_transposed_T  the rows of a page are interleaved so, of which there are quant_group
m4_dnl   km_codes_T          the format whose codes those of a row are, one after the other: T, if not in tiles
m4_dnl A format of blocks has a file of its own with
m4_dnl   km_piece_T          elements that lie next to each other in as many bytes
m4_dnl   km_block_codes_T(BLOCK, I, PIECE)  LANES codes as floats, from element I on of the piece of that number
m4_dnl and, where no rule of templates/kernel makes them,
m4_dnl   km_quantise_T       text of a function quantise(x, to): a block of the floats x.
km_need_all(«the definitions», «km_formats»)

m4_dnl km_part(PART, T)
m4_define(«km_part», «m4_indir(«km_$1_»$2)»)

m4_dnl km_enumerator(T) -- as the header calls it; 0 for none.
m4_define(«km_enumerator», «m4_ifelse($1, «none», 0, «KVMILL_«»m4_translit($1, «a-z», «A-Z»)»)»)

m4_dnl km_is_in(T, SCALES) -- whether scales are there.
m4_define(«km_is_in», «m4_ifelse(km_part(«scales_of», «$1»), «$2», 1, 0)»)

m4_dnl km_row_bytes_of(T, DIM); km_offset_of(T, DIM) -- bytes before an element where there are no blocks; km_size(T)
m4_define(«km_row_bytes_of», «km_if(km_part(«block», $1), «m4_eval(km_part(«row_head», $1) + ($2) / km_part(«block», $1)
    * km_part(«block_bytes», $1))», «m4_eval(($2) * km_part(«bits», $1) / 8)»)»)
m4_define(«km_offset_of»,
    «m4_ifelse(km_part(«bits», $1), 8, «($2)», km_part(«bits», $1), 4, «($2) / 2», «($2) * km_size($1)»)»)
m4_define(«km_size», «m4_eval(km_part(«bits», $1) / 8)»)

m4_dnl ---- Tiles of rows: their first pieces, then their second ones, and so on ----

m4_dnl km_in_tiles(T); km_row_at(T, DATA, STRIDE, ROW) -- where a row begins.
m4_define(«km_in_tiles», «m4_eval(km_part(«tile», $1) > 0)»)
m4_define(«km_row_at», «km_if(km_in_tiles($1), «_km_row_of_tile(«$2», «$3», «$4», km_part(«tile», $1),
    km_part(«piece_of_tile», $1))», «$2 + $4 * $3»)»)
m4_define(«_km_row_of_tile», «$1 + $3 / $4 * $4 * $2 + $3 % $4 * $5»)

m4_dnl km_row_of_page(T, DATA, STRIDE, ROW, PAGE) -- where a row of transposed pages of so many rows begins;
m4_dnl km_step_of_page(T, PAGE) -- bytes from an element of it to the next.
m4_define(«km_row_of_page», «_km_row_of_tile(«$2», «$3», «$4», «$5», km_part(«piece_of_tile», $1))»)
m4_define(«km_step_of_page», «m4_eval($2 * km_size($1))»)

m4_dnl km_tile_words(T, BYTES) -- defines row_from_tile and row_to_tile: the bytes of a row, one after the other.
m4_define(«km_tile_words», «km_if(km_in_tiles(«$1»), «m4_dnl
km_inline(«void», «row_from_tile(unsigned char *row, const unsigned char *from)»)
{
    for (int i = 0; i < $2; i += km_part(«piece_of_tile», $1))
        memcpy(row + i, from + i * km_part(«tile», $1), km_part(«piece_of_tile», $1));
}

km_inline(«void», «row_to_tile(const unsigned char *row, unsigned char *to)»)
{
    for (int i = 0; i < $2; i += km_part(«piece_of_tile», $1))
        memcpy(to + i * km_part(«tile», $1), row + i, km_part(«piece_of_tile», $1));
}

»)»)

m4_dnl km_codes_of(T, ROW, DIM, COUNT) -- elements DIM ... as floats before scale and minimum; COUNT of them exist.
m4_define(«km_codes_of», «km_if(km_part(«block», $1), «_km_codes_of_block(«$1», «$2», «$3», km_part(«piece», $1))»,
    «km_if($4 < km_lanes, «km_typed(«load_some», km_part(«codes», $1))($2 + km_offset_of(«$1», «$3»), $4)»,
    «km_typed(«load», km_part(«codes», $1))($2 + km_offset_of(«$1», «$3»))»)»)»)
m4_define(«_km_codes_of_block», «m4_indir(«km_block_codes_»$1,
    «$2 + ($3) / km_part(«block», $1) * km_part(«block_bytes», $1)», «($3) % $4», «km_if($4 == km_part(«block», $1), 0,
    «($3) % km_part(«block», $1) / $4»)»)»)

m4_dnl ---- Codes as integers: a word of 32 bits holds km_word_dims of them ----

m4_dnl km_word_flip(T) -- what makes a word of them codes plus km_code_offset.
m4_define(«km_word_dims», «m4_eval(32 / km_part(«bits», $1))»)
m4_define(«km_code_offset», «m4_eval(1 << (km_part(«bits», $1) - 1))»)
m4_define(«km_word_flip»,
    «km_if(km_part(«is_signed», $1), «(int32_t)m4_ifelse(km_part(«bits», $1), 8, 0x80808080, 0x88888888)», 0)»)

m4_dnl km_has_half_codes(T); km_half_codes(T, ROW, DIM) -- HALVES codes from DIM on, a multiple of as many, as float16.
m4_define(«km_has_half_codes», «(!km_part(«is_float», $1) && km_part(«is_signed», $1))»)
m4_define(«km_half_codes», «km_if(km_part(«block», $1), «m4_indir(«km_half_codes_»$1, «$2», «$3»)»,
    «km_typed(«load_vh», km_part(«codes», $1))($2 + km_offset_of(«$1», «$3»))»)»)
m4_divert(0)m4_dnl
