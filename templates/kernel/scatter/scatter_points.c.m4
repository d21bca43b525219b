m4_dnl scatter_points -- one element for each index vector.
km_head(«Scatter: one element for each index vector.», m4_ifelse(km_kind, «halves», «km_headers»))
km_combine_functions«»km_if(km_finds_runs, «km_combine_row
»)km_index_functions«»km_point_types«»km_single_points«»km_scatter_descriptor«»m4_dnl
