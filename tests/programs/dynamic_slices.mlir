// Slices and updates whose starts are clamped.  The numbers follow from the specification of dynamic_slice and
// dynamic_update_slice: a start is moved to the nearest one with which the window is inside.

func.func @slices() {
  %a = stablehlo.constant dense<[10, 11, 12, 13, 14]> : tensor<5xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %below = stablehlo.constant dense<-7> : tensor<i32>
  %beyond = stablehlo.constant dense<4> : tensor<i32>
  %most = stablehlo.constant dense<2147483647> : tensor<i32>
  %least = stablehlo.constant dense<-2147483648> : tensor<i32>
  %0 = stablehlo.dynamic_slice %a, %two, sizes = [2] : (tensor<5xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %0, dense<[12, 13]> : tensor<2xi32>
  %1 = stablehlo.dynamic_slice %a, %below, sizes = [2] : (tensor<5xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %1, dense<[10, 11]> : tensor<2xi32>
  %2 = stablehlo.dynamic_slice %a, %beyond, sizes = [2] : (tensor<5xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %2, dense<[13, 14]> : tensor<2xi32>
  %3 = stablehlo.dynamic_slice %a, %most, sizes = [2] : (tensor<5xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %3, dense<[13, 14]> : tensor<2xi32>
  %4 = stablehlo.dynamic_slice %a, %least, sizes = [1] : (tensor<5xi32>, tensor<i32>) -> tensor<1xi32>
  check.expect_eq_const %4, dense<[10]> : tensor<1xi32>
  %5 = "stablehlo.dynamic_slice"(%a, %most) <{slice_sizes = array<i64: 5>}> : (tensor<5xi32>, tensor<i32>) -> tensor<5xi32>
  check.expect_eq %5, %a : tensor<5xi32>, tensor<5xi32>
  %6 = stablehlo.dynamic_slice %a, %two, sizes = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<0xi32>
  check.expect_eq_const %6, dense<> : tensor<0xi32>
  %7 = stablehlo.dynamic_slice %two, sizes = [] : (tensor<i32>) -> tensor<i32>
  check.expect_eq_const %7, dense<2> : tensor<i32>
  func.return
}

// -----

// The window does not move along axis 1, whatever its start; starts of other types.
func.func @matrix() {
  %a = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]> : tensor<3x3xbf16>
  %x = stablehlo.constant dense<200> : tensor<ui8>
  %y = stablehlo.constant dense<1> : tensor<ui8>
  %0 = stablehlo.dynamic_slice %a, %y, %x, sizes = [1, 3] : (tensor<3x3xbf16>, tensor<ui8>, tensor<ui8>) -> tensor<1x3xbf16>
  check.expect_eq_const %0, dense<[[4.0, 5.0, 6.0]]> : tensor<1x3xbf16>
  %1 = stablehlo.dynamic_slice %a, %x, %y, sizes = [2, 2] : (tensor<3x3xbf16>, tensor<ui8>, tensor<ui8>) -> tensor<2x2xbf16>
  check.expect_eq_const %1, dense<[[5.0, 6.0], [8.0, 9.0]]> : tensor<2x2xbf16>
  %m = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
  %n = stablehlo.constant dense<0> : tensor<ui64>
  %2 = stablehlo.dynamic_slice %a, %m, %n, sizes = [2, 1] : (tensor<3x3xbf16>, tensor<ui64>, tensor<ui64>) -> tensor<2x1xbf16>
  check.expect_eq_const %2, dense<[[4.0], [7.0]]> : tensor<2x1xbf16>
  func.return
}

// -----

func.func @updates() {
  %a = stablehlo.constant dense<[10, 11, 12, 13, 14]> : tensor<5xi8>
  %u = stablehlo.constant dense<[1, 2]> : tensor<2xi8>
  %two = stablehlo.constant dense<2> : tensor<i64>
  %below = stablehlo.constant dense<-1> : tensor<i64>
  %beyond = stablehlo.constant dense<4> : tensor<i64>
  %0 = stablehlo.dynamic_update_slice %a, %u, %two : (tensor<5xi8>, tensor<2xi8>, tensor<i64>) -> tensor<5xi8>
  check.expect_eq_const %0, dense<[10, 11, 1, 2, 14]> : tensor<5xi8>
  %1 = stablehlo.dynamic_update_slice %a, %u, %below : (tensor<5xi8>, tensor<2xi8>, tensor<i64>) -> tensor<5xi8>
  check.expect_eq_const %1, dense<[1, 2, 12, 13, 14]> : tensor<5xi8>
  %2 = "stablehlo.dynamic_update_slice"(%a, %u, %beyond) : (tensor<5xi8>, tensor<2xi8>, tensor<i64>) -> tensor<5xi8>
  check.expect_eq_const %2, dense<[10, 11, 12, 1, 2]> : tensor<5xi8>
  check.expect_eq_const %a, dense<[10, 11, 12, 13, 14]> : tensor<5xi8>
  %3 = stablehlo.dynamic_update_slice %0, %a, %beyond : (tensor<5xi8>, tensor<5xi8>, tensor<i64>) -> tensor<5xi8>
  check.expect_eq %3, %a : tensor<5xi8>, tensor<5xi8>
  %s = stablehlo.constant dense<7> : tensor<i8>
  %t = stablehlo.constant dense<8> : tensor<i8>
  %4 = stablehlo.dynamic_update_slice %s, %t : (tensor<i8>, tensor<i8>) -> tensor<i8>
  check.expect_eq_const %4, dense<8> : tensor<i8>
  %e = stablehlo.constant dense<> : tensor<0xi8>
  %5 = stablehlo.dynamic_update_slice %a, %e, %two : (tensor<5xi8>, tensor<0xi8>, tensor<i64>) -> tensor<5xi8>
  check.expect_eq %5, %a : tensor<5xi8>, tensor<5xi8>
  func.return
}

// -----

// A row of a cache: the last one, for any position from 2 on.
func.func @cache() {
  %cache = stablehlo.constant dense<0.0> : tensor<1x3x2xf32>
  %row = stablehlo.constant dense<[[[1.5, -2.0]]]> : tensor<1x1x2xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %at = stablehlo.constant dense<9> : tensor<i32>
  %0 = stablehlo.dynamic_update_slice %cache, %row, %zero, %at, %at : (tensor<1x3x2xf32>, tensor<1x1x2xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x2xf32>
  check.expect_eq_const %0, dense<[[[0.0, 0.0], [0.0, 0.0], [1.5, -2.0]]]> : tensor<1x3x2xf32>
  func.return
}

// -----

// Constants of i1 as bits, and as bytes.
func.func @masks() {
  %0 = stablehlo.constant dense<"0x0502"> : tensor<10xi1>
  check.expect_eq_const %0, dense<[true, false, true, false, false, false, false, false, false, true]> : tensor<10xi1>
  %1 = stablehlo.constant dense<"0x010001"> : tensor<3xi1>
  check.expect_eq_const %1, dense<[true, false, true]> : tensor<3xi1>
  %2 = stablehlo.constant dense<"0xFF"> : tensor<9xi1>
  check.expect_eq_const %2, dense<true> : tensor<9xi1>
  func.return
}
