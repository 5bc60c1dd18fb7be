// Grouped convolutions to their kernels, with what follows them.
#include "GroupedConvolution.h"
#include "ViewAlignment.h"

#include "colossal/Codegen/Kernel/LoopEmitter.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;
using namespace colossal::schedule;

bool nvidia::isGrouped(ConvOp op) {
  Type element = elementTypeOf(op.getResult());
  return op.getGroup() > 1 && tensorOf(op.getResult()).getRank() <= 4 &&
         tensorOf(op.getResult()).getDimSize(1) / int64_t(op.getGroup()) < contractedChannels &&
         (element.isF32() || element.isF64() || element.isF16() || element.isBF16()) &&
         tensorOf(op.getResult()).getNumElements() != 0 && tensorOf(op.getInput()).getNumElements() != 0 &&
         tensorOf(op.getWeight()).getNumElements() != 0;
}

GroupedSpec nvidia::describeGrouped(ConvOp op) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()), weight = shapeOf(op.getWeight()),
                    result = shapeOf(op.getResult());
  GroupedSpec spec;
  spec.type = elementTypeOf(op.getResult());
  spec.images = result[0], spec.groups = op.getGroup();
  spec.inChannels = weight[1], spec.outChannels = result[1] / spec.groups;
  for (unsigned d = 0; d + 2 < result.size(); ++d) {
    const unsigned to = d + 4 - result.size(); // of one dimension, the second
    spec.size[to] = input[d + 2], spec.places[to] = result[d + 2], spec.window[to] = weight[d + 2];
    spec.stride[to] = op.getStrides()[d], spec.dilation[to] = op.getDilations()[d];
    spec.pad[to] = op.getPads()[d];
  }
  if (op.getBias())
    spec.bias = 1;
  return spec;
}

namespace {

/// Strides by image, channel, row and column, or the weight's.
std::array<int64_t, 4> stridesOf(const View &view) {
  ArrayRef<int64_t> strides = view.strides;
  return {strides[0], strides[1], strides.size() == 4 ? strides[2] : 0, strides.back()};
}

/// One group on its way to its launch. Members are set in the order in which they stand.
class GroupedLowering {
public:
  GroupedLowering(const BlockTeam &team, LoweringContext &context, FusionGroup &group)
      : team(team), context(context), group(group), op(cast<ConvOp>(group.routine)) {}

  LogicalResult run();

private:
  LogicalResult findViews();
  void describeBuffers();
  int64_t commonLanes();
  KernelKey makeKey();
  void emitEpilogue(OpBuilder &builder, Location loc, Value sums, const GroupedPlace &place);
  llvm::Expected<kernel::GeneratedKernel> generate();
  void launch(const CachedKernel &kernel);

