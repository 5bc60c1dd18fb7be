//===- Movement.cpp ------------------------------------------------------===//
//
// Ops that move elements and compute nothing. All that is known about these ops stands here: verification,
// folding, sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

#include <numeric>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  auto from = cast<RankedTensorType>(getInput().getType()), to = cast<RankedTensorType>(getType());
  if (from.getNumElements() != to.getNumElements())
    return emitOpError() << "cannot make " << to << " of " << from << ": " << to.getNumElements()
                         << " elements of " << from.getNumElements() << " (C1)";
  return verifySameElements(*this, getInput(), getResult(), "C1");
}

LogicalResult TransposeOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getInput());
  if (!isPermutationVector(getPermutation()) || getPermutation().size() != shape.size())
    return emitOpError() << "[" << getPermutation() << "] is not a permutation of " << shape.size()
                         << " dimensions (C1)";
  if (failed(verifyShape(*this, getResult(), applyPermutation(shape, getPermutation()), "result", "C2")))
    return failure();
  return verifySameElements(*this, getInput(), getResult(), "C2");
}

LogicalResult BroadcastOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)) ||
      failed(verifyBroadcasts(*this, getInput(), shapeOf(getResult()), "input", "C1")))
    return failure();
  return verifySameElements(*this, getInput(), getResult(), "C1");
}

LogicalResult SliceOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getInput()), sizes = shapeOf(getResult());
  if (failed(verifyRank(*this, getResult(), shape.size(), "result", "C1")) ||
      failed(verifyCount(*this, getStarts().size(), shape.size(), "starts", "C1")) ||
      failed(verifyCount(*this, getSteps().size(), shape.size(), "steps", "C1")) ||
      failed(verifySameElements(*this, getInput(), getResult(), "C1")))
    return failure();
  for (auto [d, size] : llvm::enumerate(sizes)) {
    __int128 first = getStarts()[d], last = first + __int128(size - 1) * getSteps()[d];
    if (size > 0 && (std::min(first, last) < 0 || std::max(first, last) >= shape[d]))
      return emitOpError() << size << " elements from " << getStarts()[d] << " by " << getSteps()[d]
                           << " reach beyond dimension " << d << " of " << getInput().getType() << " (C2)";
  }
  return success();
}

LogicalResult ConcatOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  if (getInputs().empty())
    return emitOpError("needs an operand (C1)");
  if (failed(verifyAxis(*this, getAxis(), getResult(), "C1")))
    return failure();
  SmallVector<int64_t> sum(shapeOf(getResult()));
  sum[getAxis()] = 0;
  for (Value input : getInputs()) {
    SmallVector<int64_t> shape(shapeOf(getResult()));
    if (failed(verifyRank(*this, input, shape.size(), "every operand", "C2")) ||
        failed(verifySameElements(*this, input, getResult(), "C2")))
      return failure();
    shape[getAxis()] = shapeOf(input)[getAxis()];
    sum[getAxis()] += shape[getAxis()];
    if (failed(verifyShape(*this, input, shape, "operand", "C2")))
      return failure();
  }
  return verifyShape(*this, getResult(), sum, "result", "C2");
}

