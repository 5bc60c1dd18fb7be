// What the instructions of a processor do by themselves, as far as the code of kernels depends on it. What
// they lack is emitted from others.
#ifndef COLOSSAL_CODEGEN_KERNEL_INSTRUCTIONS_H
#define COLOSSAL_CODEGEN_KERNEL_INSTRUCTIONS_H

namespace colossal::kernel {

struct Instructions {
  bool fma = false;              ///< x y + z rounded once, of f32 and f64
  bool halfConversions = false;  ///< between f16 and f32
  bool bfloatConversion = false; ///< f32 to bf16, to nearest even
};

} // namespace colossal::kernel

#endif // COLOSSAL_CODEGEN_KERNEL_INSTRUCTIONS_H
