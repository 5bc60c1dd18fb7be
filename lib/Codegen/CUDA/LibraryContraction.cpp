//===- LibraryContraction.cpp - contractions to library calls ---------------===//
//
// A contraction has any dimensions; the library multiplies matrices, as many as there are at equal distances.
// Neighbouring dimensions that follow each other in all tensors are one. Of what is left one dimension of
// each kind is the matrices', one the batch, and the others are loops of calls.
//
//===----------------------------------------------------------------------===//
#include "LibraryContraction.h"

#include "TensorCores.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

namespace {

/// More calls than these cost more than a kernel of our own.
constexpr int64_t maxCalls = 16;
/// What the library may take for partial sums: what its documentation advises at most.
constexpr int64_t maxWorkspace = int64_t(32) << 20, workspaceAlignment = 256;
/// What the library reads of a bias at a time.
constexpr int64_t biasAlignment = 16;

/// A dimension: its strides in the tensors that have it, 0 elsewhere.
struct Dim {
  int64_t size = 1, a = 0, b = 0, c = 0, bias = 0;
};
using Dims = SmallVector<Dim>;

/// What follows a contraction in its group.
struct Tail {
  Value bias;
  StringRef activation = "";
};

std::optional<Tail> matchTail(ContractOp op, ArrayRef<Operation *> ops) {
  Tail tail;
  Value current = op.getResult();
  for (Operation *member : ops) {
    auto elementwise = dyn_cast<ElementwiseOp>(member);
    if (!elementwise || !tail.activation.empty() || member->getResult(0).getType() != current.getType())
      return std::nullopt;
    if (elementwise.getKind() == ElementwiseKind::Add && !tail.bias && member->getNumOperands() == 2) {
      Value left = member->getOperand(0), right = member->getOperand(1);
      if ((left == current) == (right == current))
        return std::nullopt;
      tail.bias = left == current ? right : left;
    } else if (member->getNumOperands() == 1 && member->getOperand(0) == current &&
               (elementwise.getKind() == ElementwiseKind::Relu ||
                elementwise.getKind() == ElementwiseKind::GeluTanh)) {
      tail.activation = elementwise.getKind() == ElementwiseKind::Relu ? "relu" : "gelu_tanh";
    } else {
      return std::nullopt;
    }
    current = member->getResult(0);
  }
  return tail;
}

int64_t product(ArrayRef<Dim> dims) {
  int64_t size = 1;
  for (const Dim &dim : dims)
    size *= dim.size;
  return size;
}

/// Neighbours that follow each other in all tensors become one.
void mergeDims(Dims &dims) {
  for (unsigned i = 0; i + 1 < dims.size();) {
    const Dim outer = dims[i], inner = dims[i + 1];
    auto follows = [&](int64_t Dim::*stride) { return outer.*stride == inner.*stride * inner.size; };
    if (follows(&Dim::a) && follows(&Dim::b) && follows(&Dim::c) && follows(&Dim::bias)) {
      dims[i] = inner;
      dims[i].size = outer.size * inner.size;
      dims.erase(dims.begin() + i + 1);
    } else {
      ++i;
    }
  }
}

/// Strides of a matrix as a plan wants them; those of a single row or column do not matter, and are chosen
/// so.
std::optional<std::pair<int64_t, int64_t>> matrixStrides(int64_t rows, int64_t columns, int64_t rowStride,
                                                         int64_t columnStride) {
  if (columns == 1)
    columnStride = rowStride == 1 || rows == 1 ? rows : 1;
  if (rows == 1)
    rowStride = columnStride == 1 ? columns : 1;
  if ((columnStride == 1 && rowStride >= columns) || (rowStride == 1 && columnStride >= rows))
    return std::pair(rowStride, columnStride);
  return std::nullopt;
}

/// A group on its way to its calls. Members are set in the order in which they stand.
class LibraryCalls {
public:
  LibraryCalls(LoweringContext &context, FusionGroup &group)
      : context(context), group(group), op(cast<ContractOp>(group.routine)), result(group.outputs.front()),
        element(elementTypeOf(op.getResult())) {}

