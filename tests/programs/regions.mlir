// Regions beyond the usual ones: captures, comparisons, several inputs, unusual types.

func.func @captures() {
  %a = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %i = stablehlo.constant dense<[[2], [0], [2]]> : tensor<3x1xi8>
  %u = stablehlo.constant dense<[10.0, 20.0, 30.0]> : tensor<3xf32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %two = stablehlo.add %one, %one : tensor<f32>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %0 = stablehlo.multiply %y, %half : tensor<f32>
      %1 = stablehlo.divide %x, %two : tensor<f32>
      %2 = stablehlo.subtract %0, %1 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf32>, tensor<3x1xi8>, tensor<3xf32>) -> tensor<3xf32>
  check.expect_eq_const %r, dense<[9.5, 2.0, 13.25]> : tensor<3xf32>
  func.return
}

// The largest value and where it came from: two inputs of different types, written together.
func.func @variadic() {
  %a = stablehlo.constant dense<[1.0, 5.0]> : tensor<2xf32>
  %p = stablehlo.constant dense<-1> : tensor<2xi16>
  %i = stablehlo.constant dense<[[0], [1], [0], [0]]> : tensor<4x1xui16>
  %u = stablehlo.constant dense<[2.0, 4.0, 8.0, 3.0]> : tensor<4xf32>
  %q = stablehlo.iota dim = 0 : tensor<4xi16>
  %r:2 = "stablehlo.scatter"(%a, %p, %i, %u, %q) <{scatter_dimension_numbers = #stablehlo.scatter<
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%x: tensor<f32>, %xp: tensor<i16>, %y: tensor<f32>, %yp: tensor<i16>):
      %less = stablehlo.compare LT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %value = stablehlo.select %less, %y, %x : tensor<i1>, tensor<f32>
      %place = stablehlo.select %less, %yp, %xp : tensor<i1>, tensor<i16>
      stablehlo.return %value, %place : tensor<f32>, tensor<i16>
  }) : (tensor<2xf32>, tensor<2xi16>, tensor<4x1xui16>, tensor<4xf32>, tensor<4xi16>)
      -> (tensor<2xf32>, tensor<2xi16>)
  check.expect_eq_const %r#0, dense<[8.0, 5.0]> : tensor<2xf32>
  check.expect_eq_const %r#1, dense<[2, -1]> : tensor<2xi16>
  func.return
}

// NaN wins, and -0 is below +0.
func.func @special_values() {
  %a = stablehlo.constant dense<[0.0, -0.0, 1.0, 0xFF800000, -0.0]> : tensor<5xf32>
  %i = stablehlo.constant dense<[[0], [1], [2], [3], [4]]> : tensor<5x1xi32>
  %u = stablehlo.constant dense<[-0.0, 0.0, 0x7FC00000, 0x7F800000, -0.0]> : tensor<5xf32>
  %max = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %0 = stablehlo.maximum %x, %y : tensor<f32>
      stablehlo.return %0 : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<5xf32>, tensor<5x1xi32>, tensor<5xf32>) -> tensor<5xf32>
  check.expect_eq_const %max, dense<[0.0, 0.0, 0x7FC00000, 0x7F800000, -0.0]> : tensor<5xf32>
  %min = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %0 = stablehlo.minimum %x, %y : tensor<f32>
      stablehlo.return %0 : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<5xf32>, tensor<5x1xi32>, tensor<5xf32>) -> tensor<5xf32>
  check.expect_eq_const %min, dense<[-0.0, -0.0, 0x7FC00000, 0xFF800000, -0.0]> : tensor<5xf32>
  func.return
}

// One rounding for each update: 256 + 1 stays 256 in bfloat16, twice.
func.func @rounding() {
  %a = stablehlo.constant dense<256.0> : tensor<bf16>
  %i = stablehlo.constant dense<> : tensor<2x0xi32>
  %u = stablehlo.constant dense<1.0> : tensor<2xbf16>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<bf16>, %y: tensor<bf16>):
      %0 = stablehlo.add %x, %y : tensor<bf16>
      stablehlo.return %0 : tensor<bf16>
  }) {scatter_dimension_numbers = #stablehlo.scatter<scatter_dims_to_operand_dims = [], index_vector_dim = 1>}
      : (tensor<bf16>, tensor<2x0xi32>, tensor<2xbf16>) -> tensor<bf16>
  check.expect_eq_const %r, dense<256.0> : tensor<bf16>
  func.return
}

// Truth values: add is or, multiply is and; indices of i1.
func.func @truth() {
  %a = stablehlo.constant dense<[false, true]> : tensor<2xi1>
  %i = stablehlo.constant dense<[[false], [true]]> : tensor<2x1xi1>
  %u = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %add = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i1>, %y: tensor<i1>):
      %0 = stablehlo.add %x, %y : tensor<i1>
      stablehlo.return %0 : tensor<i1>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<2xi1>, tensor<2x1xi1>, tensor<2xi1>) -> tensor<2xi1>
  check.expect_eq_const %add, dense<[true, true]> : tensor<2xi1>
  %multiply = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i1>, %y: tensor<i1>):
      %0 = stablehlo.multiply %x, %y : tensor<i1>
      stablehlo.return %0 : tensor<i1>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<2xi1>, tensor<2x1xi1>, tensor<2xi1>) -> tensor<2xi1>
  check.expect_eq_const %multiply, dense<[false, false]> : tensor<2xi1>
  func.return
}

