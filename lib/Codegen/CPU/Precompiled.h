// Headers of MLIR and LLVM that every file of this library needs; precompiled, since parsing them is most of
// a build.
#ifndef COLOSSAL_CODEGEN_CPU_PRECOMPILED_H
#define COLOSSAL_CODEGEN_CPU_PRECOMPILED_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#endif // COLOSSAL_CODEGEN_CPU_PRECOMPILED_H