  FailureOr<bool> run();

private:
  enum Kind : unsigned { Batch, M, N, K };

  LogicalResult findViews();
  void collectDims();
  bool chooseMatrices();
  std::optional<SmallVector<SmallVector<int64_t>>> stridesOf(const Dim &m, const Dim &n, const Dim &k) const;
  void chooseBatch();
  bool isBiasAligned() const;
  void appendCalls();
  void appendCall(const Dim &offset, unsigned workspace, int64_t workspaceBytes);

  LoweringContext &context;
  FusionGroup &group;
  ContractOp op;
  Value result;
  Type element;
  Tail tail;
  View a, b, c, bias;
  Dims dims[4]; ///< by kind, outermost first
  Dim m, n, k, batch;
  SmallVector<SmallVector<int64_t>> strides; ///< row and column of A, B, C
  Dims loops;
};

LogicalResult LibraryCalls::findViews() {
  auto left = context.viewOf(op.getLhs()), right = context.viewOf(op.getRhs());
  if (failed(left) || failed(right))
    return failure();
  a = *left, b = *right;
  if (tail.bias) {
    auto view = context.viewOf(tail.bias);
    if (failed(view))
      return failure();
    bias = *view;
  }
  c = context.allocate(result, /*inside=*/true);
  return success();
}

void LibraryCalls::collectDims() {
  struct Label {
    Dim dim;
    bool inA = false, inB = false, inC = false;
  };
  llvm::MapVector<int64_t, Label> labels;
  auto add = [&](ArrayRef<int64_t> names, ArrayRef<int64_t> shape, ArrayRef<int64_t> steps,
                 int64_t Dim::*stride, bool Label::*isIn) {
    for (auto [name, size, step] : llvm::zip_equal(names, shape, steps)) {
      labels[name].dim.*stride = step;
      labels[name].dim.size = size;
      labels[name].*isIn = true;
    }
  };
  add(op.getResultDims(), shapeOf(op.getResult()), c.strides, &Dim::c, &Label::inC);
  add(op.getLhsDims(), shapeOf(op.getLhs()), a.strides, &Dim::a, &Label::inA);
  add(op.getRhsDims(), shapeOf(op.getRhs()), b.strides, &Dim::b, &Label::inB);
  if (tail.bias) {
    ArrayRef<int64_t> shape = shapeOf(tail.bias);
    ArrayRef<int64_t> names = op.getResultDims().take_back(shape.size());
    for (auto [name, size, step] : llvm::zip_equal(names, shape, bias.strides))
      labels[name].dim.bias = size == 1 ? 0 : step;
  }
  for (auto &[name, label] : labels)
    if (label.dim.size != 1)
      dims[!label.inC ? K : label.inA && label.inB ? Batch : label.inA ? M : N].push_back(label.dim);
  for (Kind kind : {Batch, M, N, K}) {
    llvm::stable_sort(dims[kind],
                      [&](const Dim &x, const Dim &y) { return kind == K ? x.a > y.a : x.c > y.c; });
    mergeDims(dims[kind]);
  }
}

std::optional<SmallVector<SmallVector<int64_t>>> LibraryCalls::stridesOf(const Dim &m, const Dim &n,
                                                                         const Dim &k) const {
  auto left = matrixStrides(m.size, k.size, m.a, k.a), right = matrixStrides(k.size, n.size, k.b, n.b),
       out = matrixStrides(m.size, n.size, m.c, n.c);
  if (!left || !right || !out)
    return std::nullopt;
  if (tail.bias) {
    // One element for each column of C, which lies row by row.
    if (n.size > 1 && (n.bias != 1 || out->second != 1))
      return std::nullopt;
    if (out->second != 1) // a single column may be read either way
      out = std::pair(std::max<int64_t>(m.size > 1 ? m.c : 1, 1), int64_t(1));
  }
  SmallVector<SmallVector<int64_t>> strides;
  for (const auto &pair : {*left, *right, *out})
    strides.push_back({pair.first, pair.second});
  return strides;
}

/// The greatest matrices for which the library has a name; what is left goes to the loops.
bool LibraryCalls::chooseMatrices() {
  if (dims[K].size() > 1)
    return false;
  k = dims[K].empty() ? Dim() : dims[K].front();
  int64_t best = 0, chosenM = -1, chosenN = -1;
  const auto rows = static_cast<int64_t>(dims[M].size()), columns = static_cast<int64_t>(dims[N].size());
  for (int64_t i = rows - 1; i >= (rows ? 0 : -1); --i)
    for (int64_t j = columns - 1; j >= (columns ? 0 : -1); --j) {
      const Dim tryM = i < 0 ? Dim() : dims[M][i], tryN = j < 0 ? Dim() : dims[N][j];
      auto found = stridesOf(tryM, tryN, k);
      if (!found || tryM.size * tryN.size <= best)
        continue;
      best = tryM.size * tryN.size, chosenM = i, chosenN = j;
      m = tryM, n = tryN, strides = *found;
    }
  if (!best)
    return false;
  for (auto [kind, chosen] : {std::pair(M, chosenM), std::pair(N, chosenN)})
    for (auto [i, dim] : llvm::enumerate(dims[kind]))
      if (static_cast<int64_t>(i) != chosen)
        loops.push_back(dim);
  llvm::append_range(loops, dims[Batch]);
  return true;
}

/// The longest of the loops is the library's batch, if the bias is the same for all.
void LibraryCalls::chooseBatch() {
  Dim *longest = nullptr;
  for (Dim &dim : loops)
    if ((!longest || dim.size > longest->size) && dim.c != 0 && dim.bias == 0)
      longest = &dim;
  if (!longest)
    return;
  batch = *longest;
  loops.erase(longest);
}

/// What the library computes products of `element` in: f32 as the precision of the model says.
StringRef getComputeType(Operation *op, Type element) {
  if (element.isF64())
    return "f64";
  return element.isF32() && nvidia::roundsToTf32(op) ? "tf32" : "f32";
}

Operation *makeContraction(OpBuilder &b, Location loc, ArrayRef<plan::BufferAttr> buffers, Type element,
                           StringRef compute, ArrayRef<int64_t> sizes, ArrayRef<SmallVector<int64_t>> strides,
                           bool bias, StringRef activation) {
  SmallVector<Attribute> attributes(buffers.begin(), buffers.end());
  auto list = [&](ArrayRef<int64_t> values) { return b.getDenseI64ArrayAttr(values); };
  return plan::ContractionOp::create(b, loc, b.getArrayAttr(attributes), TypeAttr::get(element),
                                     TypeAttr::get(element), b.getStringAttr(compute), list(sizes),
                                     list(strides[0]), list(strides[1]), list(strides[2]),
                                     b.getBoolAttr(bias), b.getStringAttr(activation));
}

/// One call; `offset` has the elements by which its matrices lie behind the tensors' beginnings.
void LibraryCalls::appendCall(const Dim &offset, unsigned workspace, int64_t workspaceBytes) {
  const int64_t size = kernel::elementBytes(element);
  SmallVector<SmallVector<int64_t>> all = strides;
  all[0].insert(all[0].begin(), batch.a);
  all[1].insert(all[1].begin(), batch.b);
  all[2].insert(all[2].begin(), batch.c);
  auto accessOf = [&](const View &view, int64_t skipped, ArrayRef<int64_t> shape, ArrayRef<int64_t> steps,
                      bool writes) {
    int64_t last = 0;
    for (auto [extent, step] : llvm::zip_equal(shape, steps))
      last += (extent - 1) * step;
    return Access{view.storage, (view.offset + skipped) * size, (last + 1) * size, writes, view.turn * size};
  };
  SmallVector<Access> accesses{accessOf(a, offset.a, {batch.size, m.size, k.size}, all[0], false),
                               accessOf(b, offset.b, {batch.size, k.size, n.size}, all[1], false)};
  if (tail.bias)
    accesses.push_back(accessOf(bias, offset.bias, {n.size}, {1}, false));
  accesses.push_back({workspace, 0, workspaceBytes, true});
  accesses.push_back(accessOf(c, offset.c, {batch.size, m.size, n.size}, all[2], true));
  Instruction call{accesses,
                   false,
                   op.getLoc(),
                   [element = element, compute = getComputeType(op, element),
                    sizes = SmallVector<int64_t>{batch.size, m.size, n.size, k.size}, all,
                    bias = bool(tail.bias), activation = tail.activation.str(),
                    loc = op.getLoc()](OpBuilder &b, ArrayRef<plan::BufferAttr> buffers, IRMapping &) {
                     return makeContraction(b, loc, buffers, element, compute, sizes, all, bias, activation);
                   },
                   {}};
  context.append(std::move(call));
}

bool LibraryCalls::isBiasAligned() const {
  const int64_t size = kernel::elementBytes(element);
  auto isAligned = [&](int64_t elements) { return elements * size % biasAlignment == 0; };
  return !tail.bias || (isAligned(bias.offset) && isAligned(bias.turn) &&
                        llvm::all_of(loops, [&](const Dim &dim) { return isAligned(dim.bias); }));
}

void LibraryCalls::appendCalls() {
  // Room for the partial sums of several parts of k.
  const int64_t partial = element.isF64() ? 8 : 4;
  const int64_t workspaceBytes = std::min<int64_t>(
      maxWorkspace, llvm::alignTo(4 * batch.size * m.size * n.size * partial, workspaceAlignment));
  const unsigned workspace = context.newStorage(workspaceBytes);
  for (int64_t i = 0; i < product(loops); ++i) {
    Dim offset;
    int64_t rest = i;
    for (const Dim &dim : llvm::reverse(loops)) {
      const int64_t at = rest % dim.size;
      rest /= dim.size;
      offset.a += at * dim.a, offset.b += at * dim.b, offset.c += at * dim.c, offset.bias += at * dim.bias;
    }
    appendCall(offset, workspace, workspaceBytes);
  }
}

FailureOr<bool> LibraryCalls::run() {
  SmallVector<Operation *> rest;
  llvm::copy_if(group.ops, std::back_inserter(rest), [&](Operation *member) { return member != op; });
  auto matched = matchTail(op, rest);
  if (!matched || tensorOf(result).getNumElements() == 0 || tensorOf(op.getLhs()).getNumElements() == 0)
    return false;
  tail = *matched;
  if (failed(findViews()))
    return failure();
  collectDims();
  if (!chooseMatrices())
    return false;
  chooseBatch();
  if (product(loops) > maxCalls || !isBiasAligned())
    return false;
  for (int64_t extent : {m.size, n.size, k.size, batch.size})
    if (extent > std::numeric_limits<int32_t>::max())
      return false;
  if (batch.a < 0 || batch.b < 0 || batch.c < 0) // a view that runs backwards
    return false;
  context.setView(result, c);
  appendCalls();
  return true;
}

} // namespace

