// Every scalar op that regions and programs may have, at the edges of its types.

// To whole numbers, signs of zeros included.
func.func @rounding() {
  %c0 = stablehlo.constant dense<[-2.5, -0.5, -0.0, 0.5, 3.5, 0x7F800000, 0x7FC00000]> : tensor<7xf32>
  %v0 = stablehlo.floor %c0 : tensor<7xf32>
  check.expect_eq_const %v0, dense<[-3.0, -1.0, -0.0, 0.0, 3.0, 0x7F800000, 0x7FC00000]> : tensor<7xf32>
  %v1 = stablehlo.ceil %c0 : tensor<7xf32>
  check.expect_eq_const %v1, dense<[-2.0, -0.0, -0.0, 1.0, 4.0, 0x7F800000, 0x7FC00000]> : tensor<7xf32>
  %v2 = stablehlo.round_nearest_even %c0 : tensor<7xf32>
  check.expect_eq_const %v2, dense<[-2.0, -0.0, -0.0, 0.0, 4.0, 0x7F800000, 0x7FC00000]> : tensor<7xf32>
  %v3 = stablehlo.round_nearest_afz %c0 : tensor<7xf32>
  check.expect_eq_const %v3, dense<[-3.0, -1.0, -0.0, 1.0, 4.0, 0x7F800000, 0x7FC00000]> : tensor<7xf32>
  %v4 = stablehlo.abs %c0 : tensor<7xf32>
  check.expect_eq_const %v4, dense<[2.5, 0.5, 0.0, 0.5, 3.5, 0x7F800000, 0x7FC00000]> : tensor<7xf32>
  %v5 = stablehlo.negate %c0 : tensor<7xf32>
  check.expect_eq_const %v5, dense<[2.5, 0.5, 0.0, -0.5, -3.5, 0xFF800000, 0x7FC00000]> : tensor<7xf32>
  %v6 = stablehlo.sign %c0 : tensor<7xf32>
  check.expect_eq_const %v6, dense<[-1.0, -1.0, -0.0, 1.0, 1.0, 1.0, 0x7FC00000]> : tensor<7xf32>
  %v7 = "stablehlo.is_finite"(%c0) : (tensor<7xf32>) -> tensor<7xi1>
  check.expect_eq_const %v7, dense<[true, true, true, true, true, false, false]> : tensor<7xi1>
  func.return
}

