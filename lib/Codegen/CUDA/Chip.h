// A generation of GPUs as its code is made.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_CHIP_H
#define COLOSSAL_LIB_CODEGEN_CUDA_CHIP_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace colossal::nvidia {

struct Chip {
  std::string name;    ///< "sm_90"
  std::string feature; ///< LLVM's name of the oldest PTX that knows it: "+ptx80"

  static llvm::Expected<Chip> create(llvm::StringRef name);
  /// All that are known, the oldest first.
  static std::vector<Chip> all();
};

constexpr llvm::StringLiteral triple = "nvptx64-nvidia-cuda";

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_CHIP_H
