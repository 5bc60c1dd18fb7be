//===- LoopLowering.cpp - groups without a routine to kernels of loops ------===//
#include "FunctionState.h"

#include "colossal/Codegen/Kernel/Alignment.h"
#include "colossal/Codegen/Kernel/VectorMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

std::string schedule::shortName(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return (kernel ? kernel.getKernelName() : op->getName().stripDialect()).str();
}

/// Makes of `kernel` the one of `key` that was generated ahead for these images, if one was.
static bool takeAhead(Shared &shared, const KernelKey &key, StringRef name,
                      std::optional<CachedKernel> &kernel) {
  if (!shared.options.ahead)
    return false;
  auto found = shared.options.ahead->find(key);
  if (found == shared.options.ahead->end() || !found->second)
    return false;
  std::optional<std::string> symbol = shared.images.addAgain(found->second->symbol, name);
  if (!symbol)
    return false;
  kernel = *found->second;
  kernel->symbol = std::move(*symbol);
  return true;
}

const CachedKernel *
LoweringContext::getKernel(const KernelKey &key, StringRef name, std::string &problem,
                           llvm::function_ref<llvm::Expected<kernel::GeneratedKernel>()> generate) {
  auto [entry, isNew] = state.shared.generated.try_emplace(key);
  if (isNew && !takeAhead(state.shared, key, name, entry->second)) {
    llvm::Expected<kernel::GeneratedKernel> kernel = generate();
    if (kernel) {
      std::string symbol = state.shared.images.add(*kernel->module, name);
      entry->second =
          CachedKernel{symbol, kernel->tiles, kernel->scratchBytes, kernel->buffers, kernel->params};
    } else {
      problem = llvm::toString(kernel.takeError());
    }
  }
  if (!entry->second)
    return nullptr;
  // Another stage may have generated it.
  state.shared.kernels[entry->second->symbol] = {entry->second->buffers, entry->second->params};
  return &*entry->second;
}

void LoweringContext::launch(const CachedKernel &kernel, ArrayRef<Access> accesses, unsigned writes,
                             ArrayRef<Value> scalars, Location loc, Work work,
                             ArrayRef<int64_t> alsoWritten) {
  auto reference = FlatSymbolRefAttr::get(mlirContext(), kernel.symbol);
  SmallVector<Value> operands(scalars);
  SmallVector<int64_t> both(alsoWritten);
  int64_t tiles = kernel.tiles, scratch = kernel.scratch;
  append({SmallVector<Access>(accesses), false, loc,
          [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &mapping) -> Operation * {
            SmallVector<Value> params;
            for (Value scalar : operands)
              params.push_back(mapping.lookup(scalar));
            SmallVector<Attribute> attributes(buffers.begin(), buffers.end());
            return plan::LaunchOp::create(b, loc, reference, params, b.getArrayAttr(attributes),
                                          b.getI64IntegerAttr(writes), b.getI64IntegerAttr(tiles),
                                          b.getI64IntegerAttr(scratch),
                                          both.empty() ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(both));
          },
          operands, work});
}

int64_t schedule::countOperations(ArrayRef<Operation *> ops) {
  double count = 0;
  for (Operation *op : ops)
    if (auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op))
      count += ruled.getFlops();
  return static_cast<int64_t>(std::min(count, 1e18));
}

