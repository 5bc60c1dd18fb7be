//===- FunctionLowering.h - a function of local tensors to steps ------------===//
//
// Walks fusion groups in order, finds where their operands lie, makes a kernel for each and appends its step.
// What depends on parameters only is lowered into the load program when something asks for it, and lies in
// the weights arena.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_SCHEDULE_FUNCTIONLOWERING_H
#define COLOSSAL_SCHEDULE_FUNCTIONLOWERING_H

#include "Groups.h"
#include "Program.h"

#include "colossal/Codegen/CPU/ContractionKernel.h"
#include "colossal/Codegen/CPU/FusedKernel.h"
#include "colossal/Codegen/CPU/WinogradKernel.h"
#include "dialects/Colossal/Colossal.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace colossal::schedule {

class FunctionLowering {
public:
  FunctionLowering(mlir::func::FuncOp function, Shared &shared);
  mlir::FailureOr<Program> run();

private:
  /// Where steps go: the program of the function, or the load program.
  struct Place {
    Program *program = nullptr;
    llvm::DenseMap<mlir::Value, View> views;
    bool load = false;
  };

  // Values
  bool isLoadable(mlir::Value value);
  /// Cheap to make in place: ranges and splats, also seen through movements.
  bool isFree(mlir::Value value);
  /// Text that names what a loadable value holds, whatever the function.
  std::string keyOf(mlir::Value value);
  /// Where a value lies; lowers what must be loaded, copies what no view can say.
  mlir::FailureOr<View> viewOf(mlir::Value value, Place &place);
  mlir::FailureOr<View> denseViewOf(mlir::Value value, Place &place);
  /// The same without lowering anything: only if it lies somewhere or can be seen as a view of what does.
  std::optional<View> existingView(mlir::Value value, Place &place);
  mlir::FailureOr<View> persist(mlir::Value value);
  mlir::FailureOr<View> loadTemporary(mlir::Value value);
  mlir::LogicalResult loadInto(mlir::Value value, unsigned storage);
  unsigned newStorage(Place &place, Life life, int64_t bytes);
  unsigned newWeight(int64_t bytes);
  /// A storage for the value. `inside`: as part of the padded tensor that a convolution reads, if one does.
  View allocate(mlir::Value value, Place &place, bool inside = false);
  llvm::SmallVector<unsigned> memoryOrder(mlir::Value value);
  llvm::SmallVector<int64_t> stridesInOrder(mlir::Value value);
  Access accessOf(const View &view, mlir::RankedTensorType type, bool writes);

  // Groups
  mlir::LogicalResult lowerOps(llvm::ArrayRef<mlir::Operation *> ops, Place &place, bool fuse);
  mlir::LogicalResult lowerGroup(Group &group, Place &place);
  mlir::LogicalResult lowerFused(Group &group, Place &place);
  mlir::LogicalResult lowerContraction(Group &group, Place &place);
  struct ContractionLowering;
  /// What a contraction multiplies: labels of the dimensions, and where the sides lie. Windows of a
  /// convolution are dimensions of the left side whose strides overlap.
  struct Operands {
    mlir::Value lhs, rhs;
    View a, b;
    mlir::RankedTensorType lhsType; ///< sizes of a's dimensions
    llvm::SmallVector<int64_t> lhsDims, rhsDims, resultDims;
    bool packs = false; ///< the right side is a weight, packed when it is loaded
  };
  mlir::FailureOr<Operands> operandsOf(mlir::Operation *op, Place &place);
  /// How Winograd's algorithm would compute the convolution, where it is faster than the contraction.
  std::optional<cpu::WinogradShape> winogradOf(mlir::Operation *op, const Operands &operands,
                                               const Place &place);
  /// Its steps. `output` transforms the products and holds the epilogue; `outputAccesses` are all but the
  /// products.
  mlir::LogicalResult lowerWinograd(ConvOp op, const cpu::WinogradShape &shape, const Operands &operands,
                                    const CachedKernel &output, llvm::ArrayRef<Access> outputAccesses,
                                    unsigned writes, llvm::ArrayRef<mlir::Value> scalars,
                                    llvm::ArrayRef<int64_t> alsoWritten, Place &place);
  mlir::LogicalResult lowerSequential(Group &group, Place &place);
  mlir::LogicalResult lowerPadding(PadOp op, Place &place);
  /// Room for the padded tensor with its border filled.
  mlir::LogicalResult allocatePadded(PadOp op, Place &place);
  /// The part of a padded tensor that `value` is, where one reads it.
  std::optional<View> allocateInside(mlir::Value value, Place &place);
  mlir::LogicalResult fillZero(const View &to, mlir::RankedTensorType type, Place &place, mlir::Location loc);
  mlir::LogicalResult lowerAttention(AttentionOp op, Place &place);
  /// True if a library call was made of it; false where the library cannot do it.
  mlir::FailureOr<bool> lowerConvolution(Group &group, Place &place);
  /// Lies with the channels innermost: what convolutions read and write.
  bool isChannelsLast(mlir::Value value);
  /// Its memory may be written: all ops that read it have been lowered.
  bool isDead(mlir::Value value);
  /// The group in pieces: its routine, then what followed it.
  mlir::LogicalResult lowerSeparately(Group &group, Place &place);
  mlir::LogicalResult lowerCollectiveStep(mlir::Operation *op, Place &place);
  /// Copies a value in memory into a dense storage.
  mlir::LogicalResult copy(const View &from, mlir::RankedTensorType type, const View &to, Place &place,
                           mlir::Location loc);

