// The kernel ABI, on the side that generates code.
//
// A kernel is   void symbol(void *const *buffers, const int64_t *params, int64_t begin, int64_t end)
// (see Kernel and Launch in Plan.proto). KernelFunction makes a module with that entry point and a body
// function whose arguments are the buffers themselves, so that LLVM knows that they do not alias. Generators
// emit into the body.
#ifndef COLOSSAL_CODEGEN_CPU_KERNELFUNCTION_H
#define COLOSSAL_CODEGEN_CPU_KERNELFUNCTION_H

#include "colossal/Codegen/Kernel/Team.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace colossal::cpu {

using kernel::BufferSpec;
using kernel::GeneratedKernel;

/// A kernel being generated: a module that holds nothing else. Its symbol is given by the KernelCompiler.
class KernelFunction final : public kernel::Frame {
public:
  /// Symbol of the entry point in the module until the KernelCompiler names it.
  static constexpr llvm::StringLiteral entryName = "kernel";

  /// Loads the dialects that generators use into `context`.
  static void loadDialects(mlir::MLIRContext &context);

  /// Opens a kernel over `buffers` (inputs, then outputs) with `params` runtime integers. `scratchBytes` != 0
  /// adds the per-thread scratch (64-byte aligned) as the last buffer.
  KernelFunction(mlir::MLIRContext &context, llvm::ArrayRef<BufferSpec> buffers, unsigned params = 0,
                 int64_t scratchBytes = 0);

  /// The body's return stands after it.
  mlir::OpBuilder &builder() override { return bodyBuilder; }
  mlir::Location loc() const override { return location; }

  unsigned bufferCount() const { return specs.size(); }
  const BufferSpec &spec(unsigned buffer) const { return specs[buffer]; }
  /// The buffer's address, !llvm.ptr.
  mlir::Value pointer(unsigned buffer) const override;
  /// The buffer as a memref of its shape and strides (strided layout, offset 0), for emitters that use memref
  /// and vector.transfer ops. Built at the body's start on first use.
  mlir::Value memref(unsigned buffer);
  /// Runtime parameter, i64.
  mlir::Value param(unsigned index) const override;
  /// The thread's scratch.
  mlir::Value scratch() const override;
  int64_t scratchBytes() const { return scratchSize; }
  unsigned paramCount() const { return params; }
  /// The first tile and the end of the range of tiles to compute, i64.
  mlir::Value begin() const;
  mlir::Value end() const;
  void forEachTile(llvm::function_ref<void(mlir::Value tile)> body) override;
  /// A tile is one thread's.
  mlir::Value member() override;
  mlir::Value combine(mlir::Value partial,
                      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> merge) override;

  mlir::ModuleOp module() { return *owned; }
  mlir::OwningOpRef<mlir::ModuleOp> take() override { return std::move(owned); }

private:
  mlir::OwningOpRef<mlir::ModuleOp> owned;
  mlir::func::FuncOp body;
  mlir::OpBuilder bodyBuilder;
  mlir::Location location;
  llvm::SmallVector<BufferSpec> specs;
  llvm::SmallVector<mlir::Value> views;
  unsigned params;
  int64_t scratchSize;
};

} // namespace colossal::cpu

#endif // COLOSSAL_CODEGEN_CPU_KERNELFUNCTION_H