/// Makes one dimension of those that follow each other in all buffers of a group of elementwise ops, where
/// the innermost one, as the window of a convolution's weight, leaves most of a vector empty.
static void mergeShortRows(kernel::FusedSpec &spec) {
  constexpr int64_t shortRow = 64;
  func::FuncOp function = spec.function;
  Block &block = function.getBody().front();
  SmallVector<int64_t> shape(shapeOf(block.getTerminator()->getOperand(0)));
  if (shape.size() < 2 || shape.back() >= shortRow)
    return;
  SmallVector<Value> whole;
  auto isAlike = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (type && type.getShape() == ArrayRef(shape))
      whole.push_back(value);
    else if (type && type.getRank() != 0)
      return false;
    return true;
  };
  for (Operation &op : block.without_terminator())
    if (!isa<ElementwiseOp, FormulaOp>(op) &&
        !(op.hasTrait<OpTrait::ConstantLike>() && shapeOf(op.getResult(0)).empty()))
      return;
    else if (!llvm::all_of(op.getResults(), isAlike))
      return;
  if (!llvm::all_of(block.getArguments(), isAlike) ||
      !llvm::all_of(block.getTerminator()->getOperandTypes(),
                    [&](Type type) { return cast<RankedTensorType>(type).getShape() == ArrayRef(shape); }))
    return;
  SmallVector<kernel::FusedBuffer *> buffers; // of the shape
  for (auto [argument, buffer] : llvm::zip(block.getArguments(), spec.inputs))
    if (!buffer.strides.empty())
      buffers.push_back(&buffer);
  for (kernel::FusedBuffer &buffer : spec.outputs)
    buffers.push_back(&buffer);
  for (size_t d = shape.size() - 1; d-- > 0;) {
    if (!llvm::all_of(buffers, [&](kernel::FusedBuffer *buffer) {
          return shape[d] == 1 || buffer->strides[d] == buffer->strides[d + 1] * shape[d + 1];
        }))
      continue;
    shape[d] *= shape[d + 1];
    shape.erase(shape.begin() + d + 1);
    for (kernel::FusedBuffer *buffer : buffers)
      buffer->strides.erase(buffer->strides.begin() + d);
  }
  for (Value value : whole)
    value.setType(cast<RankedTensorType>(value.getType()).clone(shape));
  function.setFunctionType(FunctionType::get(function.getContext(), block.getArgumentTypes(),
                                             block.getTerminator()->getOperandTypes()));
}

LogicalResult LoweringContext::lowerLoops(FusionGroup &group) {
  SmallVector<Value> outputs;
  for (Value output : group.outputs)
    if (tensorOf(output).getNumElements() != 0)
      outputs.push_back(output);
    else
      allocate(output);
  if (outputs.empty())
    return success();
  Operation *first = group.ops.front();
  auto extracted = extract(group.ops, outputs, nullptr);
  if (failed(extracted))
    return failure();
  kernel::FusedSpec spec;
  spec.function = extracted->function;
  for (const View &view : extracted->inputs)
    spec.inputs.push_back({view.strides, true});
  SmallVector<View> places;
  const std::optional<TakenInput> taken =
      outputs.size() == group.outputs.size() ? takenInput(group, *extracted, {}) : std::nullopt;
  SmallVector<int64_t> updated; // inputs that are overwritten
  if (taken) {
    spec.inputs[taken->input].noalias = false;
    updated.push_back(taken->input);
  }
  for (Value output : outputs) {
    std::optional<View> place = findStatePlace(group, *extracted, output);
    if (place) {
      for (auto [i, view] : llvm::enumerate(extracted->inputs))
        if (view.storage == place->storage) {
          spec.inputs[i].noalias = false;
          updated.push_back(static_cast<int64_t>(i));
        }
      views[output] = *place;
    } else {
      place = taken && output == group.outputs[taken->output]
                  ? views[output] = extracted->inputs[taken->input]
                  : allocate(output, /*inside=*/true);
    }
    places.push_back(*place);
    spec.outputs.push_back({places.back().strides, llvm::none_of(updated, [&](int64_t input) {
                              return extracted->inputs[input].storage == places.back().storage;
                            })});
  }
  if (target().team().members() == 1)
    mergeShortRows(spec);
  KernelKey key(KernelKey::Kind::Loops);
  // What a thread of several may read at once depends on it.
  if (target().team().members() > 1) {
    auto alignmentOf = [&](const View &view, RankedTensorType type) {
      const int64_t bytes = kernel::elementBytes(type.getElementType());
      const int64_t alignment =
          std::gcd(std::gcd(target().alignment(), view.offset * bytes), view.turn * bytes);
      key.add(alignment);
      return alignment;
    };
    for (auto [i, view] : llvm::enumerate(extracted->inputs))
      kernel::setArgumentAlignment(spec.function, i, alignmentOf(view, extracted->types[i]));
    for (auto [i, view] : llvm::enumerate(places))
      kernel::setResultAlignment(spec.function, i, alignmentOf(view, tensorOf(outputs[i])));
  }
  key.add(extracted->function);
  for (const auto *buffers : {&spec.inputs, &spec.outputs})
    for (const kernel::FusedBuffer &buffer : *buffers)
      key.add(buffer.strides).add(int64_t(buffer.noalias));
  std::string name = shortName(group.ops.back()), problem;
  if (group.ops.size() > 1)
    name = shortName(first) + "_" + name;
  const CachedKernel *kernel = getKernel(
      key, name, problem, [&] { return kernel::generateFused(*mlirContext(), target().team(), spec); });
  if (!kernel) {
    if (group.ops.size() == 1)
      return first->emitOpError("cannot be generated for this target: ") << problem;
    // One op at a time; what was to stay in registers is stored.
    for (Value output : outputs)
      views.erase(output);
    for (Operation *op : group.ops) {
      FusionGroup single;
      single.ops.push_back(op);
      for (Value result : op->getResults())
        if (isa<RankedTensorType>(result.getType()))
          single.outputs.push_back(result);
      if (failed(lowerLoops(single)))
        return failure();
    }
    return success();
  }
  SmallVector<Access> accesses;
  for (auto [view, type] : llvm::zip(extracted->inputs, extracted->types))
    accesses.push_back(accessOf(view, type, false));
  for (auto [view, output] : llvm::zip(places, outputs))
    accesses.push_back(accessOf(view, tensorOf(output), true));
  Work work;
  work.operations = countOperations(group.ops);
  launch(*kernel, accesses, outputs.size(), extracted->scalars, group.ops.back()->getLoc(), work, updated);
  return success();
}

