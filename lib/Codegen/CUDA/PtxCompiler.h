// From kernel modules to one text of PTX, and to a cubin where an assembler is.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_PTXCOMPILER_H
#define COLOSSAL_LIB_CODEGEN_CUDA_PTXCOMPILER_H

#include "Chip.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>

namespace colossal::nvidia {

/// PTX of one kernel, without the lines that open a text. The module is consumed: its dialects are those of
/// loadKernelDialects, its entry point is entryName.
llvm::Expected<std::string> compileKernel(mlir::ModuleOp module, const Chip &chip, llvm::StringRef symbol);

/// The lines that open a text for `chip`.
std::string ptxHeader(const Chip &chip);

/// The cubin of a text; nothing where no ptxas is found (in the path, or of a toolkit in /usr/local/cuda).
/// Fails where it refuses the text.
llvm::Expected<std::string> assemble(llvm::StringRef ptx, const Chip &chip);

/// Kernels on their way to one text. Compiled by worker threads while the caller goes on generating; the key
/// of a kernel is the content of its module.
class PtxCompiler {
public:
  /// `threads` 0 compiles on the caller's thread.
  PtxCompiler(Chip chip, unsigned threads);
  ~PtxCompiler();
  std::string add(mlir::ModuleOp module, llvm::StringRef name);
  /// The text of all kernels, by symbol; empty if there are none. Errors of all come joined.
  llvm::Expected<std::string> finish();
  size_t kernels() const;

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_PTXCOMPILER_H
