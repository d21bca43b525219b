// Batching dims in all ways of writing them; tests/rewrite.test runs these in the old form, too.

// More batches than the index type has numbers: row b of 300 is 2 b, 2 b + 1, and each takes its second element.
func.func @many_batches() {
  %rows = stablehlo.iota dim = 0 : tensor<600xi32>
  %a = stablehlo.reshape %rows : (tensor<600xi32>) -> tensor<300x2xi32>
  %i = stablehlo.constant dense<1> : tensor<300x1xui8>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1],
      operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>,
      indices_are_sorted = true, slice_sizes = array<i64: 1, 1>}> : (tensor<300x2xi32>, tensor<300x1xui8>) -> tensor<300xi32>
  %one = stablehlo.constant dense<1> : tensor<300xi32>
  %b = stablehlo.iota dim = 0 : tensor<300xi32>
  %twice = stablehlo.add %b, %b : tensor<300xi32>
  %want = stablehlo.add %twice, %one : tensor<300xi32>
  check.expect_eq %r, %want : tensor<300xi32>
  func.return
}

// An implicit index vector; values of several results; names that begin as those of new values do.
func.func @implicit(%batched0: tensor<2x3xi16>, %batched_: tensor<2xi8>) -> tensor<2xi16> {
  %0 = "stablehlo.gather"(%batched0, %batched_) {dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
      start_index_map = [1], index_vector_dim = 1,>, slice_sizes = array<i64: 1, 1>, indices_are_sorted}
      : (tensor<2x3xi16>, tensor<2xi8>) -> tensor<2xi16>
  func.return %0 : tensor<2xi16>
}

func.func @both(%x: tensor<2x3xi16>, %i: tensor<2xi8>) -> (tensor<2x3xi16>, tensor<2xi8>) {
  func.return %x, %i : tensor<2x3xi16>, tensor<2xi8>
}

func.func @main() {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi16>
  %i = stablehlo.constant dense<[2, -7]> : tensor<2xi8>
  %r = func.call @implicit(%a, %i) : (tensor<2x3xi16>, tensor<2xi8>) -> tensor<2xi16>
  check.expect_eq_const %r, dense<[3, 4]> : tensor<2xi16>
  %b:2 = func.call @both(%a, %i) : (tensor<2x3xi16>, tensor<2xi8>) -> (tensor<2x3xi16>, tensor<2xi8>)
  %s = "stablehlo.gather"(%b#0, %b#1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1],
      operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 1>}> : (tensor<2x3xi16>, tensor<2xi8>) -> tensor<2xi16>
  check.expect_eq_const %s, dense<[3, 4]> : tensor<2xi16>
  func.call @many_batches() : () -> ()
  func.call @truths() : () -> ()
  func.call @sizes_from_a_constant() : () -> ()
  func.call @partly_outside() : () -> ()
  func.return
}

// Indices of i1, of which there is no iota; updates in another order of axes than the batches.
func.func @truths() {
  %a = stablehlo.constant dense<[[0, 0], [0, 0], [0, 0]]> : tensor<3x2xi32>
  %i = stablehlo.constant dense<[[[true, false, true], [true, true, false]]]> : tensor<1x2x3xi1>
  %u = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %s = stablehlo.add %x, %y : tensor<i32>
      stablehlo.return %s : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0],
      scatter_indices_batching_dims = [2], scatter_dims_to_operand_dims = [1], index_vector_dim = 0>}
      : (tensor<3x2xi32>, tensor<1x2x3xi1>, tensor<2x3xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %r, dense<[[0, 5], [2, 5], [6, 3]]> : tensor<3x2xi32>
  func.return
}

func.func @sizes_from_a_constant() {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %i = stablehlo.constant dense<[[1, 9]]> : tensor<1x2xui4>
  %sizes = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %r = "stablehlo.dynamic_gather"(%a, %i, %sizes) {dimension_numbers = #stablehlo.gather<offset_dims = [0],
      operand_batching_dims = [0], start_indices_batching_dims = [1], start_index_map = [1]>}
      : (tensor<2x3xi32>, tensor<1x2xui4>, tensor<2xi64>) -> tensor<2x2xi32>
  check.expect_eq_const %r, dense<[[2, 5], [3, 6]]> : tensor<2x2xi32>
  func.return
}

// Windows partly outside, by elements.
func.func @partly_outside() {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %i = stablehlo.constant dense<[[2], [-1]]> : tensor<2x1xi64>
  %u = stablehlo.constant dense<[[10, 20], [30, 40]]> : tensor<2x2xi32>
  %r = "stablehlo.scatter"(%a, %i, %u) <{indices_are_sorted = false, unique_indices = true,
      scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], input_batching_dims = [0],
      scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      stablehlo.return %y : tensor<i32>
  }) : (tensor<2x3xi32>, tensor<2x1xi64>, tensor<2x2xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %r, dense<[[1, 2, 10], [40, 5, 6]]> : tensor<2x3xi32>
  func.return
}
