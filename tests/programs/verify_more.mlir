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