LogicalResult PadOp::verify() {
  if (failed(verifyTensors(*this, ElementUse::Moves)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getInput()), sizes = shapeOf(getResult());
  if (failed(verifyRank(*this, getResult(), shape.size(), "result", "C1")) ||
      failed(verifyCount(*this, getLow().size(), shape.size(), "low", "C1")) ||
      failed(verifySameElements(*this, getInput(), getResult(), "C1")))
    return failure();
  for (auto [d, size] : llvm::enumerate(sizes))
    if (getMode() != PadMode::Constant && shape[d] == 0 && size != 0)
      return emitOpError() << "dimension " << d << " of " << getInput().getType()
                           << " has nothing to repeat (C2)";
  if (!getValue())
    return success();
  if (cast<RankedTensorType>(getValue().getType()).getNumElements() != 1)
    return emitOpError() << "the value must be one element, but is " << getValue().getType() << " (C3)";
  return verifySameElements(*this, getInput(), getValue(), "C3");
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

// What changes nothing goes. Constants are folded by the import phase, which bounds their size.

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : OpFoldResult();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [i, d] : llvm::enumerate(getPermutation()))
    if (int64_t(i) != d)
      return {};
  return getInput();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : OpFoldResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool whole = getInput().getType() == getType();
  for (auto [start, step] : llvm::zip(getStarts(), getSteps()))
    whole &= start == 0 && step == 1;
  return whole ? getInput() : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Appends to `from` and `to` the factors of input dimensions `in` and result dimensions `out` of equal
/// product. The cuts of both sides must form one chain of divisors to be shared; otherwise all these
/// dimensions are whole.
static void addReshapedGroup(FactorRule &rule, ArrayRef<int64_t> in, ArrayRef<int64_t> out,
                             TensorFactors &from, TensorFactors &to) {
  SmallVector<int64_t> cuts{1};
  for (ArrayRef<int64_t> sizes : {in, out}) {
    int64_t product = 1;
    for (int64_t size : llvm::reverse(sizes))
      cuts.push_back(product *= size);
  }
  llvm::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  bool isChain = true;
  for (size_t i = 1; i < cuts.size(); ++i)
    isChain &= cuts[i - 1] != 0 && cuts[i] % cuts[i - 1] == 0;
  if (!isChain) {
    for (int64_t size : in)
      from.push_back(size == 1 ? DimFactors() : DimFactors{rule.add(size, FactorKind::Whole)});
    for (int64_t size : out)
      to.push_back(size == 1 ? DimFactors() : DimFactors{rule.add(size, FactorKind::Whole)});
    return;
  }
  SmallVector<unsigned> factors; // outermost first
  for (size_t i = cuts.size() - 1; i > 0; --i)
    factors.push_back(rule.add(cuts[i] / cuts[i - 1]));
  auto fill = [&](ArrayRef<int64_t> sizes, TensorFactors &dims) {
    size_t next = 0;
    for (int64_t size : sizes) {
      dims.emplace_back();
      for (int64_t product = 1; product < size; ++next) {
        product *= rule.factors[factors[next]].size;
        dims.back().push_back(factors[next]);
      }
    }
  };
  fill(in, from);
  fill(out, to);
}

/// Moving elements is linear: sums may be made before or after.
static void addCarried(Operation *op, FactorRule &rule) {
  if (!cast<RankedTensorType>(op->getResult(0).getType()).getElementType().isInteger(1))
    rule.addCarried(llvm::to_vector(llvm::seq<unsigned>(op->getNumOperands())));
}

FactorRule ReshapeOp::getFactorRule() {
  ArrayRef<int64_t> in = getShape(getInput()), out = getShape(getResult());
  if (llvm::is_contained(in, 0) || llvm::is_contained(out, 0))
    return FactorRule::makeWhole(*this);
  FactorRule rule;
  TensorFactors from, to;
  size_t i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    // The smallest groups of consecutive dimensions of equal product.
    size_t firstIn = i, firstOut = o;
    int64_t inProduct = i < in.size() ? in[i++] : 1, outProduct = o < out.size() ? out[o++] : 1;
    while (inProduct != outProduct) {
      if (inProduct < outProduct)
        inProduct *= in[i++];
      else
        outProduct *= out[o++];
    }
    addReshapedGroup(rule, in.slice(firstIn, i - firstIn), out.slice(firstOut, o - firstOut), from, to);
  }
  rule.operands.push_back(from);
  rule.results.push_back(to);
  addCarried(*this, rule);
  return rule;
}

double ReshapeOp::getFlops() {
  return 0;
} // the same bytes under another type

FactorRule TransposeOp::getFactorRule() {
  FactorRule rule;
  TensorFactors input, result;
  for (int64_t size : getShape(getInput()))
    input.push_back({rule.add(size)});
  for (int64_t d : getPermutation())
    result.push_back(input[d]);
  rule.operands.push_back(input);
  rule.results.push_back(result);
  addCarried(*this, rule);
  return rule;
}

FactorRule BroadcastOp::getFactorRule() {
  FactorRule rule = FactorRule::makePointwise(*this);
  addCarried(*this, rule);
  return rule;
}

/// The greatest size such that a range of `length` elements from `start`, one apart, of a dimension of `size`
/// elements begins and ends on its multiples: slicing is then whole on the outer part and carries the inner
/// one through.
static int64_t getCarriedSize(int64_t start, int64_t length, int64_t size) {
  return std::gcd(std::gcd(start, length), size);
}

