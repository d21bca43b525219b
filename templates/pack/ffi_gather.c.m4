km_ffi_head
static const kvmill_element_type operand_elements[] = {
km_elements_of_operand};
km_if(km_has_fill, «static const uint64_t fill_value[] = {km_fill};
»)m4_dnl

static const kvmill_gather op = {
    .struct_size = sizeof op,
km_ffi_axes«»m4_dnl
    .index_vector_dim = km_index_vector_dim,
    .indices_are_sorted = km_indices_are_sorted,
    .mode = "km_mode",
km_if(km_has_fill, «    .fill_value = fill_value,
»)m4_dnl
    .operand = &operand,
    .start_indices = &start_indices,
    .operand_element = operand_elements,
};

km_ffi_handler(«gather», 0)
