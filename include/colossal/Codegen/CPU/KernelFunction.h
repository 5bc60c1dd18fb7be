// The kernel ABI, on the side that generates code.
//
// A kernel is   void symbol(void *const *buffers, const int64_t *params, int64_t begin, int64_t end)
// (see Kernel and Launch in Plan.proto). KernelFunction makes a module with that entry point and a body
// function whose arguments are the buffers themselves, so that LLVM knows that they do not alias. Generators
// emit into the body.
#ifndef COLOSSAL_CODEGEN_CPU_KERNELFUNCTION_H
#define COLOSSAL_CODEGEN_CPU_KERNELFUNCTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace colossal::cpu {

/// One buffer of a kernel, seen as a strided array. Strides are of elements and may be 0 or negative; a
/// buffer whose strides are empty is dense and row-major.
struct BufferSpec {
  mlir::Type element; // a bool is i8
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<int64_t> strides;
  /// False where the buffer plan may give it memory that another buffer of the launch also has (in place).
  bool noalias = true;
};

/// A kernel being generated: a module that holds nothing else. Its symbol is given by the KernelCompiler.
class KernelFunction {
public:
  /// Symbol of the entry point in the module until the KernelCompiler names it.
  static constexpr llvm::StringLiteral entryName = "kernel";

  /// Loads the dialects that generators use into `context`.
  static void loadDialects(mlir::MLIRContext &context);

  /// Opens a kernel over `buffers` (inputs, then outputs) with `params` runtime integers. `scratchBytes` != 0
  /// adds the per-thread scratch (64-byte aligned) as the last buffer.
  KernelFunction(mlir::MLIRContext &context, llvm::ArrayRef<BufferSpec> buffers, unsigned params = 0,
                 int64_t scratchBytes = 0);

  /// Where the body is to be emitted; the body's return stands after it.
  mlir::OpBuilder &builder() { return bodyBuilder; }
  mlir::Location loc() const { return location; }

  unsigned bufferCount() const { return specs.size(); }
  const BufferSpec &spec(unsigned buffer) const { return specs[buffer]; }
  /// The buffer's address, !llvm.ptr.
  mlir::Value pointer(unsigned buffer) const;
  /// The buffer as a memref of its shape and strides (strided layout, offset 0), for emitters that use memref
  /// and vector.transfer ops. Built at the body's start on first use.
  mlir::Value memref(unsigned buffer);
  /// Runtime parameter, i64.
  mlir::Value param(unsigned index) const;
  /// The scratch's address, !llvm.ptr.
  mlir::Value scratch() const;
  int64_t scratchBytes() const { return scratchSize; }
  unsigned paramCount() const { return params; }
  /// The first tile and the end of the range of tiles to compute, i64.
  mlir::Value begin() const;
  mlir::Value end() const;

  mlir::ModuleOp module() { return *owned; }
  /// Hands the finished kernel over.
  mlir::OwningOpRef<mlir::ModuleOp> take() { return std::move(owned); }

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

/// What a generator returns: the module and what a Launch states about it.
struct GeneratedKernel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t tiles = 1;
  int64_t scratchBytes = 0;
  unsigned buffers = 0; // without the scratch
  unsigned params = 0;
};

} // namespace colossal::cpu

#endif
