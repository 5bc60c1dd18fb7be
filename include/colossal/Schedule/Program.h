//===- Program.h - a program being scheduled --------------------------------===//
//
// Instructions over storages, before storages have places. Lowering appends instructions in an order that
// respects data; placement gives every storage its bytes of an arena by its lifetime; emission makes plan
// ops.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_PROGRAM_H
#define COLOSSAL_SCHEDULE_PROGRAM_H

#include "dialects/Plan/PlanDialect.h"
#include "mlir/IR/IRMapping.h"

#include <functional>
#include <string>
#include <vector>

namespace colossal::schedule {

enum class Life { Weights, Activations, IO, States };

struct Storage {
  Life life = Life::Activations;
  int64_t bytes = 0;
  int64_t offset = -1; ///< in its arena, once placed
  /// What passes of one microbatch hand on to each other: alive between these.
  bool isHandedOn = false;
  bool outlivesTurn = false; ///< messages may still read it, or fill it already, in another turn of the loop
};

/// Bytes of a storage that an instruction reads or writes.
struct Access {
  unsigned storage = 0;
  int64_t offset = 0, bytes = 0;
  bool writes = false;
  int64_t turn = 0; ///< bytes by which it moves in each turn of the program's loop
};

/// What a launched kernel computes, so that it can be priced: a contraction's or attention's sizes (one point
/// of their product is a multiply and add), and operations on elements. Bytes follow from the accesses.
struct Work {
  enum class Kind { Elements, Contraction, Convolution, Attention } kind = Kind::Elements;
  int64_t batch = 1, m = 1, n = 1, k = 1; ///< attention: heads of all sequences, queries, keys, width
  int64_t operations = 0;
};

struct Instruction {
  llvm::SmallVector<Access> accesses;
  bool communicates = false;
  mlir::Location loc;
  /// Makes the plan op; buffers as `accesses`. Index operands are mapped by `scalars`.
  std::function<mlir::Operation *(mlir::OpBuilder &, llvm::ArrayRef<plan::BufferAttr>,
                                  mlir::IRMapping &scalars)>
      build;
  llvm::SmallVector<mlir::Value> scalars; ///< index values of the source function that `build` asks for
  Work work = {};
  bool located = false; ///< `loc` names all ops that the instruction computes
  unsigned queue = 0;
  llvm::SmallVector<int64_t> waits = {};  ///< events that must have been signalled; orderQueues fills these
  int64_t signals = 0;                    ///< the event that it signals; 0: none
  llvm::SmallVector<unsigned> holds = {}; ///< storages that another queue may be at work on until it begins
  // Of the loop:
  int64_t chunk = 0;  ///< of the stage, to which it belongs
  int64_t moment = 0; ///< its place among the instructions of one turn of all chunks
  int64_t turn = 0;   ///< which of the turns that a round makes, or of all where it stands behind the loop
  bool exceptLast = false, exceptFirst = false; ///< not in the last round, or the first
  // Of messages, as dist::Message has them:
  int64_t passes = 0, order = -1;
};

struct Binding {
  std::string name;
  mlir::Type type;
  dist::ShardingAttr sharding;
  unsigned storage = 0;
  int64_t bytes = 0;
  mlir::DenseI64ArrayAttr range; ///< of its elements, if the runtime checks them; null otherwise
  mlir::StringAttr rangeUser;
  mlir::IntegerAttr
      place; ///< among the model's inputs or outputs, where it is cut into stages; null otherwise
};

/// One program: the storages that live and die in it, and its instructions. Where it loops over microbatches,
/// there are those before the loop, those of a round, which makes one turn or several, those of turns that
/// are left, behind the loop, and those for which all turns must have ended.
struct Program {
  std::vector<Storage> storages;
  std::vector<Instruction> instructions;
  std::vector<Instruction> body, rest, after;
  int64_t turns = 1, loopAxis = -1;
  int64_t turnsOfRound = 1;
  /// Of a stage of a pipeline: how many stages there are, and for each of its chunks whether it receives from
  /// this stage or a later one, so that nothing may be received for it ahead of time.
  int64_t stages = 1;
  std::vector<bool> chunkWaits = {false};
  std::vector<int64_t> passes; ///< their order, as dist.passes has it, where that is given
  int64_t getRounds() const { return turns / turnsOfRound; }
  std::vector<Binding> inputs, outputs;
};

/// Storages of all programs are numbered together: those of weights and states, which all share, from here
/// on.
constexpr unsigned kWeightBase = 1u << 30;

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_PROGRAM_H
