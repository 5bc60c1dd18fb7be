// Convolutions of groups with few channels, depthwise ones above all, over one or two spatial dimensions: too
// few columns for a contraction, and windows that overlap.
//
// Where the result has many places and windows are small, a block computes some places of some groups, with
// what their windows see in shared memory. Where windows are long and the result has few places, as in the
// gradient of a depthwise convolution's weight, a block adds up the windows of a row of the result.
#ifndef COLOSSAL_LIB_CODEGEN_CUDA_GROUPEDCONVOLUTION_H
#define COLOSSAL_LIB_CODEGEN_CUDA_GROUPEDCONVOLUTION_H

#include "BlockTeam.h"

#include "colossal/Schedule/LoweringContext.h"

#include <array>
#include <functional>

namespace colossal::nvidia {

/// Out channels of a group from which on a convolution is a contraction, whose blocks compute 32 columns.
constexpr int64_t contractedChannels = 8;

/// Where sums of a grouped convolution stand: `lanes` consecutive columns of one row, or one.
struct GroupedPlace {
  kernel::Frame &frame;
  mlir::Value image, channel, row, column; ///< indices; the column of the first lane, a multiple of `lanes`
  unsigned lanes;
  unsigned indexBits;
};

/// What a colossal.conv computes, and where its tensors lie. Dimensions are rows and columns; of one spatial
/// dimension there is one row.
struct GroupedSpec {
  using Plane = std::array<int64_t, 2>;
  mlir::Type type; ///< f32, f64, f16 or bf16
  int64_t images = 1, groups = 1;
  int64_t inChannels = 1, outChannels = 1;               ///< of a group
  Plane size = {1, 1}, places = {1, 1}, window = {1, 1}; ///< of input, result and weight
  Plane stride = {1, 1}, dilation = {1, 1}, pad = {0, 0};
  /// In elements: of input and result by image, channel, row and column, of the weight by out channel, in
  /// channel, row and column.
  std::array<int64_t, 4> input = {}, output = {}, weight = {};
  std::optional<int64_t> bias; ///< its stride, if there is one
  int64_t inputAlignment = 1;  ///< bytes
  /// Elements next to each other in a row, a power of two, that the epilogue can read and write at once.
  int64_t lanes = 1;
  /// Takes sums (of the type that is added up in; a scalar, or a vector of the place's lanes) and stores what
  /// becomes of them. Null: they are stored in the result.
  std::function<void(mlir::OpBuilder &, mlir::Location, mlir::Value sums, const GroupedPlace &)> epilogue;
  llvm::SmallVector<kernel::BufferSpec> extraInputs, extraOutputs; ///< that the epilogue reads and writes
  llvm::SmallVector<int64_t> alignments; ///< bytes: of extra inputs, result and extra outputs; 1 where absent
  mlir::Type resultType;                 ///< of what the epilogue stores in the result; null: `type`
  bool noaliasOutput = true;             ///< false: the result may take the memory of an extra input
  unsigned params = 0;                   ///< that the epilogue reads

  /// The type in which products are added up.
  mlir::Type accumulate() const {
    return type.isF64() ? type : mlir::Type(mlir::Float32Type::get(type.getContext()));
  }
  int64_t channels() const { return groups * outChannels; }
  unsigned firstExtraBuffer() const { return 2 + bias.has_value(); }
  unsigned resultBuffer() const { return firstExtraBuffer() + unsigned(extraInputs.size()); }
};

/// Whether there is a kernel for it.
bool isGrouped(ConvOp op);
/// All of it but where the tensors lie, and the epilogue.
GroupedSpec describeGrouped(ConvOp op);

/// Buffers: input, weight, [bias], extra inputs, result, extra outputs. Each sum goes over in channels, rows
/// and columns of the window in this order. `team` has 128 threads.
kernel::GeneratedKernel generateGrouped(mlir::MLIRContext &context, const BlockTeam &team,
                                        const GroupedSpec &spec);
/// Whether windows are so long, and places so few, that a block should add up a window.
bool hasLongWindows(const GroupedSpec &spec);
/// The same, a block for each row of the result, whose threads add up parts of the windows.
kernel::GeneratedKernel generateLongWindows(mlir::MLIRContext &context, const BlockTeam &team,
                                            const GroupedSpec &spec);

/// A group of such a convolution, with what follows it.
mlir::LogicalResult lowerGrouped(const BlockTeam &team, schedule::LoweringContext &context,
                                 schedule::FusionGroup &group);

} // namespace colossal::nvidia

#endif // COLOSSAL_LIB_CODEGEN_CUDA_GROUPEDCONVOLUTION_H
