m4_dnl scatter_region_points -- one element of each slot for each index vector.
km_region_head(«Scatter by a region: one element for each index vector.»)
km_region_functions«»km_index_functions«»km_point_types«»km_single_points«»km_region_descriptor«»m4_dnl
