// Ops of StableHLO that JAX rarely or never prints, blocks and declarations; JAX's MLIR reads and prints them.
func.func @main(%a: tensor<3xf32>, %i: tensor<i32>, %t: !stablehlo.token, %p: tensor<i1>, %m: tensor<3x3xf32>, %z: tensor<?xf32>, %l: tensor<3xi64>) -> tensor<1xf32> {
  %0 = "stablehlo.tuple"(%a, %i) : (tensor<3xf32>, tensor<i32>) -> tuple<tensor<3xf32>, tensor<i32>>
  %1 = "stablehlo.get_tuple_element"(%0) {index = 0 : i32} : (tuple<tensor<3xf32>, tensor<i32>>) -> tensor<3xf32>
  %2 = "stablehlo.create_token"() : () -> !stablehlo.token
  %3 = "stablehlo.after_all"(%2, %t) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
  %4 = "stablehlo.partition_id"() : () -> tensor<ui32>
  %5 = "stablehlo.replica_id"() : () -> tensor<ui32>
  %6 = "stablehlo.custom_call"(%a) {call_target_name = "x", has_side_effect = true, api_version = 1 : i32, called_computations = [@f]} : (tensor<3xf32>) -> tuple<tensor<3xf32>, tensor<i32>>
  "stablehlo.custom_call"() {call_target_name = "y z"} : () -> ()
  %7:2 = "stablehlo.infeed"(%t) {infeed_config = "q"} : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
  %8 = "stablehlo.outfeed"(%a, %t) {outfeed_config = ""} : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
  %9 = "stablehlo.if"(%p) ({ %x = "stablehlo.dynamic_slice"(%a, %i) {slice_sizes = array<i64: 1>} : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
    "stablehlo.return"(%x) : (tensor<1xf32>) -> () }, { %x = "stablehlo.dynamic_slice"(%a, %i) {slice_sizes = array<i64: 1>} : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
    "stablehlo.return"(%x) : (tensor<1xf32>) -> () }) : (tensor<i1>) -> tensor<1xf32>
  %10 = "stablehlo.map"(%a, %a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %s = stablehlo.add %x, %y : tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> () }) {dimensions = array<i64: 0>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %11 = "stablehlo.composite"(%a) {name = "my.op", composite_attributes = {n = 1 : i64, s = "}"}, decomposition = @f, version = 3 : i32} : (tensor<3xf32>) -> tensor<3xf32>
  %13 = "stablehlo.triangular_solve"(%m, %m) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %14 = "stablehlo.cholesky"(%m) {lower = true} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %15 = "stablehlo.set_dimension_size"(%a, %i) {dimension = 0 : i64} : (tensor<3xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<3>>
  %16 = "stablehlo.fft"(%a) {fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 3>} : (tensor<3xf32>) -> tensor<2xcomplex<f32>>
  %17 = "stablehlo.batch_norm_inference"(%m, %a, %a, %a, %a) {epsilon = 1.0e-3 : f32, feature_index = 0 : i64} : (tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  %18 = "stablehlo.rng"(%i, %i, %l) {rng_distribution = #stablehlo<rng_distribution UNIFORM>} : (tensor<i32>, tensor<i32>, tensor<3xi64>) -> tensor<?x?x?xi32>
  %19 = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>} : (tensor<3xf32>) -> tensor<3xf32>
  %20 = "stablehlo.reduce_precision"(%a) {exponent_bits = 5 : i32, mantissa_bits = 2 : i32} : (tensor<3xf32>) -> tensor<3xf32>
  %21 = "stablehlo.optimization_barrier"(%a) : (tensor<3xf32>) -> tensor<3xf32>
  %22:3 = "stablehlo.optimization_barrier"(%a, %i, %m) : (tensor<3xf32>, tensor<i32>, tensor<3x3xf32>) -> (tensor<3xf32>, tensor<i32>, tensor<3x3xf32>)
  %23 = "stablehlo.dynamic_slice"(%22#0, %22#1) {slice_sizes = array<i64: 1>} : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
  %cc = stablehlo.constant dense<0.0> : tensor<f32>
  %24 = "stablehlo.reduce"(%a, %cc) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %s = stablehlo.add %x, %y : tensor<f32>
    %u = stablehlo.add %s, %y : tensor<f32>
    "stablehlo.return"(%u) : (tensor<f32>) -> () }) {dimensions = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  %pp = arith.constant true
  cf.cond_br %pp, ^b1(%23 : tensor<1xf32>), ^b2
^b1(%w: tensor<1xf32>):
  %25 = "stablehlo.dynamic_slice"(%11, %i) {slice_sizes = array<i64: 1>} : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
  return %w : tensor<1xf32>
^b2:
  %26 = "stablehlo.dynamic_slice"(%10, %i) {slice_sizes = array<i64: 1>} : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
  cf.br ^b1(%26 : tensor<1xf32>)
}
func.func private @f(tensor<3xf32>) -> tensor<3xf32>
func.func private @g(%a: tensor<3xf32> {a.b = "c"}) -> (tensor<3xf32> {a.b = [1]}) attributes {x.y}
