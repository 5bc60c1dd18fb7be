// From kernel modules to one ELF shared object.
//
// Kernels are compiled by worker threads while the caller goes on generating. The key of a kernel is the
// content of its module, so equal kernels are compiled once, and the symbol is a function of the content: the
// same kernels give the same bytes in whatever order and on however many threads they were compiled.
#ifndef COLOSSAL_CODEGEN_CPU_KERNELCOMPILER_H
#define COLOSSAL_CODEGEN_CPU_KERNELCOMPILER_H

#include "colossal/Codegen/CPU/Processor.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <optional>

namespace colossal::cpu {

/// A compiled kernel: an ELF relocatable object.
struct KernelObject {
  std::string symbol;
  std::string object;
};

/// Compiles one module, whose entry point is KernelFunction::entryName, in place of the caller's thread. The
/// module is consumed: its dialects are arith, math, vector, scf, cf, memref, affine, func, ub and llvm.
llvm::Expected<KernelObject> compileKernel(mlir::ModuleOp module, const Processor &processor,
                                           llvm::StringRef symbol);

/// Links objects, in their order, into an ELF shared object. Undefined symbols may be functions of libm and
/// libc only; others are an error that names them.
llvm::Expected<std::string> linkKernels(llvm::ArrayRef<KernelObject> objects);

class KernelCompiler {
public:
  struct Statistics {
    unsigned added = 0;    // kernels given
    unsigned compiled = 0; // distinct ones
    double seconds = 0;    // of compilation, summed over the workers
  };

  /// `threads` 0 compiles on the caller's thread.
  explicit KernelCompiler(Processor processor, unsigned threads = 2);
  ~KernelCompiler();

  /// Queues a kernel and returns its symbol: `name`, with what is no letter or digit replaced, and a digest
  /// of the content. A kernel equal to an earlier one gets that one's symbol. The module is not changed.
  std::string add(mlir::ModuleOp module, llvm::StringRef name);

  /// As codegen::ImageBuilder has them: with threads of its own, it compiles ahead.
  bool compilesAhead() const;
  std::string addAhead(mlir::ModuleOp module, llvm::StringRef name);
  std::optional<std::string> addAgain(llvm::StringRef mark, llvm::StringRef name);

  /// Waits for all kernels and links them, sorted by symbol. Errors of all kernels come joined, each with its
  /// symbol.
  llvm::Expected<std::string> finish();

  const Processor &processor() const;
  Statistics statistics() const;

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation;
};

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_KERNELCOMPILER_H