  const BlockTeam &team;
  LoweringContext &context;
  FusionGroup &group;
  ConvOp op;
  SmallVector<Operation *> epilogue;
  SmallVector<Value> operands; ///< input, weight, and the bias if there is one
  SmallVector<View> sources;   ///< of these
  ExtractedGroup extracted;
  std::optional<TakenInput> taken; ///< the input whose memory an output takes
  SmallVector<View> places;        ///< of the group's outputs
  GroupedSpec spec;
  std::string problem;
};

LogicalResult GroupedLowering::run() {
  for (Operation *member : group.ops)
    if (member != op)
      epilogue.push_back(member);
  if (failed(findViews()))
    return failure();
  describeBuffers();
  std::string name = hasLongWindows(spec) ? "convolve_windows" : "convolve_groups", reason;
  if (!epilogue.empty())
    name += "_" + shortName(epilogue.back());
  const CachedKernel *kernel = context.getKernel(makeKey(), name, reason, [&] { return generate(); });
  if (!kernel) {
    for (Value output : group.outputs)
      context.eraseView(output);
    return context.lowerSeparately(group);
  }
  launch(*kernel);
  return success();
}

LogicalResult GroupedLowering::findViews() {
  operands = {op.getInput(), op.getWeight()};
  if (op.getBias())
    operands.push_back(op.getBias());
  SmallVector<unsigned> storages;
  for (Value operand : operands) {
    auto view = context.viewOf(operand);
    if (failed(view))
      return failure();
    sources.push_back(*view);
    storages.push_back(view->storage);
  }
  auto made = context.extract(epilogue, group.outputs, op);
  if (failed(made))
    return failure();
  extracted = std::move(*made);
  taken = context.takenInput(group, extracted, storages);
  for (auto [i, output] : llvm::enumerate(group.outputs)) {
    places.push_back(taken && taken->output == i ? extracted.inputs[taken->input]
                                                 : context.allocate(output, /*inside=*/true));
    context.setView(output, places.back());
  }
  return success();
}

void GroupedLowering::describeBuffers() {
  spec = describeGrouped(op);
  spec.input = stridesOf(sources[0]), spec.weight = stridesOf(sources[1]), spec.output = stridesOf(places[0]);
  if (op.getBias())
    spec.bias = sources[2].strides[0];
  spec.inputAlignment = alignmentOf(sources[0], kernel::elementBytes(spec.type));
  spec.resultType = elementTypeOf(group.outputs.front());
  for (auto [view, type] : llvm::zip_equal(extracted.inputs, extracted.types))
    spec.alignments.push_back(alignmentOf(view, kernel::elementBytes(type.getElementType())));
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    spec.alignments.push_back(alignmentOf(view, kernel::elementBytes(elementTypeOf(output))));
  spec.lanes = commonLanes();
  auto describe = [](RankedTensorType type, const View &view) {
    kernel::BufferSpec buffer{kernel::storageType(type.getElementType()), {}, view.strides, true};
    buffer.shape.assign(type.getShape().begin(), type.getShape().end());
    return buffer;
  };
  for (auto [view, type] : llvm::zip_equal(extracted.inputs, extracted.types))
    spec.extraInputs.push_back(describe(type, view));
  for (auto [view, output] :
       llvm::zip_equal(ArrayRef<View>(places).drop_front(), ArrayRef<Value>(group.outputs).drop_front()))
    spec.extraOutputs.push_back(describe(tensorOf(output), view));
  spec.params = extracted.scalars.size();
  if (taken) {
    spec.extraInputs[taken->input].noalias = false;
    (taken->output == 0 ? spec.noaliasOutput : spec.extraOutputs[taken->output - 1].noalias) = false;
  }
  spec.epilogue = [this](OpBuilder &builder, Location loc, Value sums, const GroupedPlace &place) {
    emitEpilogue(builder, loc, sums, place);
  };
}

/// Elements of a row that can be read and written in one access of every tensor of the epilogue.
int64_t GroupedLowering::commonLanes() {
  constexpr int64_t widestAccess = 16;
  for (Operation &member : extracted.function.getBody().front().without_terminator()) {
    auto kernel = dyn_cast<KernelOpInterface>(&member);
    if (!member.hasTrait<OpTrait::ConstantLike>() && !(kernel && kernel.readsAtOwnIndex()))
      return 1;
  }
  const int64_t row = shapeOf(op.getResult()).back();
  int64_t lanes = 8;
  while (row % lanes != 0)
    lanes /= 2;
  auto consider = [&](RankedTensorType type, const View &view) {
    ArrayRef<int64_t> sizes = type.getShape();
    if (sizes.empty() || sizes.back() != row || row == 1)
      return; // one element for all lanes
    const int64_t bytes = kernel::elementBytes(type.getElementType());
    int64_t common = std::gcd(widestAccess, alignmentOf(view, bytes));
    for (auto [size, stride] : llvm::zip_equal(sizes.drop_back(), ArrayRef(view.strides).drop_back()))
      if (size != 1)
        common = std::gcd(common, stride * bytes);
    while (lanes > 1 && (view.strides.back() != 1 || common % (lanes * bytes) != 0))
      lanes /= 2;
  };
  for (auto [view, type] : llvm::zip_equal(extracted.inputs, extracted.types))
    consider(type, view);
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    consider(tensorOf(output), view);
  return lanes;
}

KernelKey GroupedLowering::makeKey() {
  KernelKey key(3u);
  key.add(group.routine).add(op.getInput().getType()).add(op.getWeight().getType());
  for (const View &view : sources)
    key.add(view.strides);
  key.add(extracted.function);
  for (const View &view : extracted.inputs)
    key.add(view.strides);
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    key.add(output.getType()).add(view.strides);
  key.add(spec.inputAlignment).add(spec.alignments).add(spec.lanes);
  key.add(taken ? int64_t(taken->input) : int64_t(-1)).add(taken ? int64_t(taken->output) : int64_t(-1));
  return key;
}

void GroupedLowering::emitEpilogue(OpBuilder &builder, Location loc, Value sums, const GroupedPlace &place) {
  kernel::LoopEmitter e(builder, loc, team.instructions(), place.lanes, place.indexBits);
  Value result = op.getResult();
  SmallVector<Lane> index{e.uniform(place.image), e.uniform(place.channel)};
  if (shapeOf(result).size() == 4)
    index.push_back(e.uniform(place.row));
  index.push_back({place.column, place.lanes == 1 ? 0 : 1, {}, place.lanes});
  for (auto [lane, size] : llvm::zip_equal(index, shapeOf(result)))
    if (size == 1)
      lane = e.constant(0);
  Block &block = extracted.function.getBody().front();
  Value converted = e.convert(sums, spec.accumulate(), spec.type);
  e.bindCode(block.getArgument(0), [&, converted](ArrayRef<Lane> asked) {
    for (auto [own, lane, size] : llvm::zip_equal(index, asked, shapeOf(result)))
      if (size != 1 && (lane.base != own.base || lane.vector != own.vector))
        e.fail("an epilogue reads its convolution at another place");
    return converted;
  });
  unsigned next = spec.firstExtraBuffer(), param = 0, tensor = 0;
  for (BlockArgument argument : block.getArguments().drop_front()) {
    if (isa<RankedTensorType>(argument.getType()))
      e.bindMemory(argument, {place.frame.pointer(next++), elementTypeOf(argument),
                              extracted.inputs[tensor++].strides});
    else
      e.bindScalar(argument, place.frame.param(param++));
  }
  for (Operation &member : block)
    if (auto start = member.getAttrOfType<IntegerAttr>("start_argument"))
      e.bindScalar(member.getResult(0), place.frame.param(start.getInt()));
  SmallVector<Value> values;
  for (Value output : block.getTerminator()->getOperands())
    values.push_back(e.load(output, index));
  for (auto [i, value] : llvm::enumerate(values))
    e.store(value, {place.frame.pointer(next + i), elementTypeOf(group.outputs[i]), places[i].strides},
            index);
  if (!e.error().empty())
    problem = e.error();
}

llvm::Expected<kernel::GeneratedKernel> GroupedLowering::generate() {
  kernel::GeneratedKernel generated = hasLongWindows(spec)
                                          ? generateLongWindows(*context.mlirContext(), team, spec)
                                          : generateGrouped(*context.mlirContext(), team, spec);
  if (!problem.empty())
    return llvm::createStringError(problem);
  return generated;
}

void GroupedLowering::launch(const CachedKernel &kernel) {
  SmallVector<Access> accesses;
  for (auto [operand, view] : llvm::zip_equal(operands, sources))
    accesses.push_back(context.accessOf(view, tensorOf(operand), false));
  for (auto [view, type] : llvm::zip_equal(extracted.inputs, extracted.types))
    accesses.push_back(context.accessOf(view, type, false));
  for (auto [view, output] : llvm::zip_equal(places, group.outputs))
    accesses.push_back(context.accessOf(view, tensorOf(output), true));
  SmallVector<int64_t> alsoWritten;
  if (taken)
    alsoWritten.push_back(taken->input + int64_t(operands.size()));
  Work work{Work::Kind::Convolution,
            spec.groups,
            spec.images * spec.places[0] * spec.places[1],
            spec.outChannels,
            spec.inChannels * spec.window[0] * spec.window[1],
            countOperations(epilogue)};
  context.launch(kernel, accesses, places.size(), extracted.scalars, op.getLoc(), work, alsoWritten);
}

} // namespace

LogicalResult nvidia::lowerGrouped(const BlockTeam &team, LoweringContext &context, FusionGroup &group) {
  return GroupedLowering(team, context, group).run();
}