FactorRule SliceOp::getFactorRule() {
  FactorRule rule;
  TensorFactors input, result;
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    int64_t length = getShape(getResult())[d];
    input.emplace_back();
    result.emplace_back();
    int64_t carried = getSteps()[d] == 1 || length == 1 ? getCarriedSize(getStarts()[d], length, size) : 1;
    if (size != carried)
      input.back().push_back(rule.add(carried == 0 ? size : size / carried, FactorKind::Whole));
    if (length != carried)
      result.back().push_back(rule.add(carried == 0 ? length : length / carried, FactorKind::Whole));
    if (carried == 1 && size != 1)
      continue;
    unsigned shared = rule.add(carried);
    input.back().push_back(shared);
    result.back().push_back(shared);
  }
  rule.operands.push_back(input);
  rule.results.push_back(result);
  addCarried(*this, rule);
  return rule;
}

FailureOr<SmallVector<Value>> SliceOp::buildLocal(OpBuilder &builder, LocalContext &context) {
  // Starts are multiples of what is carried, so they scale with it.
  SmallVector<int64_t> starts(getStarts());
  for (auto [start, size, local] :
       llvm::zip_equal(starts, getShape(getInput()), getShape(context.operand(0))))
    if (size != local)
      start = start * local / size;
  // An uneven share is padded: local sizes are products of rounded-up factors, of which `start * local /
  // size` is exact.
  auto type =
      RankedTensorType::get(context.localResultShape(0), cast<RankedTensorType>(getType()).getElementType());
  return SmallVector<Value>{
      SliceOp::create(builder, getLoc(), type, context.operand(0), starts, SmallVector<int64_t>(getSteps()))};
}

FactorRule ConcatOp::getFactorRule() {
  FactorRule rule;
  ArrayRef<int64_t> shape = getShape(getResult());
  unsigned axis = getAxis();
  int64_t carried = 0;
  for (Value input : getInputs())
    carried = std::gcd(carried, getShape(input)[axis]);
  TensorFactors common;
  for (auto [d, size] : llvm::enumerate(shape))
    common.push_back(d == axis ? DimFactors() : DimFactors{rule.add(size)});
  unsigned shared = carried > 1 ? rule.add(carried) : 0;
  auto addTensor = [&](Value value) {
    TensorFactors dims = common;
    int64_t size = getShape(value)[axis];
    if (carried <= 1 || size != carried)
      dims[axis].push_back(rule.add(carried <= 1 ? size : size / carried, FactorKind::Whole));
    if (carried > 1)
      dims[axis].push_back(shared);
    return dims;
  };
  for (Value input : getInputs())
    rule.operands.push_back(addTensor(input));
  rule.results.push_back(addTensor(getResult()));
  addCarried(*this, rule);
  return rule;
}

