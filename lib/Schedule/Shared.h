//===- Shared.h - what the programs of a plan share -------------------------===//
#ifndef COLOSSAL_LIB_SCHEDULE_SHARED_H
#define COLOSSAL_LIB_SCHEDULE_SHARED_H

#include "colossal/Codegen/Target.h"
#include "colossal/Schedule/KernelCache.h"
#include "colossal/Schedule/LoweringTable.h"
#include "colossal/Schedule/Program.h"
#include "colossal/Schedule/Schedule.h"
#include "llvm/ADT/StringMap.h"

namespace colossal::schedule {

/// A state (dialects/Dist/State.h), and where it lies.
struct StateEntry {
  std::string name;
  mlir::DictionaryAttr info;   ///< as dist::kStateInfoAttrName
  mlir::RankedTensorType type; ///< global
  dist::ShardingAttr sharding;
  unsigned storage = 0;
  int64_t bytes = 0; ///< of one rank's shard
};

/// The target and its kernels, and the storages of weights, by the text of what they hold, and of states.
struct Shared {
  mlir::ModuleOp module;
  const ScheduleOptions &options;
  const codegen::Target &target;
  codegen::ImageBuilder &images;
  KernelCache &generated; ///< of all stages
  LoweringTable lowerings;
  std::vector<Storage> weights;
  llvm::StringMap<unsigned> weightOf; ///< text of a computation from parameters -> index in `weights`
  llvm::StringMap<std::string> parameterSymbols;        ///< text of a parameter -> symbol
  llvm::StringMap<std::pair<int64_t, int64_t>> kernels; ///< symbol -> buffers, params
  Program load;
  std::vector<StateEntry> states;
  llvm::StringMap<unsigned> stateOf; ///< name -> index in `states`
};

/// Gives every storage of `program` (weights aside) its offset; returns the bytes needed of the activations
/// arena and of the io arena.
std::pair<int64_t, int64_t> placeStorages(Program &program, int64_t alignment);

/// Appends the program's op to the module.
void emitProgram(Program &program, Shared &shared, llvm::StringRef name, plan::Role role,
                 mlir::DictionaryAttr dimensions, mlir::DictionaryAttr fixedInputs, mlir::Location loc);

/// Lowers one function of local tensors: appends its load instructions to `shared.load`, and returns its own
/// program.
mlir::FailureOr<Program> lowerFunction(mlir::func::FuncOp function, Shared &shared);

/// Appends the states of all programs, and the programs that save and restore them; nothing where there are
/// none.
void emitStates(Shared &shared);

mlir::LogicalResult lowerTiles(LoweringContext &context, FusionGroup &group);

/// Registers what every target computes alike: loops, tiles, paddings, collectives.
void registerCommonLowerings(LoweringTable &table);

} // namespace colossal::schedule

#endif // COLOSSAL_LIB_SCHEDULE_SHARED_H
