//===- LoweringContext.h - where lowerings of groups work -------------------===//
//
// A function of local tensors is lowered into two programs: the one that runs it, and the part of the load
// program that computes what depends on parameters only. Each has a context: where values lie, and the
// instructions made so far. Lowerings of groups ask it for views of what they read, take storages for what
// they write, and launch kernels over them.
//
// What depends on parameters only is lowered into the load program when something asks for it, and lies in
// the weights arena.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_LOWERINGCONTEXT_H
#define COLOSSAL_SCHEDULE_LOWERINGCONTEXT_H

#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "colossal/Codegen/Target.h"
#include "colossal/Schedule/FusionGroup.h"
#include "colossal/Schedule/KernelCache.h"
#include "colossal/Schedule/Program.h"
#include "colossal/Schedule/Views.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/OwningOpRef.h"

namespace colossal::schedule {

struct FunctionState;
struct ScheduleOptions;

/// A group as a function of its own, and what its arguments are.
struct ExtractedGroup {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  llvm::SmallVector<View> inputs;        ///< per tensor argument
  llvm::SmallVector<mlir::Value> values; ///< the same
  llvm::SmallVector<mlir::RankedTensorType> types;
  llvm::SmallVector<mlir::Value> scalars; ///< per index argument
};

/// An output of a group that is written over an input: their numbers.
struct TakenInput {
  unsigned input, output;
};

/// A storage of the weights arena that holds something computed at load.
struct NamedWeight {
  unsigned storage;
  bool isNew; ///< nothing fills it yet: the one who asked does
};

class LoweringContext {
public:
  LoweringContext(FunctionState &state, Program &program, bool loads)
      : state(state), program(program), loads(loads) {}

  /// Whether this is the load program's context.
  bool isLoad() const { return loads; }
  LoweringContext &load();
  const codegen::Target &target() const;
  const ScheduleOptions &options() const;
  mlir::MLIRContext *mlirContext() const;

  // Values
  /// Depends on parameters and constants only.
  bool isLoadable(mlir::Value value);
  /// Text that names what a loadable value holds, whatever the function.
  std::string keyOf(mlir::Value value);
  /// Whether nobody reads the memory of `value` once the ops lowered so far and those of `last` are done.
  bool isDeadAfter(mlir::Value value, llvm::ArrayRef<mlir::Operation *> last);

  // Views
  /// Where a value lies; lowers what must be loaded, copies what no view can say.
  mlir::FailureOr<View> viewOf(mlir::Value value);
  mlir::FailureOr<View> denseViewOf(mlir::Value value);
  /// The same without lowering anything: only if it lies somewhere or can be seen as a view of what does.
  std::optional<View> existingView(mlir::Value value);
  /// From now on the value lies there, and nowhere.
  void setView(mlir::Value value, View view) { views[value] = std::move(view); }
  void eraseView(mlir::Value value) { views.erase(value); }

  // Storages
  /// Bytes that live as long as instructions access them.
  unsigned newStorage(int64_t bytes) { return newStorage(Life::Activations, bytes); }
  /// A storage for the value, its dimensions in the order in which its readers or the target want them.
  /// `inside`: as part of the padded tensor that an op reads, if one does.
  View allocate(mlir::Value value, bool inside = false);
  /// Strides of a dense tensor whose dimensions lie in that order.
  llvm::SmallVector<int64_t> stridesInOrder(mlir::Value value);
  /// The weight of that name, for all programs; made with `bytes` where there is none.
  NamedWeight weightNamed(const std::string &name, int64_t bytes);
  int64_t bytesOfWeight(unsigned storage) const;
  /// Whether `output` may take the memory of `value`, which the ops `last` are the last to read.
  bool mayTake(mlir::Value value, const View &view, mlir::Value output,
               llvm::ArrayRef<mlir::Operation *> last);

  /// The place of the state whose new value `output` is, if nobody reads the old one any more, not even what
  /// makes `output`.
  std::optional<View> findStatePlace(mlir::Value output);

  // Kernels and instructions
  Access accessOf(const View &view, mlir::RankedTensorType type, bool writes);
  /// The kernel of `key`, generated at its first use; null where it cannot be, for the reason in `problem`
  /// (which is empty where the attempt was an earlier one).
  const CachedKernel *getKernel(const KernelKey &key, llvm::StringRef name, std::string &problem,
                                llvm::function_ref<llvm::Expected<kernel::GeneratedKernel>()> generate);
  /// The last `writes` accesses are written, and those numbered in `alsoWritten`.
  void launch(const CachedKernel &kernel, llvm::ArrayRef<Access> accesses, unsigned writes,
              llvm::ArrayRef<mlir::Value> scalars, mlir::Location loc, Work work = {},
              llvm::ArrayRef<int64_t> alsoWritten = {});
  void append(Instruction instruction) { instructions().push_back(std::move(instruction)); }
  /// Copies a tensor of `type` from one view to another.
  mlir::LogicalResult copy(const View &from, mlir::RankedTensorType type, const View &to, mlir::Location loc);
  mlir::LogicalResult fillZero(const View &to, mlir::RankedTensorType type, mlir::Location loc);

