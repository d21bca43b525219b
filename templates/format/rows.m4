m4_divert(-1)
m4_dnl rows.m4 -- the formats of rows.  defs/format.c lists their properties.  km_formats is the list of formats; the
m4_dnl file FILE.m4 in this folder has the arithmetic of the formats in km_FILE_formats.  Each format T has these
m4_dnl properties:
m4_dnl   km_bits_T           bits of a code
m4_dnl   km_is_float_T       whether codes are floats
m4_dnl   km_is_signed_T      whether codes are in two's complement
m4_dnl   km_offset_T         the code that stands for 0
m4_dnl   km_most_T           the largest code
m4_dnl   km_table_T          the numbers that codes are indices of, if any
m4_dnl   km_word_codes_T     codes in a word of 32 bits, or 0 if no instruction multiplies such codes
m4_dnl   km_in_turn_T        1 if codes are in the order of elements, 0 if a block has two halves in its nibbles
m4_dnl   km_scales_of_T      "none", "groups", "blocks", or "row" (a float32, followed by the sum of the row's codes)
m4_dnl   km_block_T          elements of a block, or 0
m4_dnl   km_block_bytes_T    bytes of a block; km_codes_at_T: bytes of a block before its first code
m4_dnl   km_row_head_T       bytes of a row before its blocks
m4_dnl   km_has_minimum_T    whether a minimum follows the scale of a block
m4_dnl   km_rule_T           the rule by which elements are quantised
m4_dnl   km_tile_T           rows of a tile, which are interleaved, or 0; km_piece_of_tile_T: adjacent bytes of one row
m4_dnl   km_is_transposed_T  whether the rows of a page are interleaved in this way; quant_group is the rows of a page
m4_dnl   km_codes_T          the format of a row's codes in order: T itself, unless T is in tiles
m4_dnl The file of a format with blocks also defines
m4_dnl   km_piece_T          how many elements are in as many consecutive bytes
m4_dnl   km_block_codes_T(BLOCK, I, PIECE)  LANES codes as floats, from element I of piece PIECE on
m4_dnl and, if templates/kernel has no code for the format's rule of quantisation,
m4_dnl   km_quantise_T       the text of a function quantise(x, to), which quantises the floats x to a block.
km_need_all(«the definitions», «km_formats»)

m4_dnl km_part(PART, T) -- a property: km_PART_T.
m4_define(«km_part», «m4_indir(«km_$1_»$2)»)

m4_dnl km_enumerator(T) -- its name in the header; 0 for "none".
m4_define(«km_enumerator», «m4_ifelse($1, «none», 0, «KVMILL_«»m4_translit($1, «a-z», «A-Z»)»)»)

m4_dnl km_is_in(T, SCALES) -- whether km_scales_of_T is SCALES.
m4_define(«km_is_in», «m4_ifelse(km_part(«scales_of», «$1»), «$2», 1, 0)»)

m4_dnl km_row_bytes_of(T, DIM) -- bytes of a row.  km_offset_of(T, DIM) -- bytes before an element, in formats without
m4_dnl blocks.  km_size(T) -- bytes of an element.
m4_define(«km_row_bytes_of», «km_if(km_part(«block», $1), «m4_eval(km_part(«row_head», $1) + ($2) / km_part(«block», $1)
    * km_part(«block_bytes», $1))», «m4_eval(($2) * km_part(«bits», $1) / 8)»)»)
m4_define(«km_offset_of»,
    «m4_ifelse(km_part(«bits», $1), 8, «($2)», km_part(«bits», $1), 4, «($2) / 2», «($2) * km_size($1)»)»)
m4_define(«km_size», «m4_eval(km_part(«bits», $1) / 8)»)

m4_dnl ---- Tiles: the first pieces of all rows of a tile, then their second pieces, and so on ----

m4_dnl km_in_tiles(T) -- whether rows are in tiles.  km_row_at(T, DATA, STRIDE, ROW) -- where a row begins.
m4_define(«km_in_tiles», «m4_eval(km_part(«tile», $1) > 0)»)
m4_define(«km_row_at», «km_if(km_in_tiles($1), «_km_row_of_tile(«$2», «$3», «$4», km_part(«tile», $1),
    km_part(«piece_of_tile», $1))», «$2 + $4 * $3»)»)
m4_define(«_km_row_of_tile», «$1 + $3 / $4 * $4 * $2 + $3 % $4 * $5»)

m4_dnl km_row_of_page(T, DATA, STRIDE, ROW, PAGE) -- where a row begins, in transposed pages of PAGE rows.
m4_dnl km_step_of_page(T, PAGE) -- the bytes from an element of a row to its next element there.
m4_define(«km_row_of_page», «_km_row_of_tile(«$2», «$3», «$4», «$5», km_part(«piece_of_tile», $1))»)
m4_define(«km_step_of_page», «m4_eval($2 * km_size($1))»)

m4_dnl km_tile_words(T, BYTES) -- defines row_from_tile and row_to_tile, which copy a row out of a tile and into it.
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

m4_dnl km_codes_of(T, ROW, DIM, COUNT) -- elements from DIM on as floats, without scale and minimum; COUNT of them
m4_dnl exist.
m4_define(«km_codes_of», «km_if(km_part(«block», $1), «_km_codes_of_block(«$1», «$2», «$3», km_part(«piece», $1))»,
    «km_if($4 < km_lanes, «km_typed(«load_some», km_part(«codes», $1))($2 + km_offset_of(«$1», «$3»), $4)»,
    «km_typed(«load», km_part(«codes», $1))($2 + km_offset_of(«$1», «$3»))»)»)»)
m4_define(«_km_codes_of_block», «m4_indir(«km_block_codes_»$1,
    «$2 + ($3) / km_part(«block», $1) * km_part(«block_bytes», $1)», «($3) % $4», «km_if($4 == km_part(«block», $1), 0,
    «($3) % km_part(«block», $1) / $4»)»)»)

m4_dnl ---- Codes as integers: a word of 32 bits contains km_word_dims codes ----

m4_dnl km_word_flip(T) -- the exclusive or with this turns a word of codes into codes plus km_code_offset.
m4_define(«km_word_dims», «m4_eval(32 / km_part(«bits», $1))»)
m4_define(«km_code_offset», «m4_eval(1 << (km_part(«bits», $1) - 1))»)
m4_define(«km_word_flip»,
    «km_if(km_part(«is_signed», $1), «(int32_t)m4_ifelse(km_part(«bits», $1), 8, 0x80808080, 0x88888888)», 0)»)

m4_dnl km_has_half_codes(T) -- whether codes can be loaded as float16.  km_half_codes(T, ROW, DIM) -- HALVES codes as
m4_dnl float16, from DIM on, which is a multiple of HALVES.
m4_define(«km_has_half_codes», «(!km_part(«is_float», $1) && km_part(«is_signed», $1))»)
m4_define(«km_half_codes», «km_if(km_part(«block», $1), «m4_indir(«km_half_codes_»$1, «$2», «$3»)»,
    «km_typed(«load_vh», km_part(«codes», $1))($2 + km_offset_of(«$1», «$3»))»)»)
m4_divert(0)m4_dnl