// Of two or three floats.
func.func @two_floats() {
  %c0 = stablehlo.constant dense<[7.5, -7.5, 7.5, 1.0, -1.0, 0.0]> : tensor<6xf32>
  %c1 = stablehlo.constant dense<[2.0, 2.0, -2.0, 0.0, 0.0, 0.0]> : tensor<6xf32>
  %v0 = stablehlo.divide %c0, %c1 : tensor<6xf32>
  check.expect_eq_const %v0, dense<[3.75, -3.75, -3.75, 0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<6xf32>
  %v1 = stablehlo.remainder %c0, %c1 : tensor<6xf32>
  check.expect_eq_const %v1, dense<[1.5, -1.5, 1.5, 0x7FC00000, 0x7FC00000, 0x7FC00000]> : tensor<6xf32>
  %c2 = stablehlo.constant dense<[2.0, -2.0, 4.0, 2.0, 0.0, -8.0]> : tensor<6xf32>
  %c3 = stablehlo.constant dense<[10.0, 3.0, 0.5, -1.0, 0.0, 0.5]> : tensor<6xf32>
  %v2 = stablehlo.power %c2, %c3 : tensor<6xf32>
  check.expect_eq_const %v2, dense<[1024.0, -8.0, 2.0, 0.5, 1.0, 0x7FC00000]> : tensor<6xf32>
  %c4 = stablehlo.constant dense<[0.0, -0.0, 1.0, -1.0]> : tensor<4xf32>
  %c5 = stablehlo.constant dense<[1.0, -1.0, 0.0, -1.0]> : tensor<4xf32>
  %v3 = stablehlo.atan2 %c4, %c5 : tensor<4xf32>
  check.expect_eq_const %v3, dense<[0.0, 0xC0490FDB, 0x3FC90FDB, 0xC016CBE4]> : tensor<4xf32>
  %c6 = stablehlo.constant dense<[0.0, 0.0, 0.0, 0.0]> : tensor<4xf32>
  %c7 = stablehlo.constant dense<[-1.0, 0.25, 2.0, 0x7FC00000]> : tensor<4xf32>
  %c8 = stablehlo.constant dense<[1.0, 1.0, 1.0, 1.0]> : tensor<4xf32>
  %v4 = stablehlo.clamp %c6, %c7, %c8 : tensor<4xf32>
  check.expect_eq_const %v4, dense<[0.0, 0.25, 1.0, 0x7FC00000]> : tensor<4xf32>
  func.return
}

// Rounded once, from a value that is better than float32.
func.func @curves() {
  %c0 = stablehlo.constant dense<[0.0, 1.0, -1.0, 0.5, 20.0]> : tensor<5xf32>
  %v0 = stablehlo.exponential %c0 : tensor<5xf32>
  check.expect_eq_const %v0, dense<[0x3F800000, 0x402DF854, 0x3EBC5AB2, 0x3FD3094C, 0x4DE75844]> : tensor<5xf32>
  %v1 = stablehlo.exponential_minus_one %c0 : tensor<5xf32>
  check.expect_eq_const %v1, dense<[0x00000000, 0x3FDBF0A9, 0xBF21D2A7, 0x3F261299, 0x4DE75844]> : tensor<5xf32>
  %v2 = stablehlo.logistic %c0 : tensor<5xf32>
  check.expect_eq_const %v2, dense<[0x3F000000, 0x3F3B26A8, 0x3E89B2B1, 0x3F1F597F, 0x3F800000]> : tensor<5xf32>
  %v3 = stablehlo.sine %c0 : tensor<5xf32>
  check.expect_eq_const %v3, dense<[0x00000000, 0x3F576AA4, 0xBF576AA4, 0x3EF57744, 0x3F69B6C8]> : tensor<5xf32>
  %v4 = stablehlo.cosine %c0 : tensor<5xf32>
  check.expect_eq_const %v4, dense<[0x3F800000, 0x3F0A5140, 0x3F0A5140, 0x3F60A940, 0x3ED0F022]> : tensor<5xf32>
  %v5 = stablehlo.tan %c0 : tensor<5xf32>
  check.expect_eq_const %v5, dense<[0x00000000, 0x3FC75923, 0xBFC75923, 0x3F0BDA7B, 0x400F2DA5]> : tensor<5xf32>
  %v6 = stablehlo.tanh %c0 : tensor<5xf32>
  check.expect_eq_const %v6, dense<[0x00000000, 0x3F42F7D6, 0xBF42F7D6, 0x3EEC9A9F, 0x3F800000]> : tensor<5xf32>
  %c1 = stablehlo.constant dense<[1.0, 4.0, 0.25, 2.0, 10.0]> : tensor<5xf32>
  %v7 = stablehlo.log %c1 : tensor<5xf32>
  check.expect_eq_const %v7, dense<[0x00000000, 0x3FB17218, 0xBFB17218, 0x3F317218, 0x40135D8E]> : tensor<5xf32>
  %v8 = stablehlo.log_plus_one %c1 : tensor<5xf32>
  check.expect_eq_const %v8, dense<[0x3F317218, 0x3FCE0210, 0x3E647FBE, 0x3F8C9F54, 0x4019771E]> : tensor<5xf32>
  %v9 = stablehlo.sqrt %c1 : tensor<5xf32>
  check.expect_eq_const %v9, dense<[0x3F800000, 0x40000000, 0x3F000000, 0x3FB504F3, 0x404A62C2]> : tensor<5xf32>
  %v10 = stablehlo.rsqrt %c1 : tensor<5xf32>
  check.expect_eq_const %v10, dense<[0x3F800000, 0x3F000000, 0x40000000, 0x3F3504F3, 0x3EA1E89B]> : tensor<5xf32>
  %c2 = stablehlo.constant dense<[8.0, -27.0, 0.0, 2.0]> : tensor<4xf32>
  %v11 = stablehlo.cbrt %c2 : tensor<4xf32>
  check.expect_eq_const %v11, dense<[0x40000000, 0xC0400000, 0x00000000, 0x3FA14518]> : tensor<4xf32>
  %c3 = stablehlo.constant dense<[-0.0, -1.0]> : tensor<2xf32>
  %v12 = stablehlo.sqrt %c3 : tensor<2xf32>
  check.expect_eq_const %v12, dense<[-0.0, 0x7FC00000]> : tensor<2xf32>
  %c4 = stablehlo.constant dense<[0.0, -1.0]> : tensor<2xf32>
  %v13 = stablehlo.log %c4 : tensor<2xf32>
  check.expect_eq_const %v13, dense<[0xFF800000, 0x7FC00000]> : tensor<2xf32>
  func.return
}

// Quotients are cut, and what overflows wraps; a divisor of zero gives what XLA gives.
func.func @signed_integers() {
  %c0 = stablehlo.constant dense<[7, -7, 7, -7, -128, 5]> : tensor<6xi8>
  %c1 = stablehlo.constant dense<[2, 2, -2, -2, -1, 0]> : tensor<6xi8>
  %v0 = stablehlo.divide %c0, %c1 : tensor<6xi8>
  check.expect_eq_const %v0, dense<[3, -3, -3, 3, -128, -1]> : tensor<6xi8>
  %v1 = stablehlo.remainder %c0, %c1 : tensor<6xi8>
  check.expect_eq_const %v1, dense<[1, -1, 1, -1, 0, 5]> : tensor<6xi8>
  %c2 = stablehlo.constant dense<[3, -2, 1, -1, 2, 7]> : tensor<6xi8>
  %c3 = stablehlo.constant dense<[4, 3, -5, -3, -1, 0]> : tensor<6xi8>
  %v2 = stablehlo.power %c2, %c3 : tensor<6xi8>
  check.expect_eq_const %v2, dense<[81, -8, 1, -1, 0, 1]> : tensor<6xi8>
  %v3 = stablehlo.abs %c0 : tensor<6xi8>
  check.expect_eq_const %v3, dense<[7, 7, 7, 7, -128, 5]> : tensor<6xi8>
  %v4 = stablehlo.negate %c0 : tensor<6xi8>
  check.expect_eq_const %v4, dense<[-7, 7, -7, 7, -128, -5]> : tensor<6xi8>
  %c4 = stablehlo.constant dense<[7, -7, 0, 1, -128, 5]> : tensor<6xi8>
  %v5 = stablehlo.sign %c4 : tensor<6xi8>
  check.expect_eq_const %v5, dense<[1, -1, 0, 1, -1, 1]> : tensor<6xi8>
  %v6 = stablehlo.not %c0 : tensor<6xi8>
  check.expect_eq_const %v6, dense<[-8, 6, -8, 6, 127, -6]> : tensor<6xi8>
  %v7 = stablehlo.popcnt %c0 : tensor<6xi8>
  check.expect_eq_const %v7, dense<[3, 6, 3, 6, 1, 2]> : tensor<6xi8>
  %c5 = stablehlo.constant dense<[1, -1, 0, 127, -128, 5]> : tensor<6xi8>
  %v8 = stablehlo.count_leading_zeros %c5 : tensor<6xi8>
  check.expect_eq_const %v8, dense<[7, 0, 8, 1, 0, 5]> : tensor<6xi8>
  %c6 = stablehlo.constant dense<[-3, -3, -3, -3, -3, -3]> : tensor<6xi8>
  %c7 = stablehlo.constant dense<[-128, -3, 0, 3, 4, 127]> : tensor<6xi8>
  %c8 = stablehlo.constant dense<[3, 3, 3, 3, 3, 3]> : tensor<6xi8>
  %v9 = stablehlo.clamp %c6, %c7, %c8 : tensor<6xi8>
  check.expect_eq_const %v9, dense<[-3, -3, 0, 3, 3, 3]> : tensor<6xi8>
  func.return
}

// Shifts of as many bits as there are, or more, leave zeros or signs.
func.func @shifts() {
  %c0 = stablehlo.constant dense<[-127, -127, -127, -127, -127, -127]> : tensor<6xi8>
  %c1 = stablehlo.constant dense<[0, 1, 7, 8, -1, 100]> : tensor<6xi8>
  %v0 = stablehlo.shift_left %c0, %c1 : tensor<6xi8>
  check.expect_eq_const %v0, dense<[-127, 2, -128, 0, 0, 0]> : tensor<6xi8>
  %v1 = stablehlo.shift_right_logical %c0, %c1 : tensor<6xi8>
  check.expect_eq_const %v1, dense<[-127, 64, 1, 0, 0, 0]> : tensor<6xi8>
  %v2 = stablehlo.shift_right_arithmetic %c0, %c1 : tensor<6xi8>
  check.expect_eq_const %v2, dense<[-127, -64, -1, -1, -1, -1]> : tensor<6xi8>
  %c2 = stablehlo.constant dense<[129, 129, 129, 129]> : tensor<4xui8>
  %c3 = stablehlo.constant dense<[0, 1, 7, 8]> : tensor<4xui8>
  %v3 = stablehlo.shift_right_arithmetic %c2, %c3 : tensor<4xui8>
  check.expect_eq_const %v3, dense<[129, 192, 255, 255]> : tensor<4xui8>
  func.return
}

// Large numbers are not negative ones.
func.func @unsigned_integers() {
  %c0 = stablehlo.constant dense<[200, 255, 7, 0]> : tensor<4xui8>
  %c1 = stablehlo.constant dense<[7, 0, 200, 1]> : tensor<4xui8>
  %v0 = stablehlo.divide %c0, %c1 : tensor<4xui8>
  check.expect_eq_const %v0, dense<[28, 255, 0, 0]> : tensor<4xui8>
  %v1 = stablehlo.remainder %c0, %c1 : tensor<4xui8>
  check.expect_eq_const %v1, dense<[4, 255, 7, 0]> : tensor<4xui8>
  %v2 = stablehlo.maximum %c0, %c1 : tensor<4xui8>
  check.expect_eq_const %v2, dense<[200, 255, 200, 1]> : tensor<4xui8>
  %v3 = stablehlo.minimum %c0, %c1 : tensor<4xui8>
  check.expect_eq_const %v3, dense<[7, 0, 7, 0]> : tensor<4xui8>
  %c2 = stablehlo.constant dense<[3, 2, 255, 0]> : tensor<4xui8>
  %c3 = stablehlo.constant dense<[5, 8, 3, 0]> : tensor<4xui8>
  %v4 = stablehlo.power %c2, %c3 : tensor<4xui8>
  check.expect_eq_const %v4, dense<[243, 0, 255, 1]> : tensor<4xui8>
  %v5 = stablehlo.popcnt %c0 : tensor<4xui8>
  check.expect_eq_const %v5, dense<[3, 8, 3, 0]> : tensor<4xui8>
  %v6 = stablehlo.count_leading_zeros %c0 : tensor<4xui8>
  check.expect_eq_const %v6, dense<[0, 0, 5, 8]> : tensor<4xui8>
  %v7 = "stablehlo.compare"(%c0, %c1) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  check.expect_eq_const %v7, dense<[true, true, false, false]> : tensor<4xi1>
  func.return
}

// Logic.
func.func @truths() {
  %c0 = stablehlo.constant dense<[false, false, true, true]> : tensor<4xi1>
  %c1 = stablehlo.constant dense<[false, true, false, true]> : tensor<4xi1>
  %v0 = stablehlo.and %c0, %c1 : tensor<4xi1>
  check.expect_eq_const %v0, dense<[false, false, false, true]> : tensor<4xi1>
  %v1 = stablehlo.or %c0, %c1 : tensor<4xi1>
  check.expect_eq_const %v1, dense<[false, true, true, true]> : tensor<4xi1>
  %v2 = stablehlo.xor %c0, %c1 : tensor<4xi1>
  check.expect_eq_const %v2, dense<[false, true, true, false]> : tensor<4xi1>
  %v3 = stablehlo.not %c0 : tensor<4xi1>
  check.expect_eq_const %v3, dense<[true, true, false, false]> : tensor<4xi1>
  %v4 = stablehlo.maximum %c0, %c1 : tensor<4xi1>
  check.expect_eq_const %v4, dense<[false, true, true, true]> : tensor<4xi1>
  %v5 = stablehlo.minimum %c0, %c1 : tensor<4xi1>
  check.expect_eq_const %v5, dense<[false, false, false, true]> : tensor<4xi1>
  %c2 = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %c3 = stablehlo.constant dense<[5, 6, 7, 8]> : tensor<4xi32>
  %v6 = "stablehlo.select"(%c1, %c2, %c3) : (tensor<4xi1>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  check.expect_eq_const %v6, dense<[5, 2, 7, 4]> : tensor<4xi32>
  func.return
}

// NaN is unordered, zeros are equal; but not in the total order.
func.func @comparisons() {
  %c0 = stablehlo.constant dense<[1.0, 2.0, 0x7FC00000, -0.0, 0xFF800000]> : tensor<5xf32>
  %c1 = stablehlo.constant dense<[2.0, 2.0, 1.0, 0.0, 1.0]> : tensor<5xf32>
  %v0 = "stablehlo.compare"(%c0, %c1) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v0, dense<[false, true, false, true, false]> : tensor<5xi1>
  %v1 = "stablehlo.compare"(%c0, %c1) {comparison_direction = #stablehlo<comparison_direction NE>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v1, dense<[true, false, true, false, true]> : tensor<5xi1>
  %v2 = "stablehlo.compare"(%c0, %c1) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v2, dense<[true, false, false, false, true]> : tensor<5xi1>
  %v3 = "stablehlo.compare"(%c0, %c1) {comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v3, dense<[true, true, false, true, true]> : tensor<5xi1>
  %v4 = "stablehlo.compare"(%c0, %c1) {comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v4, dense<[false, false, false, false, false]> : tensor<5xi1>
  %v5 = "stablehlo.compare"(%c0, %c1) {comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v5, dense<[false, true, false, true, false]> : tensor<5xi1>
  %v6 = "stablehlo.compare"(%c0, %c1) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v6, dense<[true, false, false, true, true]> : tensor<5xi1>
  %v7 = "stablehlo.compare"(%c0, %c1) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction GT>} : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %v7, dense<[false, false, true, false, false]> : tensor<5xi1>
  %c2 = stablehlo.constant dense<[0xFFC00000, -0.0]> : tensor<2xf32>
  %c3 = stablehlo.constant dense<[0xFF800000, -0.0]> : tensor<2xf32>
  %v8 = "stablehlo.compare"(%c2, %c3) {compare_type = #stablehlo<comparison_type TOTALORDER>, comparison_direction = #stablehlo<comparison_direction LE>} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  check.expect_eq_const %v8, dense<[true, true]> : tensor<2xi1>
  %c4 = stablehlo.constant dense<[-1, 1]> : tensor<2xi8>
  %c5 = stablehlo.constant dense<[1, -1]> : tensor<2xi8>
  %v9 = "stablehlo.compare"(%c4, %c5) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi1>
  check.expect_eq_const %v9, dense<[true, false]> : tensor<2xi1>
  func.return
}

// Halves, and arithmetic of both together.
func.func @complex_numbers() {
  %c0 = stablehlo.constant dense<[(1.0, 2.0), (0.0, -1.0)]> : tensor<2xcomplex<f32>>
  %v0 = "stablehlo.real"(%c0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq_const %v0, dense<[1.0, 0.0]> : tensor<2xf32>
  %v1 = "stablehlo.imag"(%c0) : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq_const %v1, dense<[2.0, -1.0]> : tensor<2xf32>
  %c1 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c2 = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %v2 = "stablehlo.complex"(%c1, %c2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
  check.expect_eq_const %v2, dense<[(1.0, 3.0), (2.0, 4.0)]> : tensor<2xcomplex<f32>>
  %c3 = stablehlo.constant dense<[(3.0, -1.0), (2.0, 0.0)]> : tensor<2xcomplex<f32>>
  %v3 = stablehlo.add %c0, %c3 : tensor<2xcomplex<f32>>
  check.expect_eq_const %v3, dense<[(4.0, 1.0), (2.0, -1.0)]> : tensor<2xcomplex<f32>>
  %v4 = stablehlo.subtract %c0, %c3 : tensor<2xcomplex<f32>>
  check.expect_eq_const %v4, dense<[(-2.0, 3.0), (-2.0, -1.0)]> : tensor<2xcomplex<f32>>
  %v5 = stablehlo.multiply %c0, %c3 : tensor<2xcomplex<f32>>
  check.expect_eq_const %v5, dense<[(5.0, 5.0), (0.0, -2.0)]> : tensor<2xcomplex<f32>>
  %c4 = stablehlo.constant dense<[(5.0, 5.0), (4.0, -2.0)]> : tensor<2xcomplex<f32>>
  %v6 = stablehlo.divide %c4, %c3 : tensor<2xcomplex<f32>>
  check.expect_eq_const %v6, dense<[(1.0, 2.0), (2.0, -1.0)]> : tensor<2xcomplex<f32>>
  %v7 = stablehlo.negate %c0 : tensor<2xcomplex<f32>>
  check.expect_eq_const %v7, dense<[(-1.0, -2.0), (-0.0, 1.0)]> : tensor<2xcomplex<f32>>
  %c5 = stablehlo.constant dense<[(1.0, 2.0), (0.0, 5.0)]> : tensor<2xcomplex<f32>>
  %c6 = stablehlo.constant dense<[(1.0, 3.0), (1.0, 0.0)]> : tensor<2xcomplex<f32>>
  %v8 = stablehlo.maximum %c5, %c6 : tensor<2xcomplex<f32>>
  check.expect_eq_const %v8, dense<[(1.0, 3.0), (1.0, 0.0)]> : tensor<2xcomplex<f32>>
  %c7 = stablehlo.constant dense<[(1.0, 2.0), (1.0, -1.0)]> : tensor<2xcomplex<f32>>
  %v9 = "stablehlo.compare"(%c0, %c7) {comparison_direction = #stablehlo<comparison_direction EQ>} : (tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>) -> tensor<2xi1>
  check.expect_eq_const %v9, dense<[true, false]> : tensor<2xi1>
  func.return
}

// Numbers of other types: floats are cut, narrower integers wrap, one rounding.
func.func @conversions() {
  %c0 = stablehlo.constant dense<[2.75, -2.75, -0.0]> : tensor<3xf32>
  %v0 = "stablehlo.convert"(%c0) : (tensor<3xf32>) -> tensor<3xi32>
  check.expect_eq_const %v0, dense<[2, -2, 0]> : tensor<3xi32>
  %c1 = stablehlo.constant dense<[16777217, -3, 300]> : tensor<3xi32>
  %v1 = "stablehlo.convert"(%c1) : (tensor<3xi32>) -> tensor<3xf32>
  check.expect_eq_const %v1, dense<[16777216.0, -3.0, 300.0]> : tensor<3xf32>
  %c2 = stablehlo.constant dense<[300, -1, -300]> : tensor<3xi32>
  %v2 = "stablehlo.convert"(%c2) : (tensor<3xi32>) -> tensor<3xi8>
  check.expect_eq_const %v2, dense<[44, -1, -44]> : tensor<3xi8>
  %c3 = stablehlo.constant dense<[-1, 127, 0]> : tensor<3xi8>
  %v3 = "stablehlo.convert"(%c3) : (tensor<3xi8>) -> tensor<3xui16>
  check.expect_eq_const %v3, dense<[65535, 127, 0]> : tensor<3xui16>
  %c4 = stablehlo.constant dense<[0.5, 0.0, 0x7FC00000]> : tensor<3xf32>
  %v4 = "stablehlo.convert"(%c4) : (tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %v4, dense<[true, false, true]> : tensor<3xi1>
  %c5 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %v5 = "stablehlo.convert"(%c5) : (tensor<2xi1>) -> tensor<2xf32>
  check.expect_eq_const %v5, dense<[1.0, 0.0]> : tensor<2xf32>
  %c6 = stablehlo.constant dense<[1.00390625, 1.01171875, 3.0e38]> : tensor<3xf32>
  %v6 = "stablehlo.convert"(%c6) : (tensor<3xf32>) -> tensor<3xbf16>
  check.expect_eq_const %v6, dense<[1.0, 1.015625, 0x7F62]> : tensor<3xbf16>
  %c7 = stablehlo.constant dense<[1.0, 0.1]> : tensor<2xf64>
  %v7 = "stablehlo.convert"(%c7) : (tensor<2xf64>) -> tensor<2xf32>
  check.expect_eq_const %v7, dense<[1.0, 0x3DCCCCCD]> : tensor<2xf32>
  %c8 = stablehlo.constant dense<[1.5, -2.0]> : tensor<2xf32>
  %v8 = "stablehlo.convert"(%c8) : (tensor<2xf32>) -> tensor<2xcomplex<f32>>
  check.expect_eq_const %v8, dense<[(1.5, 0.0), (-2.0, 0.0)]> : tensor<2xcomplex<f32>>
  func.return
}