FactorRule PadOp::getFactorRule() {
  FactorRule rule;
  TensorFactors input, result;
  for (auto [d, size] : llvm::enumerate(getShape(getInput()))) {
    int64_t padded = getShape(getResult())[d];
    bool isKept = getLow()[d] == 0 && size == padded;
    input.push_back({rule.add(size, isKept ? FactorKind::Parallel : FactorKind::Whole)});
    result.push_back({isKept ? input.back().front() : rule.add(padded, FactorKind::Whole)});
  }
  rule.operands.push_back(input);
  if (getValue())
    rule.operands.push_back(TensorFactors(getShape(getValue()).size()));
  rule.results.push_back(result);
  return rule;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

// What moves elements moves their gradients back, and reads no value.
bool ReshapeOp::isOperandSaved(unsigned operand) {
  return false;
}
bool TransposeOp::isOperandSaved(unsigned operand) {
  return false;
}
bool BroadcastOp::isOperandSaved(unsigned operand) {
  return false;
}
bool SliceOp::isOperandSaved(unsigned operand) {
  return false;
}
bool ConcatOp::isOperandSaved(unsigned operand) {
  return false;
}
bool PadOp::isOperandSaved(unsigned operand) {
  return false;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelKind ReshapeOp::getKernelKind() {
  return KernelKind::Movement;
}

Forwarding ReshapeOp::getForwarding() {
  return Forwarding::All;
}

int64_t ReshapeOp::getElementCost() {
  return 0;
}

KernelKind TransposeOp::getKernelKind() {
  return KernelKind::Movement;
}

Forwarding TransposeOp::getForwarding() {
  return Forwarding::All;
}

std::optional<SmallVector<unsigned>> TransposeOp::getDimensionOrder() {
  return SmallVector<unsigned>(getPermutation().begin(), getPermutation().end());
}

int64_t TransposeOp::getElementCost() {
  return 0;
}

KernelKind BroadcastOp::getKernelKind() {
  return KernelKind::Movement;
}

Forwarding BroadcastOp::getForwarding() {
  return Forwarding::All;
}

int64_t BroadcastOp::getElementCost() {
  return 0;
}

// Strides cannot go backwards.
KernelKind SliceOp::getKernelKind() {
  bool forwards = llvm::all_of(getSteps(), [](int64_t step) { return step > 0; });
  return forwards ? KernelKind::Movement : KernelKind::Element;
}

Forwarding SliceOp::getForwarding() {
  return Forwarding::Some;
}

KernelKind PadOp::getKernelKind() {
  return (*this)->hasAttr(kRoomAttrName) ? KernelKind::Padding : KernelKind::Element;
}

SmallVector<int64_t> PadOp::getLowBorder() {
  return SmallVector<int64_t>(getLow());
}

/// Strides of `to` over the memory of `from`, run by run of dimensions with equal products.
static std::optional<SmallVector<int64_t>> reshapeStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> strides,
                                                          ArrayRef<int64_t> to) {
  if (llvm::is_contained(from, 0))
    return computeStrides(to);
  // Dimensions of size 1 say nothing about memory; neighbours that follow each other are one.
  SmallVector<std::pair<int64_t, int64_t>> runs; // size, stride of the innermost element
  for (auto [size, stride] : llvm::zip(from, strides)) {
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().second == size * stride)
      runs.back() = {runs.back().first * size, stride};
    else
      runs.push_back({size, stride});
  }
  SmallVector<int64_t> result(to.size(), 1);
  int run = (int)runs.size() - 1;
  int64_t taken = 1;
  for (int d = (int)to.size() - 1; d >= 0; --d) {
    if (to[d] == 1)
      continue;
    if (run < 0)
      return std::nullopt;
    result[d] = runs[run].second * taken;
    taken *= to[d];
    if (runs[run].first % taken != 0)
      return std::nullopt;
    if (taken == runs[run].first) {
      --run;
      taken = 1;
    }
  }
  return result;
}

std::optional<ElementPlaces> ReshapeOp::viewThrough(const ElementPlaces &input) {
  auto strides = reshapeStrides(shapeOf(getInput()), input.strides, shapeOf(getResult()));
  if (!strides)
    return std::nullopt;
  return ElementPlaces{input.offset, std::move(*strides)};
}

bool ReshapeOp::keepsOrder() {
  return true;
}

std::optional<ElementPlaces> TransposeOp::viewThrough(const ElementPlaces &input) {
  ElementPlaces places = input;
  for (auto [d, source] : llvm::enumerate(getPermutation()))
    places.strides[d] = input.strides[source];
  return places;
}

std::optional<ElementPlaces> BroadcastOp::viewThrough(const ElementPlaces &input) {
  ArrayRef<int64_t> from = shapeOf(getInput()), to = shapeOf(getResult());
  ElementPlaces places{input.offset, SmallVector<int64_t>(to.size(), 0)};
  for (unsigned d = 0; d < from.size(); ++d)
    if (unsigned at = d + to.size() - from.size(); from[d] != 1 || to[at] == 1)
      places.strides[at] = input.strides[d];
  return places;
}

std::optional<ElementPlaces> SliceOp::viewThrough(const ElementPlaces &input) {
  ElementPlaces places = input;
  ArrayRef<int64_t> shape = shapeOf(getResult());
  for (unsigned d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0)
      continue;
    places.offset += input.strides[d] * getStarts()[d];
    places.strides[d] = input.strides[d] * getSteps()[d];
  }
  return places;
}

//===----------------------------------------------------------------------===//
// Integer ranges
//===----------------------------------------------------------------------===//

void ReshapeOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  set(getResult(), ranges[0]);
}

void TransposeOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  set(getResult(), ranges[0]);
}

void BroadcastOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  set(getResult(), ranges[0]);
}

void SliceOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  set(getResult(), ranges[0]);
}

void ConcatOp::inferResultRangesFromOptional(ArrayRef<IntegerValueRange> ranges, SetIntLatticeFn set) {
  IntegerValueRange all = ranges[0];
  for (const IntegerValueRange &range : ranges.drop_front())
    all = IntegerValueRange::join(all, range);
  set(getResult(), all);
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value ReshapeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return emitter.load(getInput(), reshapeIndex(emitter, index, shapeOf(getResult()), shapeOf(getInput())));
}

Value TransposeOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  SmallVector<Lane> in(index.size());
  for (auto [d, source] : llvm::enumerate(getPermutation()))
    in[source] = index[d];
  return emitter.load(getInput(), in);
}

Value BroadcastOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  return emitter.load(getInput(), broadcastIndex(emitter, index, getInput()));
}

Value SliceOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  SmallVector<Lane> in;
  for (unsigned d = 0; d < index.size(); ++d) {
    Lane start = emitter.constant(getStarts()[d]);
    in.push_back(emitter.add(emitter.mul(index[d], getSteps()[d]), start));
  }
  return emitter.load(getInput(), in);
}

Value ConcatOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  int64_t axis = getAxis();
  SmallVector<Value> inputs;
  for (Value input : getInputs())
    if (shapeOf(input)[axis] != 0)
      inputs.push_back(input);
  if (inputs.empty())
    return emitter.scalar(elementTypeOf(getResult()), 0);
  auto part = [&](auto self, unsigned i, int64_t start) -> Value {
    auto read = [&] {
      SmallVector<Lane> in(index);
      in[axis] = emitter.add(in[axis], emitter.constant(-start));
      return emitter.load(inputs[i], in);
    };
    if (i + 1 == inputs.size())
      return read();
    int64_t end = start + shapeOf(inputs[i])[axis];
    return emitter.choose(emitter.inRange(index[axis], start, end), read,
                          [&] { return self(self, i + 1, end); });
  };
  return part(part, 0, 0);
}

Value PadOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  SmallVector<Lane> in;
  Value inside;
  OpBuilder &b = emitter.builder();
  Type i64 = b.getI64Type(), boolean = b.getI1Type();
  for (unsigned d = 0; d < index.size(); ++d) {
    int64_t size = shapeOf(getInput())[d], low = getLow()[d];
    int64_t high = shapeOf(getResult())[d] - low - size;
    Lane lane = emitter.add(index[d], emitter.constant(-low));
    if (low > 0 || high > 0) {
      Element at(emitter, emitter.toValue(lane, i64), i64);
      switch (getMode()) {
      case PadMode::Constant: {
        Element here(emitter, emitter.inRange(lane, 0, size), boolean);
        inside = inside ? (Element(emitter, inside, boolean) & here).get() : here.get();
        break;
      }
      case PadMode::Edge: lane = emitter.fromValue(at.max(at.like(0)).min(at.like(size - 1)).get()); break;
      case PadMode::Wrap: lane = emitter.fromValue(at.modulo(at.like(size)).get()); break;
      case PadMode::Reflect: {
        int64_t period = size > 1 ? 2 * (size - 1) : 1;
        Element turned = at.modulo(at.like(period));
        lane = emitter.fromValue(turned.min(at.like(period) - turned).min(at.like(size - 1)).get());
        if (size == 1)
          lane = emitter.constant(0);
        break;
      }
      }
    }
    in.push_back(lane);
  }
  if (!inside)
    return emitter.load(getInput(), in);
  Type element = elementTypeOf(getInput());
  auto fill = [&]() -> Value {
    if (!getValue())
      return emitter.scalar(element, 0);
    return emitter.load(getValue(), SmallVector<Lane>(shapeOf(getValue()).size(), emitter.constant(0)));
  };
  if (shapeOf(getInput()).empty() || llvm::is_contained(shapeOf(getInput()), 0))
    return fill();
  return emitter.choose(inside, [&] { return emitter.load(getInput(), in); }, fill);
}