  /// A group as a function of its own, and what its arguments are.
  struct Outline {
    mlir::OwningOpRef<mlir::ModuleOp> module;
    mlir::func::FuncOp function;
    llvm::SmallVector<View> inputs;        ///< per tensor argument
    llvm::SmallVector<mlir::Value> values; ///< the same
    llvm::SmallVector<mlir::RankedTensorType> types;
    llvm::SmallVector<mlir::Value> scalars; ///< per index argument
  };
  mlir::FailureOr<Outline> outline(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange outputs,
                                   Place &place, mlir::Operation *routine);
  /// The kernel of `key`, generated at its first use; null where it cannot be, for the reason in `problem`
  /// (which is empty where the attempt was an earlier one).
  const CachedKernel *getKernel(const KernelKey &key, llvm::StringRef name, std::string &problem,
                                llvm::function_ref<llvm::Expected<cpu::GeneratedKernel>()> generate);
  /// The number of the input whose memory the group's output may take, since nobody reads it afterwards and
  /// the kernel reads each element just before it writes it. `others`: storages that the kernel reads besides
  /// the inputs.
  std::optional<unsigned> takenInput(Group &group, const Outline &outlined, llvm::ArrayRef<unsigned> others,
                                     Place &place);
  /// Whether `output` may take the memory of `value`, which ops of the group `last` are the last to read.
  bool mayTake(mlir::Value value, const View &view, mlir::Value output,
               llvm::ArrayRef<mlir::Operation *> last, Place &place);
  void launch(const CachedKernel &kernel, llvm::ArrayRef<Access> accesses, unsigned writes,
              llvm::ArrayRef<mlir::Value> scalars, mlir::Location loc, Place &place,
              llvm::ArrayRef<int64_t> alsoWritten = {});
  mlir::FailureOr<View> packedWeight(mlir::Value weight, mlir::Type accumulate,
                                     llvm::ArrayRef<cpu::ContractionDim> batch,
                                     llvm::ArrayRef<cpu::ContractionDim> n,
                                     llvm::ArrayRef<cpu::ContractionDim> k, const View &view);

  mlir::func::FuncOp function;
  Shared &shared;
  mlir::MLIRContext *context;
  Program program;
  Place runPlace, loadPlace;
  llvm::DenseMap<mlir::Value, bool> loadable;
  llvm::DenseMap<mlir::Value, std::string> keys;
  llvm::DenseSet<mlir::Value> returned; ///< values already bound to an output
  llvm::DenseMap<mlir::Operation *, mlir::Value> sliceStarts;
  llvm::DenseMap<mlir::Value, bool> channelsLast;
  llvm::DenseMap<mlir::Value, View> insides; ///< values that are parts of padded tensors
  llvm::DenseSet<mlir::Operation *> done;    ///< ops whose steps have been made
};

inline mlir::RankedTensorType tensorOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// "add" of colossal.elementwise add, "softmax" of colossal.softmax: what a trace shows.
std::string shortName(mlir::Operation *op);

/// What the ops compute together (ShardingRuleOpInterface::getFlops), at most 10^18.
int64_t countOperations(llvm::ArrayRef<mlir::Operation *> ops);

/// Strides of a dense tensor N x C x spatial with the channels innermost.
llvm::SmallVector<int64_t> channelsLastStrides(llvm::ArrayRef<int64_t> shape);

} // namespace colossal::schedule

#endif // COLOSSAL_SCHEDULE_FUNCTIONLOWERING_H
