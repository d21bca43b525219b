m4_divert(-1)
m4_dnl km_ffi_list(NAME) -- the tensors of one kind, and their elements.
m4_define(«km_ffi_list», «static const DLTensor *const $1[] = {km_for_words(«T», «m4_indir(«km_$1»)», «&T, »)};
static const kvmill_element_type $1_elements[] = {
m4_indir(«km_elements_of_$1»)};
»)

m4_dnl km_step(NAME, ELEMENT, OPERANDS, DIRECTION, TYPE, BITS) -- an op of the region.
m4_define(«km_step», «    {"$1", km_element($2), {$3}, km_word(«$4»), km_word(«$5»), {$6}},
»)
m4_define(«km_word», «m4_ifelse(«$1», «», «NULL», «"$1"»)»)

m4_dnl km_with_results(TEXT) -- TEXT, if the spec states the types of results.
m4_define(«km_with_results», «km_if(km_given_results, «$1»)»)

m4_dnl km_with_region(TEXT, OTHERWISE) -- TEXT if the combiner is a region, else OTHERWISE.
m4_define(«km_with_region», «m4_ifelse(km_update_computation, «», «$1», «$2»)»)
m4_divert(0)m4_dnl
km_ffi_head
km_ffi_list(«inputs»)«»m4_dnl
km_ffi_list(«updates»)«»m4_dnl
km_with_results(«km_ffi_list(«results»)»)m4_dnl
km_with_region(«
static const kvmill_element_type arguments[] = {
km_region_arguments};
km_if(km_step_count, «static const kvmill_region_op ops[] = {
km_steps};
»)m4_dnl
static const int32_t returned[] = {km_returned};
static const kvmill_region region = {
    .arguments = arguments,
km_if(km_step_count, «    .ops = ops,
»)m4_dnl
    .op_count = km_step_count,
    .results = returned,
    .capture_count = km_capture_count,
};
»)
static const kvmill_scatter op = {
    .struct_size = sizeof op,
km_ffi_axes«»m4_dnl
    .index_vector_dim = km_index_vector_dim,
    .indices_are_sorted = km_indices_are_sorted,
    .unique_indices = km_unique_indices,
    .window_out_of_bounds = "km_outside",
km_with_region(«    .region = &region,
», «    .update_computation = "km_update_computation",
»)m4_dnl
    .count = km_result_count,
    .inputs = inputs,
    .updates = updates,
    .scatter_indices = &scatter_indices,
    .elements = inputs_elements,
    .update_elements = updates_elements,
km_with_results(«    .results = results,
    .result_elements = results_elements,
»)m4_dnl
};

km_ffi_handler(«scatter», 1)
