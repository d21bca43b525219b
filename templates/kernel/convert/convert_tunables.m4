m4_divert(-1)
m4_dnl convert_tunables.m4 -- sizes of rows, and the tunables of kernels that convert them.
km_need_all(«the definitions», «km_symbol», «km_activation», «km_element», «km_dim», «km_quant_group», «km_variant»)

m4_dnl A page of transposed keys is a tile.
m4_ifelse(km_part(«is_transposed», km_element), 1, «m4_define(«km_tile_»km_element, km_quant_group)»)

m4_dnl km_row_bytes -- bytes of a cache row; km_from_bytes -- bytes of a row of activations.
m4_define(«km_row_bytes», «km_row_bytes_of(km_element, km_dim)»)
m4_define(«km_from_bytes», «m4_eval(km_dim * km_size(km_activation))»)

m4_dnl km_target_bytes -- bytes of a row that is written; if they are whole lines, stores can go around the caches.
m4_define(«km_writes_cache», «(m4_index(km_symbol, «kvmill_write_rows») == 0)»)
m4_define(«km_target_bytes», «km_if(km_writes_cache, km_row_bytes, km_from_bytes)»)
m4_define(«km_writes_tiles», «(km_writes_cache && km_in_tiles(km_element))»)

m4_dnl km_is_block_rows -- rows that contain their scales.  Few of these are whole lines.
m4_define(«km_is_block_rows», «(km_writes_cache && m4_ifelse(km_variant, «blocks», 1, km_variant, «row», 1, 0))»)

m4_dnl km_batch -- how many rows get their scales at a time: a whole tile; twice as many rows if these are whole lines
m4_dnl and the usual number is not; few rows if they are long.
m4_define(«km_batch», «km_if(km_turns_tiles, km_lanes, «km_if(km_writes_tiles && m4_dnl
!km_part(«is_transposed», km_element) && km_tile_height >= km_usual_batch, «km_tile_height»,
    «m4_eval(km_usual_batch << (km_is_block_rows && km_row_bytes * km_usual_batch % 64 == 32))»)»)»)
m4_define(«km_usual_batch», «km_if(km_dim <= 512, 8, «km_if(km_dim <= 1024, 4, «km_if(km_dim <= 2048, 2, 1)»)»)»)
m4_define(«km_tile_height», «km_part(«tile», km_element)»)

m4_dnl km_rows_are_alone -- rows are written one by one.  Rows of tiles, and rows that are whole lines only together,
m4_dnl are first collected in a buffer.
m4_define(«km_rows_are_alone», «(!km_writes_tiles && !km_is_block_rows)»)
m4_dnl km_has_tile_of_rows -- whether vectors can interleave all rows of a tile.
m4_define(«km_has_tile_of_rows», «(km_transposes && !km_part(«is_transposed», km_element))»)
m4_dnl km_turns_tiles -- a vector of rows of a transposed page becomes one of each element.
m4_define(«km_turns_tiles», «(km_writes_tiles && km_part(«is_transposed», km_element) && m4_dnl
km_transposes && km_dim <= 512 && km_dim % km_lanes == 0 && km_tile_height % km_lanes == 0)»)
m4_define(«km_bytes_together», «km_if(km_writes_tiles, m4_dnl
«(km_has_tile_of_rows || (km_turns_tiles && km_tile_height == km_lanes)) * km_tile_height * km_row_bytes», m4_dnl
«km_if(km_is_block_rows, «km_batch * km_row_bytes», «km_target_bytes»)»)»)
m4_define(«km_can_go_around», «(km_stream_bytes > 0 && (km_bytes_together) > 0 && (km_bytes_together) % 64 == 0)»)
km_tunable(«around», «km_can_go_around», «0«»km_if(km_can_go_around, «, 1»)», m4_dnl
«large rows are stored around the caches (1), or never (0)»)

m4_dnl Copies have no steps: they are straight-line code, or calls.
m4_define(«km_has_steps», «m4_ifelse(km_variant, «copy», 0, 1)»)
km_tunable(«unroll», «km_if(km_has_steps, km_steps_unrolled, 0)», «km_if(km_has_steps, «1, 8, 96», 0)», m4_dnl
«most steps through a row in straight-line code»)
km_limit(«km_unroll == km_preset_unroll || km_unroll < km_dim / km_lanes», «a row has fewer steps»)

km_tunable(«ahead», 0, «0«»km_if(km_writes_cache && !km_writes_tiles, «, 1, 2, 4»)», m4_dnl
«heads ahead whose row is fetched before it is written»)
m4_divert(0)m4_dnl
