//===- Program.h - a program being scheduled --------------------------------===//
//
// Steps over storages, before storages have places. Lowering appends steps in an order that respects data;
// placement gives every storage its bytes of an arena by its lifetime; emission makes plan ops of the steps.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_PROGRAM_H
#define COLOSSAL_SCHEDULE_PROGRAM_H

#include "KernelCache.h"
#include "Views.h"
#include "colossal/Codegen/CPU/KernelCompiler.h"
#include "colossal/Codegen/CPU/KernelFunction.h"
#include "colossal/Schedule/Schedule.h"
#include "dialects/Plan/PlanDialect.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

#include <functional>
#include <string>
#include <vector>

namespace colossal::schedule {

enum class Life { Weights, Activations, IO };

struct Storage {
  Life life = Life::Activations;
  int64_t bytes = 0;
  int64_t offset = -1; ///< in its arena, once placed
};

/// Bytes of a storage that a step reads or writes.
struct Access {
  unsigned storage = 0;
  int64_t offset = 0, bytes = 0;
  bool writes = false;
};

/// What a launched kernel computes, so that it can be priced: a contraction's or attention's sizes (one point
/// of their product is a multiply and add), and operations on elements. Bytes follow from the accesses.
struct Work {
  enum class Kind { Elements, Contraction, Convolution, Attention } kind = Kind::Elements;
  int64_t batch = 1, m = 1, n = 1, k = 1; ///< attention: heads of all sequences, queries, keys, width
  int64_t operations = 0;
};

struct Step {
  llvm::SmallVector<Access> accesses;
  bool communicates = false;
  mlir::Location loc;
  /// Makes the plan op; buffers as `accesses`. Index operands are mapped by `scalars`.
  std::function<mlir::Operation *(mlir::OpBuilder &, llvm::ArrayRef<plan::BufferAttr>,
                                  mlir::IRMapping &scalars)>
      build;
  llvm::SmallVector<mlir::Value> scalars; ///< index values of the source function that `build` asks for
  Work work = {};
};

struct Binding {
  std::string name;
  mlir::Type type;
  dist::ShardingAttr sharding;
  unsigned storage = 0;
  int64_t bytes = 0;
  mlir::DenseI64ArrayAttr range; ///< of its elements, if the runtime checks them; null otherwise
  mlir::StringAttr rangeUser;
};

/// One program: the storages that live and die in it, and its steps.
struct Program {
  std::vector<Storage> storages;
  std::vector<Step> steps;
  std::vector<Binding> inputs, outputs;
};

/// What programs share: kernels and the storages of weights, by the text of what they hold.
struct Shared {
  mlir::ModuleOp module;
  const cpu::Target &target;
  cpu::KernelCompiler &compiler;
  unsigned rankThreads;
  bool winograd; ///< convolutions may take more weight memory for fewer products
  std::vector<Storage> weights;
  llvm::StringMap<unsigned> weightOf; ///< text of a computation from parameters -> index in `weights`
  llvm::StringMap<std::string> parameterSymbols;        ///< text of a parameter -> symbol
  llvm::StringMap<std::pair<int64_t, int64_t>> kernels; ///< symbol -> buffers, params
  Program load;
  KernelCache generated;
};

/// Storages of all programs are numbered together: those of `Shared::weights` from here on.
constexpr unsigned kWeightBase = 1u << 30;

/// Gives every storage of `program` (weights aside) its offset; returns the bytes needed of the activations
/// arena and of the io arena.
std::pair<int64_t, int64_t> placeStorages(Program &program);

/// Appends the program's op to the module.
void emitProgram(Program &program, Shared &shared, llvm::StringRef name, plan::Role role,
                 mlir::DictionaryAttr dimensions, mlir::DictionaryAttr fixedInputs, mlir::Location loc);

/// Lowers one function of local tensors: appends its load steps to `shared.load`, and returns its own
/// program.
mlir::FailureOr<Program> lowerFunction(mlir::func::FuncOp function, Shared &shared);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_PROGRAM_H