func.func @complex_numbers() {
  %a = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0)]> : tensor<2xcomplex<f32>>
  %i = stablehlo.constant dense<[[1], [0]]> : tensor<2x1xindex>
  %u = stablehlo.constant dense<[(0.0, 1.0), (2.0, 0.0)]> : tensor<2xcomplex<f32>>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<complex<f32>>, %y: tensor<complex<f32>>):
      %0 = stablehlo.multiply %x, %y : tensor<complex<f32>>
      stablehlo.return %0 : tensor<complex<f32>>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<2xcomplex<f32>>, tensor<2x1xindex>, tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  check.expect_eq_const %r, dense<[(2.0, 4.0), (-4.0, 3.0)]> : tensor<2xcomplex<f32>>
  func.return
}

// 448 is the largest of f8E4M3FN; what is beyond is NaN there.
func.func @small_floats() {
  %a = stablehlo.constant dense<[1.0, 16.0, 448.0]> : tensor<3xf8E4M3FN>
  %i = stablehlo.constant dense<[[0], [1], [2]]> : tensor<3x1xi32>
  %u = stablehlo.constant dense<[0.0625, 1.0, 448.0]> : tensor<3xf8E4M3FN>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<f8E4M3FN>, %y: tensor<f8E4M3FN>):
      %0 = stablehlo.add %x, %y : tensor<f8E4M3FN>
      stablehlo.return %0 : tensor<f8E4M3FN>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<3xf8E4M3FN>, tensor<3x1xi32>, tensor<3xf8E4M3FN>) -> tensor<3xf8E4M3FN>
  check.expect_eq_const %r, dense<[1.0, 16.0, 0x7F]> : tensor<3xf8E4M3FN>
  func.return
}

// Narrow integers wrap at their own width.
func.func @narrow_integers() {
  %a = stablehlo.constant dense<[7, -8]> : tensor<2xi4>
  %i = stablehlo.constant dense<[[0], [1]]> : tensor<2x1xui2>
  %u = stablehlo.constant dense<[1, -1]> : tensor<2xi4>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i4>, %y: tensor<i4>):
      %0 = stablehlo.add %x, %y : tensor<i4>
      stablehlo.return %0 : tensor<i4>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<2xi4>, tensor<2x1xui2>, tensor<2xi4>) -> tensor<2xi4>
  check.expect_eq_const %r, dense<[-8, 7]> : tensor<2xi4>
  func.return
}

// Quantised: (q - 2) * 0.5; 1.5 + 2.0 = 3.5, and what is beyond the storage saturates.
func.func @quantized() {
  %a = stablehlo.constant dense<[1.5, 60.0]> : tensor<2xf32>
  %aq = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:2>>
  %u = stablehlo.constant dense<[2.0, 60.0]> : tensor<2xf32>
  %uq = stablehlo.uniform_quantize %u : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:2>>
  %i = stablehlo.constant dense<[[0], [1]]> : tensor<2x1xi32>
  %r = "stablehlo.scatter"(%aq, %i, %uq) ({
    ^bb0(%x: tensor<!quant.uniform<i8:f32, 0.5:2>>, %y: tensor<!quant.uniform<i8:f32, 0.5:2>>):
      %0 = stablehlo.add %x, %y : tensor<!quant.uniform<i8:f32, 0.5:2>>
      stablehlo.return %0 : tensor<!quant.uniform<i8:f32, 0.5:2>>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<2x!quant.uniform<i8:f32, 0.5:2>>, tensor<2x1xi32>, tensor<2x!quant.uniform<i8:f32, 0.5:2>>)
      -> tensor<2x!quant.uniform<i8:f32, 0.5:2>>
  %f = stablehlo.uniform_dequantize %r : (tensor<2x!quant.uniform<i8:f32, 0.5:2>>) -> tensor<2xf32>
  check.expect_eq_const %f, dense<[3.5, 62.5]> : tensor<2xf32>
  func.return
}

// An operand and an index space without axes: one window.
func.func @rank_0() {
  %a = stablehlo.constant dense<5> : tensor<i32>
  %i = stablehlo.constant dense<> : tensor<0xi32>
  %u = stablehlo.constant dense<6> : tensor<i32>
  %r = "stablehlo.scatter"(%a, %i, %u) ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %0 = stablehlo.xor %x, %y : tensor<i32>
      stablehlo.return %0 : tensor<i32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<scatter_dims_to_operand_dims = []>}
      : (tensor<i32>, tensor<0xi32>, tensor<i32>) -> tensor<i32>
  check.expect_eq_const %r, dense<3> : tensor<i32>
  %g = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<>, slice_sizes = array<i64>}>
      : (tensor<i32>, tensor<0xi32>) -> tensor<i32>
  check.expect_eq_const %g, dense<5> : tensor<i32>
  func.return
}
