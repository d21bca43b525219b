m4_dnl scatter_points -- one element for each index vector: it is inside, or nothing is done.  The components of
m4_dnl several points are loaded together; elements are combined in order, since points may have the same one.
km_head(«Scatter: one element for each index vector.», m4_ifelse(km_kind, «halves», «km_headers»))
km_combine_functions«»km_if(km_finds_runs, «km_combine_row
»)km_index_functions«»km_point_types«»m4_dnl
m4_define(«km_point», «        if (km_point_inside(«$2»))
            combine_one(km_point_to(«$1», «$2»), km_point_from(«$1»));
»)m4_dnl
km_points(«m4_ifelse(km_unroll, 1, «», «    for (; i + km_unroll <= step.count; i += km_unroll) {
km_each(«U», 0, km_unroll - 1, 1, «km_point_ahead(«i + U»)km_point_loads(«i + U», U)»)km_each(«U», 0, km_unroll - 1, 1, «km_point(«i + U», U)»)    }
»)    for (; i < step.count; i++) {
km_point_ahead(«i»)km_point_loads(«i», 0)km_point(«i», 0)    }
»)m4_dnl
km_scatter_descriptor«»m4_dnl