bool nvidia::isOfLibrary(ContractOp op) {
  Type element = elementTypeOf(op.getResult());
  return (element.isF32() || element.isF64() || element.isF16() || element.isBF16()) &&
         elementTypeOf(op.getLhs()) == element && elementTypeOf(op.getRhs()) == element;
}

bool nvidia::fitsLibrary(ContractOp op, ArrayRef<Operation *> ops) {
  if (!isOfLibrary(op) || elementTypeOf(op.getResult()).isF64())
    return false;
  auto tail = matchTail(op, ops);
  if (!tail)
    return false;
  if (!tail->bias)
    return true;
  // A vector along what only the right side has, all of it.
  ArrayRef<int64_t> shape = shapeOf(tail->bias), names = op.getResultDims();
  if (shape.size() > names.size())
    return false;
  for (auto [position, name] : llvm::enumerate(names)) {
    const bool isColumn = !llvm::is_contained(op.getLhsDims(), name);
    const int64_t from = static_cast<int64_t>(position + shape.size()) - static_cast<int64_t>(names.size());
    const int64_t extent = from < 0 ? 1 : shape[from];
    if (extent != (isColumn ? shapeOf(op.getResult())[position] : 1))
      return false;
  }
  return true;
}

FailureOr<bool> nvidia::callLibrary(LoweringContext &context, FusionGroup &group) {
  return LibraryCalls(context, group).run();
}
