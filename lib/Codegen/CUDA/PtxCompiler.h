// From kernel modules to a text of PTX for each chip, and to cubins where an assembler is.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_PTXCOMPILER_H
#define COLOSSAL_LIB_CODEGEN_CUDA_PTXCOMPILER_H

#include "Chip.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <vector>

namespace colossal::nvidia {

/// PTX of one kernel, without the lines that open a text. The module is consumed: its dialects are those of
/// loadKernelDialects, its entry point is entryName.
llvm::Expected<std::string> compileKernel(mlir::ModuleOp module, const Chip &chip, llvm::StringRef symbol);

/// The lines that open a text for `chip`.
std::string ptxHeader(const Chip &chip);

/// The cubin of a text; nothing where no ptxas is found (Toolkit.h). Fails where it refuses the text.
llvm::Expected<std::string> assemble(llvm::StringRef ptx, const Chip &chip);

/// Kernels on their way to the texts. Compiled by worker threads while the caller goes on generating; the key
/// of a kernel is the content of its module.
class PtxCompiler {
public:
  /// `threads` 0 compiles on the caller's thread.
  PtxCompiler(std::vector<Chip> chips, unsigned threads);
  ~PtxCompiler();
  std::string add(mlir::ModuleOp module, llvm::StringRef name);
  /// For each chip the text of all kernels, by symbol; empty if there are none. Errors of all come joined.
  llvm::Expected<std::vector<std::string>> finish();
  size_t kernels() const;

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_PTXCOMPILER_H
