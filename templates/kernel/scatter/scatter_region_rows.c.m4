m4_dnl scatter_region_rows -- windows, row by row.
km_region_head(«Scatter by a region: rows of windows.»)
km_region_functions«»km_index_functions«»km_point_types«»km_window_functions«»m4_dnl
km_walked_rows«»km_row_points«»km_region_descriptor«»m4_dnl