  // Groups
  /// The ops as a function. Arguments that stand for the results of `routine` come first, if there is one.
  mlir::FailureOr<ExtractedGroup> extract(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange outputs,
                                          mlir::Operation *routine);
  /// The input whose memory one of the group's outputs may take, since nobody reads it afterwards and the
  /// kernel reads each element just before it writes it. `others`: storages that the kernel reads besides the
  /// inputs.
  std::optional<TakenInput> takenInput(FusionGroup &group, const ExtractedGroup &extracted,
                                       llvm::ArrayRef<unsigned> others);
  /// The input that lies where the value lies that the group's only output replaces, a sum of turns or a
  /// state, if the output may be written over it; else none. `others` as above.
  std::optional<TakenInput> findReplacedInput(const FusionGroup &group, const ExtractedGroup &extracted,
                                              llvm::ArrayRef<unsigned> others);
  mlir::LogicalResult lowerOps(llvm::ArrayRef<mlir::Operation *> ops, bool fuse);
  mlir::LogicalResult lowerGroup(FusionGroup &group);
  /// The group as loops.
  mlir::LogicalResult lowerLoops(FusionGroup &group);
  /// The group in pieces: its routine, then what followed it.
  mlir::LogicalResult lowerSeparately(FusionGroup &group);
  /// An op of kind Padding: its border filled, the operand copied inside.
  mlir::LogicalResult lowerPadding(mlir::Operation *op);

private:
  friend class FunctionLowering;
  friend class GroupExtractor;

  bool isFree(mlir::Value value);
  bool isDead(mlir::Value value);
  /// The list that instructions are made for now: the loop's, or what comes before.
  std::vector<Instruction> &instructions();
  /// While it lives, instructions for `value` are made before the loop, unless it differs from turn to turn.
  class Hoist;
  /// A storage for an output; none where turns' parts of it lie scattered, and are copied there in the end.
  std::optional<View> allocateOutput(mlir::Value value);
  unsigned newStorage(Life life, int64_t bytes);
  unsigned newWeight(int64_t bytes);
  llvm::SmallVector<unsigned> memoryOrder(mlir::Value value);
  mlir::FailureOr<View> persist(mlir::Value value);
  mlir::FailureOr<View> loadTemporary(mlir::Value value);
  mlir::LogicalResult loadInto(mlir::Value value, unsigned storage);
  mlir::LogicalResult allocatePadded(mlir::Operation *op);
  std::optional<View> allocateInside(mlir::Value value);
  /// Finds the place of the state that `argument` is; at its first use the load program fills it.
  mlir::LogicalResult bindState(mlir::BlockArgument argument);
  mlir::LogicalResult loadState(mlir::BlockArgument argument, mlir::DictionaryAttr info, const View &view);
  /// The argument whose place a value takes: of the new value of a state the old one, of a sum of turns what
  /// they have added up; null of others.
  mlir::BlockArgument findReplaced(mlir::Value output);
  /// What turns of the loop add up lies at one place, whichever kernel has made the sum.
  mlir::LogicalResult settleAccumulations(const FusionGroup &group);
  /// Where `output`, which a kernel of the group makes, may be written over the value that it replaces: that
  /// place.
  std::optional<View> findStatePlace(const FusionGroup &group, const ExtractedGroup &extracted,
                                     mlir::Value output);
  /// Copies the new values of states that the group has made to their places, where nobody reads the old ones
  /// any more.
  mlir::LogicalResult storeMade(const FusionGroup &group);
  /// Whether all that reads the memory of `old` has been lowered.
  bool isReplaceable(mlir::Value old) const;
  /// Copies the new value of a state to its place, unless it lies there.
  mlir::LogicalResult storeState(mlir::Value value, llvm::StringRef name);

  FunctionState &state;
  Program &program;
  const bool loads;
  llvm::DenseMap<mlir::Value, View> views;
};

inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline int64_t byteSize(mlir::RankedTensorType type) {
  return type.getNumElements() * kernel::elementBytes(type.getElementType());
}

/// "add" of colossal.elementwise add, "softmax" of colossal.softmax: what a trace shows.
std::string shortName(mlir::Operation *op);

/// What the ops compute together (ShardingRuleOpInterface::getFlops), at most 10^18.
int64_t countOperations(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_LOWERINGCONTEXT_H
