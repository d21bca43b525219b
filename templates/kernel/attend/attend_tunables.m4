m4_divert(-1)
m4_dnl attend_tunables.m4 -- the tunables of attention kernels.
km_need_all(«the generator», «km_registers», «km_few_rows», «km_summing_codes», «km_summing_halves»,
    «km_summing_pairs»)

m4_dnl km_single_tile -- all rows are one tile: in quads, where rows share vectors, and in dims with few rows.
m4_define(«km_quads», «m4_ifelse(km_variant, «quads», 1, 0)»)
m4_define(«km_dims», «m4_ifelse(km_variant, «dims», 1, 0)»)
m4_define(«km_single_tile», «(km_quads || (km_dims && km_few_rows))»)
m4_dnl km_group_rows -- query rows that are multiplied with four keys at a time in `dims`.  With a single tile, their
m4_dnl sums take half of the registers; otherwise, it is a part of a tile with as many sums as a tile may have.
m4_define(«km_group_rows»,
    «km_if(km_single_tile, «km_smaller(km_rows, km_registers / 8)», «_km_part_of_tile(m4_eval(km_most_sums / 4))»)»)
m4_define(«_km_part_of_tile», «km_if(km_tile % $1 == 0, $1, «_km_part_of_tile(m4_eval($1 - 1))»)»)
m4_define(«km_codes», «m4_ifelse(km_variant, «codes», 1, 0)»)
m4_dnl km_in_words -- keys are turned: positions in the lanes, and a word of codes of each.
m4_define(«km_in_words», «m4_ifelse(km_variant, «words», 1, km_variant, «pairs», 1, 0)»)
m4_define(«km_most_sums», «(km_registers * 3 / 4)»)
m4_define(«km_most_of», «km_if(($1) > ($2), «m4_eval($1)», «m4_eval($2)»)»)

m4_define(«km_usual_tile», «km_if(km_single_tile, km_rows, «km_if(km_codes || km_in_words || km_sixes_waste, 4, 6)»)»)
m4_dnl Tiles of six rows are best.  Tiles of four are used if sixes would compute more than a sixteenth too many rows.
m4_define(«km_sixes_waste», «(km_dims && (km_rows + 5) / 6 * 6 * 16 > km_rows * 17)»)
km_tunable(«tile», «km_smaller(km_rows, km_usual_tile)», «km_if(km_single_tile, km_rows, «1, 2, 3, 4, 5, 6, 8, 12»)»,
    «query rows of a register tile»)
km_limit(«km_tile <= km_rows», «a tile has more rows than the kernel»)

m4_define(«km_sums_of_row», «m4_eval(km_most_sums / km_preset_tile)»)
m4_define(«km_usual_strip», «km_if(km_dims && km_sums_of_row >= 8, 8, «km_if(km_sums_of_row >= 4, 4,
    «km_if(km_dims && !km_few_rows && km_sums_of_row == 3, 3, «km_if(km_sums_of_row >= 2, 2, 1)»)»)»)»)
km_tunable(«strip», «km_usual_strip», «1, 2, 3, 4, 8», «vectors of a register tile»)
km_limit(«km_tile * km_strip <= km_most_sums || km_strip == 1», «the sums of a tile leave too few registers»)

m4_dnl unroll -- straight-line code over dims.  It gains nothing by itself (doc/design/tried.md).  Its size is some 16
m4_dnl bytes per product of a register tile; `columns` has code for strips of all lengths.  Other tunables vary only
m4_dnl with loops.
m4_define(«km_products_of_dim», «m4_eval(4 * km_tile * km_if(km_codes, «km_words * km_limbs / 4»,
    «km_if(km_in_words, «km_words», «2 * km_strip»)»))»)
m4_define(«km_key_products», «m4_eval(km_key_dim * km_if(km_quads, «km_positions * km_sums_of_position»,
    «km_if(km_dims, «16 * km_group_rows / km_lanes», «km_products_of_dim»)») / 4)»)
m4_define(«km_value_products», «m4_eval(4 * km_tile * (km_value_dim + km_lanes - 1) / km_lanes)»)
km_tunable(«unroll», 0, «0, 1, 2, 3»,
    «straight-line code over no dims (0), those of keys (1), of values (2), of both (3)»)
m4_dnl km_unroll_keys, km_unroll_values -- the text before a loop over dims.
m4_define(«km_unroll_keys», «km_if(km_unroll % 2, «#pragma GCC unroll 65534
»)»)
m4_define(«km_unroll_values», «km_if(km_unroll / 2, «#pragma GCC unroll 65534
»)»)

m4_define(«km_bytes_of_position», «(km_row_bytes_of(km_key, km_key_dim) + km_row_bytes_of(km_value, km_value_dim))»)
m4_define(«km_positions_are_long», «(64 * km_bytes_of_position > 32768)»)
m4_define(«km_rows_are_long», «(km_few_rows && km_positions_are_long)»)
m4_dnl Calls may have fewer query rows than the kernel, so its first rows fetch all lines.  Long positions need more
m4_dnl time than that: all rows share their lines, and calls with few rows fetch too few.
m4_define(«km_all_rows_fetch», «(!km_few_rows && km_positions_are_long)»)
m4_dnl If long values are accumulated in several strips, each strip reads them again.  A block of 16 positions keeps
m4_dnl them in the first-level cache.
m4_define(«km_is_tiny», «((km_dims || km_quads) && km_rows_are_long && km_value_dim > km_strip * km_lanes)»)
m4_dnl Blocks are also the range of float16 sums.
m4_dnl Two rows of long codes wait for memory rather than for their sums.
m4_define(«km_waits_for_codes», «(km_codes && km_rows <= 2 && km_key_dim > 128)»)
m4_define(«km_is_small», «((km_quads && m4_ifelse(km_key, «f32», 1, 0)) || (km_codes && km_summing_halves) ||
    km_waits_for_codes)»)
