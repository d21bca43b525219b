// expected-error: another element type
func.func @gather_c23(%a: tensor<3xf32>, %i: tensor<2x1xi32>) -> tensor<2xf64> {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
      : (tensor<3xf32>, tensor<2x1xi32>) -> tensor<2xf64>
  func.return %r : tensor<2xf64>
}

// -----

// expected-error: an update is missing
func.func @scatter_c5(%a: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) {
  %r:2 = "stablehlo.scatter"(%a, %a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      stablehlo.return %y : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf32>, tensor<3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  func.return
}

// -----

// expected-error: the region returns f32
func.func @scatter_c25(%a: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      stablehlo.return %y : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<3xf64>
  func.return
}

// -----

// expected-error: floats may not shrink
func.func @scatter_c23(%a: tensor<3xf64>, %i: tensor<2x1xi32>, %u: tensor<2xf64>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      stablehlo.return %y : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf64>, tensor<2x1xi32>, tensor<2xf64>) -> tensor<3xf32>
  func.return
}

// -----

// expected-error: i1 is promoted to nothing
func.func @scatter_c23(%a: tensor<3xi1>, %i: tensor<2x1xi32>, %u: tensor<2xi1>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      stablehlo.return %y : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xi1>, tensor<2x1xi32>, tensor<2xi1>) -> tensor<3xi32>
  func.return
}

// -----

// expected-error: the shape of the result is that of the input
func.func @scatter_c24(%a: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      stablehlo.return %y : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>
  func.return
}

// Of several constraints that are violated the first in the verifier's order is named.

// -----

// expected-error: C1, rank, before C8, range
func.func @gather_c1(%a: tensor<3xf32>, %i: tensor<2x1xi32>) {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 7],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
      : (tensor<3xf32>, tensor<2x1xi32>) -> tensor<2xf32>
  func.return
}

// -----

// expected-error: C19, the map, before C9, slices
func.func @gather_c19(%a: tensor<3xf32>, %i: tensor<2x1xi32>) {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 2>}>
      : (tensor<3xf32>, tensor<2x1xi32>) -> tensor<2xf32>
  func.return
}

// -----

// expected-error: C12, slices, before C21 and C5
func.func @gather_c12(%a: tensor<2x3xf32>, %i: tensor<2x1xi32>) {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [4], operand_batching_dims = [0],
      start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 4>}>
      : (tensor<2x3xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  func.return
}

// -----

// expected-error: C21, slices, before C5, places in the result
func.func @gather_c21(%a: tensor<3xf32>, %i: tensor<2x1xi32>) {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [4],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 4>}>
      : (tensor<3xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
  func.return
}

// -----

// expected-error: C5, places in the result, before C22, its shape
func.func @gather_c5(%a: tensor<3xf32>, %i: tensor<2x1xi32>) {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2],
      start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2>}>
      : (tensor<3xf32>, tensor<2x1xi32>) -> tensor<7x7xf32>
  func.return
}

// -----

// expected-error: C22, the index vector, before C23, the region
func.func @scatter_c22(%a: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      stablehlo.return %y : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 3>}
      : (tensor<3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<3xi32>
  func.return
}

// -----

// expected-error: C23, the region, before C2, rank
func.func @scatter_c23(%a: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2xf32>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      stablehlo.return %y : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<3xi32>
  func.return
}

// -----

// expected-error: C4, the rank of updates, before C2, that of inputs
func.func @scatter_c4(%a: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<2x2xf32>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      stablehlo.return %y : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf32>, tensor<2x1xi32>, tensor<2x2xf32>) -> tensor<3xf32>
  func.return
}

// -----

// expected-error: C21, the map, before the extents of C4
func.func @scatter_c21(%a: tensor<3xf32>, %i: tensor<2x1xi32>, %u: tensor<5xf32>) {
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      stablehlo.return %y : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [1], index_vector_dim = 1>}
      : (tensor<3xf32>, tensor<2x1xi32>, tensor<5xf32>) -> tensor<3xf32>
  func.return
}
