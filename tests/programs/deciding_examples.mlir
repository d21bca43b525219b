// Examples that tell one reading of the specification from another.

// Windows partly outside are skipped by elements.
func.func @partly_outside() {
  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %i = stablehlo.constant dense<[[0, 2], [1, 0]]> : tensor<2x2xi32>
  %u = stablehlo.constant dense<1> : tensor<2x2xi32>
  %r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
      update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1>}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      stablehlo.return %s : tensor<i32>
  }) : (tensor<2x2xi32>, tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %r, dense<[[1, 3], [3, 4]]> : tensor<2x2xi32>
  func.return
}

// -----

// Unsigned indices are not sign-extended.
func.func @unsigned_index() {
  %a = stablehlo.iota dim = 0 : tensor<300xi32>
  %i = stablehlo.constant dense<200> : tensor<1xui8>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0], start_index_map = [0]>, slice_sizes = array<i64: 1>}>
      : (tensor<300xi32>, tensor<1xui8>) -> tensor<i32>
  check.expect_eq_const %r, dense<200> : tensor<i32>
  func.return
}

// -----

// Inputs are promoted before updates are added.
func.func @promotion() {
  %a = stablehlo.constant dense<[100, 100]> : tensor<2xi8>
  %i = stablehlo.constant dense<[[0], [0]]> : tensor<2x1xi32>
  %u = stablehlo.constant dense<[100, 100]> : tensor<2xi8>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      "stablehlo.return"(%s) : (tensor<i32>) -> ()
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1,>}
      : (tensor<2xi8>, tensor<2x1xi32>, tensor<2xi8>) -> tensor<2xi32>
  check.expect_eq_const %r, dense<[300, 100]> : tensor<2xi32>
  func.return
}

// -----

// No index components: one window for each point all the same.
func.func @no_components() {
  %a = stablehlo.constant dense<[10]> : tensor<1xi32>
  %i = stablehlo.constant dense<> : tensor<3x0xi32>
  %u = stablehlo.constant dense<[[1], [2], [4]]> : tensor<3x1xi32>
  %r = "stablehlo.scatter" (%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      stablehlo.return %s : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      scatter_dims_to_operand_dims = [], index_vector_dim = 1>}
      : (tensor<1xi32>, tensor<3x0xi32>, tensor<3x1xi32>) -> tensor<1xi32>
  check.expect_eq_const %r, dense<[17]> : tensor<1xi32>
  func.return
}

// -----

// Starts at the ends of 64 bits.
func.func @ends_gather() {
  %a = stablehlo.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi16>
  %i = stablehlo.constant dense<[[9223372036854775807], [-9223372036854775808]]> : tensor<2x1xi64>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2>}>
      : (tensor<5xi16>, tensor<2x1xi64>) -> tensor<2x2xi16>
  check.expect_eq_const %r, dense<[[4, 5], [1, 2]]> : tensor<2x2xi16>
  func.return
}

func.func @ends_scatter() {
  %a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi16>
  %i = stablehlo.constant dense<[[9223372036854775807], [-9223372036854775808]]> : tensor<2x1xi64>
  %u = stablehlo.constant dense<7> : tensor<2x2xi16>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i16>, %y: tensor<i16>):
      stablehlo.return %y : tensor<i16>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xi16>, tensor<2x1xi64>, tensor<2x2xi16>) -> tensor<3xi16>
  check.expect_eq_const %r, dense<[1, 2, 3]> : tensor<3xi16>
  func.return
}

func.func @unsigned_end() {
  %a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi16>
  %i = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [0], start_index_map = [0]>, slice_sizes = array<i64: 1>}>
      : (tensor<3xi16>, tensor<ui64>) -> tensor<i16>
  check.expect_eq_const %r, dense<3> : tensor<i16>
  func.return
}

// -----

// Updates are applied in their own order, also where windows are their outer axis.
func.func @order() {
  %a = stablehlo.constant dense<[0, 0, 0]> : tensor<3xi32>
  %i = stablehlo.constant dense<[[0], [1]]> : tensor<2x1xi32>
  %u = stablehlo.constant dense<[[10, 20], [30, 40]]> : tensor<2x2xi32>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      stablehlo.return %y : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xi32>, tensor<2x1xi32>, tensor<2x2xi32>) -> tensor<3xi32>
  check.expect_eq_const %r, dense<[10, 30, 40]> : tensor<3xi32>
  func.return
}

// -----

// Batching axes of the indices are counted with the index vector.
func.func @vector_first() {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %i = stablehlo.constant dense<[[2, 0]]> : tensor<1x2xi32>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<
      operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [1],
      collapsed_slice_dims = [1], index_vector_dim = 0>, slice_sizes = array<i64: 1, 1>}>
      : (tensor<2x3xi32>, tensor<1x2xi32>) -> tensor<2xi32>
  check.expect_eq_const %r, dense<[3, 4]> : tensor<2xi32>
  func.return
}

// -----

// Batching axes of the indices in another order than those of the operand.
func.func @unsorted_pairs() {
  %flat = stablehlo.iota dim = 0 : tensor<12xi32>
  %a = stablehlo.reshape %flat : (tensor<12xi32>) -> tensor<2x3x2xi32>
  %i = stablehlo.constant dense<[[[0], [0]], [[0], [0]], [[0], [1]]]> : tensor<3x2x1xi32>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<
      operand_batching_dims = [0, 1], start_indices_batching_dims = [1, 0], start_index_map = [2],
      collapsed_slice_dims = [2], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 1>}>
      : (tensor<2x3x2xi32>, tensor<3x2x1xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %r, dense<[[0, 6], [2, 8], [4, 11]]> : tensor<3x2xi32>
  func.return
}

// -----

// Slices of 0 on axes that the result does not have read one element, the last one where the start is beyond it.
func.func @slices_of_nothing() {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %i = stablehlo.constant dense<[[[0], [3], [9]], [[2], [-1], [1]]]> : tensor<2x3x1xi32>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1],
      operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>,
      slice_sizes = array<i64: 0, 0>}> : (tensor<2x3xi32>, tensor<2x3x1xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %r, dense<[[1, 3, 3], [6, 4, 5]]> : tensor<2x3xi32>
  func.return
}

func.func @slices_of_nothing_unmapped() {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %i = stablehlo.constant dense<[[5], [1]]> : tensor<2x1xi32>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 0, 2>}>
      : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %r, dense<[[2, 3], [2, 3]]> : tensor<2x2xi32>
  func.return
}

func.func @slice_of_an_empty_axis() {
  %a = stablehlo.constant dense<> : tensor<0x3xi32>
  %i = stablehlo.constant dense<> : tensor<0x1xi32>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 0, 3>}>
      : (tensor<0x3xi32>, tensor<0x1xi32>) -> tensor<0x3xi32>
  check.expect_eq_const %r, dense<> : tensor<0x3xi32>
  func.return
}

// The most axes that there are.
func.func @rank_32() {
  %a = stablehlo.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>
  %b = stablehlo.reshape %a : (tensor<6xi32>) -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x2x3xi32>
  %i = stablehlo.constant dense<[[1], [0]]> : tensor<2x1xi8>
  %r = "stablehlo.gather"(%b, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30],
    start_index_map = [30], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3>}> : (tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x2x3xi32>, tensor<2x1xi8>) -> tensor<2x3xi32>
  check.expect_eq_const %r, dense<[[4, 5, 6], [1, 2, 3]]> : tensor<2x3xi32>
  func.return
}