LogicalResult LoweringContext::copy(const View &from, RankedTensorType type, const View &to, Location loc) {
  Access reads = accessOf(from, type, false), writes = accessOf(to, type, true);
  if (isDense(from, type.getShape()) && isDense(to, type.getShape())) {
    append({{reads, writes},
            false,
            loc,
            [=](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) -> Operation * {
              return plan::CopyOp::create(b, loc, buffers[0], buffers[1]);
            },
            {}});
    return success();
  }
  std::string problem;
  KernelKey key(KernelKey::Kind::Copy);
  key.add(Type(type)).add(from.strides).add(to.strides);
  const CachedKernel *kernel = getKernel(key, "copy", problem, [&] {
    OpBuilder b(mlirContext());
    OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
    b.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(b, b.getUnknownLoc(), "group", b.getFunctionType({type}, {type}));
    b.setInsertionPointToEnd(function.addEntryBlock());
    func::ReturnOp::create(b, b.getUnknownLoc(), function.getArguments());
    return kernel::generateFused(*mlirContext(), target().team(),
                                 {function, {{from.strides, true}}, {{to.strides, true}}});
  });
  if (!kernel)
    return emitError(loc, "a copy cannot be generated") << (problem.empty() ? "" : ": ") << problem;
  launch(*kernel, {reads, writes}, 1, {}, loc);
  return success();
}

LogicalResult LoweringContext::fillZero(const View &to, RankedTensorType type, Location loc) {
  if (type.getNumElements() == 0)
    return success();
  std::string problem;
  KernelKey key(KernelKey::Kind::Fill);
  key.add(Type(type)).add(to.strides);
  const CachedKernel *kernel = getKernel(key, "fill", problem, [&] {
    OpBuilder b(mlirContext());
    Location unknown = b.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(unknown);
    b.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(b, unknown, "group", b.getFunctionType({}, {type}));
    b.setInsertionPointToEnd(function.addEntryBlock());
    auto zero = DenseElementsAttr::get(type, b.getZeroAttr(type.getElementType()));
    Value constant = ConstantOp::create(b, unknown, type, zero);
    func::ReturnOp::create(b, unknown, constant);
    return kernel::generateFused(*mlirContext(), target().team(), {function, {}, {{to.strides, true}}});
  });
  if (!kernel)
    return emitError(loc, "a fill cannot be generated") << (problem.empty() ? "" : ": ") << problem;
  launch(*kernel, {accessOf(to, type, true)}, 1, {}, loc);
  return success();
}