km_tunable_when(«!km_unroll», «block», «km_if(km_is_tiny, 16, «km_if(km_is_small, 32, 64)»)», «16, 32, 64»,
    «positions that are scored, go through softmax and are summed up together»)
km_limit(«km_if(km_quads || km_dims || km_codes || km_in_words, 1, «km_block % (km_strip * km_lanes) == 0»)»,
    «a strip is longer than the block»)

m4_dnl One level of prefetching is enough if lines are fetched evenly; tuning may choose two.
km_tunable_when(«!km_unroll», «inner», 0, «0, 4, 8, 16»,
    «rows ahead that are brought from the second cache into the first; 0: all come into the first at once»)
m4_dnl Lines in flight must not evict the rest of the first-level cache: at most some 32 KiB.  With many query rows,
m4_dnl which go through a block several times, the whole next block should be on its way.
m4_define(«km_usual_outer», «km_if(km_is_tiny, 16, «km_if(km_rows_are_long || km_waits_for_codes, 32, 64)»)»)
km_tunable_when(«!km_unroll», «outer», «km_usual_outer», «0, 16, 32, 64, 128»,
    «rows ahead that are brought from memory»)

m4_define(«km_sums_of_position», «m4_eval((km_rows * 4 + km_lanes - 1) / km_lanes)»)
m4_define(«km_usual_positions», «km_if(km_sums / km_sums_of_position < 4, 4,
    «m4_eval(km_sums / km_sums_of_position / 4 * 4)»)»)
km_tunable(«positions», «km_if(km_quads, «km_usual_positions», 0)», «km_if(km_quads, «4, 8, 12, 16», 0)»,
    «keys that are multiplied with the queries at a time»)
km_limit(«km_if(km_quads, «km_positions == 4 || km_positions * km_sums_of_position <= km_most_sums», 1)»,
    «the scores of so many positions leave too few registers»)
km_limit(«km_if(km_quads, «km_block % km_positions == 0», 1)», «a block is no multiple of the positions at a time»)

m4_dnl km_limbs -- digits of base 256 for queries and weights that are multiplied with codes: three are as exact as
m4_dnl float32.
m4_define(«km_limbs», «m4_ifelse(km_math, «f32», 3, 2)»)
m4_dnl With a single row, four sums are needed to hide the latency of products.
m4_define(«km_usual_words», «km_if(km_codes && km_preset_tile * 2 * km_limbs > km_most_sums, 1,
    «km_if(km_preset_tile == 1 && km_registers <= 16 && m4_ifelse(km_variant, «words», 1, 0), 4, 2)»)»)
km_tunable(«words», «km_if(km_codes || km_in_words, km_usual_words, 0)», «km_if(km_codes || km_in_words, «1, 2, 4», 0)»,
    «vectors of positions that are multiplied with codes of a query»)
km_limit(«km_if(km_codes || km_in_words, «km_block % (km_words * km_lanes) == 0», 1)»,
    «a block is no multiple of the positions at a time»)
km_limit(«km_if(km_in_words, «km_tile * km_words <= km_most_sums», 1)», «the sums of a tile leave too few registers»)
km_limit(«km_if(km_codes, «km_tile * km_words * km_limbs <= km_most_sums», 1)»,
    «the digits of a tile leave too few registers»)
km_limit(«(km_unroll % 2 * km_key_products + km_unroll / 2 * km_value_products) * 16 <= 32768»,
    «straight-line code over so many dims would be more than 32 KiB»)

m4_dnl summing -- how values are added: 0 as float32, 1 as codes, 2 as float16, 3 as pairs of codes.
m4_define(«km_usual_summing», «km_if(km_summing_pairs, 3, «km_if(km_summing_halves, 2, km_summing_codes)»)»)
m4_define(«km_ways_of_summing», «0«»km_if(km_summing_codes, «, 1»)«»m4_dnl
km_if(km_summing_halves, «, 2»)«»km_if(km_summing_pairs, «, 3»)»)
km_tunable(«summing», «km_usual_summing», «km_ways_of_summing»,
    «values as float32 (0), codes (1), float16 (2), pairs of codes (3)»)
m4_define(«km_usual_direct», «(km_value_dim % km_lanes == 0 && km_preset_summing % 2 == 0 &&
    (km_rows <= km_preset_tile || km_dims || km_in_words || m4_ifelse(km_value, «f32», 1, 0)))»)
km_tunable(«direct», «km_usual_direct», «0, 1»,
    «values are converted where they are used (1), or before (0)»)
km_limit(«km_if(km_direct, «(km_value_dim % km_lanes == 0 && km_summing % 2 == 0)», 1)»,
    «values cannot be used where they lie»)

km_limit(«km_summing != 2 || !km_codes || km_block <= 32», «sums of float16 over so many positions err too much»)

km_limit(«km_if(km_summing == 3, km_block % (2 * km_lanes) == 0, 1)», «weights are packed by two vectors of positions»)

m4_define(«km_value_codes», «m4_eval(km_summing == 1)»)
m4_define(«km_half_values», «m4_eval(km_summing == 2)»)
m4_define(«km_value_pairs», «m4_eval(km_summing == 3)»)
m4_dnl km_value_units -- whether weights become integers.
m4_define(«km_value_units», «(km_value_codes || km_value_pairs)»)
m4_divert(0)m4_dnl
