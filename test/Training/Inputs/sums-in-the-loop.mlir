// Rows that are centred by the mean of all.
module attributes {dist.mesh = #dist.mesh<["microbatch" = 4 loop]>, colossal.training = {}} {
  func.func @step(%x: tensor<16x16xf32> {colossal.name = "x", colossal.batch = 0 : i64}) -> (tensor<16x16xf32> {colossal.name = "y"}) {
    %s = colossal.reduce sum %x over [0] {keepdims = true} : tensor<16x16xf32> -> tensor<1x16xf32>
    %y = colossal.elementwise sub(%x, %s) : (tensor<16x16xf32>, tensor<1x16xf32>) -> tensor<16x16xf32>
    return %y : tensor<16x16xf32>
  }
}
