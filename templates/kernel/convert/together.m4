m4_divert(-1)
m4_dnl together.m4 -- rows that are collected in a buffer and then written together: the rows of a tile, and rows of
m4_dnl blocks that are whole lines only together.  One by one, each store would first read the line from memory.

m4_dnl km_puts_together(HOW) -- whether rows are collected; HOW is store or stream.
m4_define(«km_puts_together», «(km_writes_tiles || (km_is_block_rows && m4_ifelse(«$1», «stream», 1, 0)))»)

m4_dnl km_rows_together -- declares the buffer; rows of tiles are rounded up to whole vectors.
m4_dnl km_to(HOW) -- where the codes of row r are written: the buffer or the cache.
m4_define(«km_row_together», «km_if(km_writes_tiles && km_has_tile_of_rows, m4_dnl
«km_round_up(km_row_bytes, km_peak_bytes)», «km_row_bytes»)»)
m4_define(«km_rows_together», «m4_dnl
    __attribute__((aligned(64))) unsigned char together[km_batch][km_row_together];
»)
m4_dnl km_how(HOW) -- how they are written there.
m4_define(«km_how», «km_if(km_puts_together(«$1»), «store», «$1»)»)
m4_define(«km_to», «km_if(km_puts_together(«$1»), «together[r]», «row[r].to»)»)

m4_dnl km_lie_together -- whether problem p has enough adjacent rows to fill a tile, or lines.
m4_define(«km_lie_together», «km_if(km_writes_tiles, «last - first >= km_tile_height», «m4_dnl
((km_at_p(«cache.row_stride») == km_row_bytes && last - first >= km_batch) || m4_dnl
(km_at_p(«cache.head_stride») == km_row_bytes && km_at_p(«heads») >= km_batch))»)»)

m4_dnl km_together_helpers -- defines follow_each_other (row, count, step): how many rows are `step` bytes apart.
m4_define(«km_together_helpers», «km_if(km_rows_are_alone, «», «m4_dnl
km_inline(«int», «follow_each_other(const struct row *row, int count, int step)»)
{
    int n = 1;
    while (n < count && row[n].to == row[n - 1].to + step)
        n++;
    return n;
}

»)»)

m4_dnl km_put_together(HOW) -- defines HOW_together, which writes the buffer: at once if rows fill a tile, or lines, and
m4_dnl otherwise row by row.
m4_define(«km_put_together», «km_if(km_puts_together(«$1»), «km_if(km_writes_tiles, m4_dnl
«_km_put_in_tiles(«$1»)», «_km_put_in_lines(«$1»)»)»)»)

m4_define(«_km_put_in_lines», «km_function(«void», «$1_together(const struct row *row, m4_dnl
unsigned char (*together)[km_row_together], int count)»)
{
    const unsigned char *from = together[0];
    unsigned char *to = row[0].to;
    if ((uintptr_t)to % 64 == 0 && follow_each_other(row, count, km_row_bytes) == km_batch) {
        for (int i = 0; i < m4_eval(km_batch * km_row_bytes); i += 64) {
km_straight(«km_stream», «km_stream_bytes», 64, «to + i», «from + i»)m4_dnl
        }
        return;
    }
    for (int r = 0; r < count; r++)
        memcpy(row[r].to, together[r], km_row_bytes);
}

»)

m4_dnl ---- Tiles ----

m4_dnl km_rows_at_once -- rows that are interleaved at once: all of a tile, or a batch, if a tile is larger.
m4_define(«km_rows_at_once», «km_smaller(km_tile_height, km_batch)»)
m4_define(«_km_put_in_tiles», «_km_tile_of_rows(«$1»)m4_dnl
km_function(«void», «$1_together(const struct row *row, unsigned char (*together)[km_row_together], int count)»)
{
    for (int r = 0; r < count;) {
        const int rows = follow_each_other(row + r, count - r, km_part(«piece_of_tile», km_element));
        if (rows == km_rows_at_once«»m4_ifelse(«$1», «stream», « && (uintptr_t)row[r].to % 64 == 0»))
            $1_tile(together + r, row[r].to);
        else
            for (int n = r; n < r + rows; n++)
                row_to_tile(together[n], row[n].to);
        r += rows;
    }
}

»)

m4_dnl _km_tile_of_rows(HOW) -- defines HOW_tile, which interleaves km_rows_at_once rows.
m4_define(«_km_tile_of_rows», «km_inline(«void», «$1_tile(unsigned char (*row)[km_row_together], unsigned char *to)»)
{
km_if(km_has_tile_of_rows, «_km_tile_by_vectors(«$1»)», «km_if(km_turns_tiles, «_km_turned_tile(«$1»)», «m4_dnl
    for (int i = 0; i < km_row_bytes; i += km_part(«piece_of_tile», km_element))
        for (int r = 0; r < km_rows_at_once; r++)
            memcpy(to + i * km_tile_height + r * km_part(«piece_of_tile», km_element), row[r] + i, m4_dnl
km_part(«piece_of_tile», km_element));
»)»)m4_dnl
}

»)
m4_define(«_km_tile_by_vectors», «m4_dnl
    vf x[km_tile_height];
km_each(«I», 0, m4_eval(km_row_bytes - 1), km_peak_bytes, «m4_ifelse(km_part(«piece_of_tile», km_element), 1, m4_dnl
«_km_tile_of_bytes(«$1»)», «_km_tile_of_words(«$1»)»)»)»)
m4_dnl Vectors that begin after the end of the tile do not exist.
m4_define(«_km_vector_of_tile», «km_if($2 < km_tile_height * km_row_bytes, «    $1_f32(to + m4_eval($2), $3);
»)»)
m4_define(«_km_tile_of_bytes», «m4_dnl
    interleaved(row[0] + I, row[1] + I, row[2] + I, row[3] + I, x);
km_each(«J», 0, 3, 1, «_km_vector_of_tile(«$1», «(4 * (I + J * km_lanes))», «x[J]»)»)»)
m4_define(«_km_tile_of_words», «m4_dnl
km_each(«R», 0, m4_eval(km_tile_height - 1), 1, «    x[R] = load_f32(row[R] + I);
»)km_each(«R», 0, m4_eval(km_tile_height - 1), km_lanes, «    transpose(x + R);
»)km_each(«J», 0, m4_eval(km_lanes - 1), 1, «km_each(«R», 0, m4_eval(km_tile_height - 1), km_lanes, «m4_dnl
_km_vector_of_tile(«$1», «((I + J * 4) * km_tile_height + R * 4)», «x[m4_eval(R + J)]»)»)»)»)
m4_define(«_km_turned_tile», «m4_dnl
    for (int i = 0; i < km_dim; i += km_lanes) {
km_turn(«km_typed(«load», km_stored)(row[J] + i * km_size(km_stored))», m4_dnl
«km_typed(«$1», km_stored)(to + (i + J) * km_step_of_page(«km_element», km_tile_height), x[J])»)m4_dnl
    }
»)
m4_divert(0)m4_dnl
