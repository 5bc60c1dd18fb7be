//===- Movement.cpp - ONNX operators that move elements ---------------------===//
//
// Reshapes, transposes, slices, concatenation, padding, and what is made of them.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// Larger block sizes and pads fit no tensor, and their products would overflow.
constexpr int64_t kMostBlock = 1 << 20;

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

LogicalResult setReshaped(Node &n, ArrayRef<int64_t> shape) {
  if (!isPossibleShape(shape) || product(shape) != GraphBuilder::typeOf(n.in(0)).getNumElements()) {
    auto diagnostic = n.error() << "cannot reshape " << n.in(0).getType() << " to [";
    llvm::interleaveComma(shape, diagnostic);
    return diagnostic << "]";
  }
  return n.set(n.b.reshape(n.in(0), shape));
}

LogicalResult importReshape(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto shape = n.intsAttrOrInput("shape", 1, std::nullopt);
  if (failed(shape))
    return failure();
  bool allowZero = n.intAttr("allowzero", 0);
  int64_t known = 1, open = -1;
  for (auto [d, size] : llvm::enumerate(*shape)) {
    if (size == 0 && !allowZero) {
      if (int64_t(d) >= n.rank(0))
        return n.error() << "the shape copies dimension " << d << " of a tensor of rank " << n.rank(0);
      size = n.shape(0)[d];
    }
    if (size == -1) {
      if (open >= 0)
        return n.error() << "the shape has two open dimensions";
      open = d;
    } else if (size < 0 || __builtin_mul_overflow(known, size, &known)) {
      return n.error() << "the shape has dimension " << size;
    }
  }
  if (open >= 0)
    (*shape)[open] = known ? GraphBuilder::typeOf(n.in(0)).getNumElements() / known : 0;
  return setReshaped(n, *shape);
}

LogicalResult importFlatten(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t axis = n.intAttr("axis", 1), rank = n.rank(0);
  if (axis < -rank || axis > rank)
    return n.error() << "axis " << axis << " is outside a tensor of rank " << rank;
  axis += axis < 0 ? rank : 0;
  return n.set(
      n.b.reshape(n.in(0), {product(n.shape(0).take_front(axis)), product(n.shape(0).drop_front(axis))}));
}

LogicalResult importSqueeze(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto given = n.intsAttrOrInput("axes", 1, SmallVector<int64_t>());
  if (failed(given))
    return failure();
  bool all = !n.hasAttr("axes") && !n.in(1);
  auto axes = n.axes(*given, n.rank(0));
  if (failed(axes))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [d, size] : llvm::enumerate(n.shape(0))) {
    bool removed = all ? size == 1 : llvm::is_contained(*axes, int64_t(d));
    if (removed && size != 1)
      return n.error() << "dimension " << d << " has size " << size << " and cannot be squeezed";
    if (!removed)
      shape.push_back(size);
  }
  return n.set(n.b.reshape(n.in(0), shape));
}

LogicalResult importUnsqueeze(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto given = n.intsAttrOrInput("axes", 1, std::nullopt);
  if (failed(given))
    return failure();
  auto axes = n.axes(*given, n.rank(0) + given->size());
  if (failed(axes))
    return failure();
  if (axes->size() != given->size())
    return n.error() << "an axis occurs twice";
  return n.set(n.b.unsqueeze(n.in(0), *axes));
}

LogicalResult importTranspose(Node &n) {
  if (failed(n.require(1)))
    return failure();
  SmallVector<int64_t> permutation = n.intsAttr("perm");
  int64_t rank = n.rank(0);
  if (!n.hasAttr("perm"))
    for (int64_t d = rank - 1; d >= 0; --d)
      permutation.push_back(d);
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, rank)))
    return n.error() << "perm is not a permutation of " << rank << " dimensions";
  return n.set(n.b.transpose(n.in(0), permutation));
}

LogicalResult importConcat(Node &n) {
  if (failed(n.require(std::max<size_t>(1, n.inputCount()))))
    return failure();
  auto axis = n.axis(n.intAttr("axis", 1), n.rank(0));
  if (failed(axis))
    return failure();
  SmallVector<Value> parts;
  for (size_t i = 0; i < n.inputCount(); ++i) {
    bool fits = n.rank(i) == n.rank(0) && n.element(i) == n.element(0);
    for (int64_t d = 0; fits && d < n.rank(0); ++d)
      fits = d == *axis || n.shape(i)[d] == n.shape(0)[d];
    if (!fits)
      return n.error() << "input " << i << ", " << n.in(i).getType() << ", does not fit to "
                       << n.in(0).getType();
    if (n.shape(i)[*axis] != 0)
      parts.push_back(n.in(i));
  }
  if (parts.empty())
    parts.push_back(n.in(0));
  return n.set(n.b.concat(parts, *axis));
}

LogicalResult importSplit(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto axis = n.axis(n.intAttr("axis", 0), n.rank(0));
  auto sizes = n.intsAttrOrInput("split", 1, SmallVector<int64_t>());
  if (failed(axis) || failed(sizes))
    return failure();
  int64_t size = n.shape(0)[*axis], parts = n.intAttr("num_outputs", n.outputCount());
  if (parts != int64_t(n.outputCount()))
    return n.error() << "num_outputs is " << parts << ", and there are " << n.outputCount() << " outputs";
  if (sizes->empty() && parts > 0) {
    int64_t chunk = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes->push_back(std::max<int64_t>(0, std::min(chunk, size - i * chunk)));
  }
  int64_t start = 0;
  for (auto [i, part] : llvm::enumerate(*sizes)) {
    if (part < 0 || part > size - start || i >= n.outputCount())
      return n.error() << "the parts do not add up to dimension " << *axis << " of size " << size;
    n.give(i, n.b.sliceDim(n.in(0), *axis, start, part));
    start += part;
  }
  if (start != size)
    return n.error() << "the parts do not add up to dimension " << *axis << " of size " << size;
  return success();
}

LogicalResult importSlice(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto starts = n.intsAttrOrInput("starts", 1, std::nullopt),
       ends = n.intsAttrOrInput("ends", 2, std::nullopt);
  if (failed(starts) || failed(ends))
    return failure();
  SmallVector<int64_t> defaultAxes = llvm::to_vector(llvm::seq<int64_t>(0, starts->size())),
                       defaultSteps(starts->size(), 1);
  auto axes = n.intsAttrOrInput("axes", 3, defaultAxes), steps = n.intsAttrOrInput("steps", 4, defaultSteps);
  if (failed(axes) || failed(steps))
    return failure();
  if (ends->size() != starts->size() || axes->size() != starts->size() || steps->size() != starts->size())
    return n.error() << "starts, ends, axes and steps differ in number";
  SmallVector<int64_t> from(n.rank(0), 0), by(n.rank(0), 1), sizes(n.shape(0));
  for (size_t i = 0; i < starts->size(); ++i) {
    auto axis = n.axis((*axes)[i], n.rank(0));
    if (failed(axis))
      return failure();
    int64_t step = (*steps)[i], size = n.shape(0)[*axis];
    if (step == 0)
      return n.error() << "a step is 0";
    // As in NumPy: negative counts from the end, then clamped to what the direction can reach.
    auto clamp = [&](int64_t at) {
      at = at < 0 ? (at < -size ? -1 - size : at) + size : at;
      return step > 0 ? std::clamp<int64_t>(at, 0, size)
                      : std::clamp<int64_t>(at, -1, std::max<int64_t>(size - 1, -1));
    };
    int64_t start = clamp((*starts)[i]), end = clamp((*ends)[i]);
    int64_t distance = step > 0 ? end - start : start - end;
    // |INT64_MIN| does not exist; such a step takes one element.
    int64_t stride = step == INT64_MIN ? INT64_MAX : std::abs(step);
    from[*axis] = start;
    by[*axis] = step;
    sizes[*axis] = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    if (sizes[*axis] <= 1)
      by[*axis] = 1;
    if (sizes[*axis] == 0)
      from[*axis] = 0;
  }
  return n.set(n.b.slice(n.in(0), from, sizes, by));
}

/// Expand is two-way broadcasting: a 1 in the target keeps the input's size.
LogicalResult importExpand(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto target = n.intsInput(1);
  if (failed(target))
    return failure();
  auto shape = broadcastShapes(n.shape(0), *target);
  if (!shape || llvm::any_of(*shape, [](int64_t size) { return size < 0; })) {
    auto diagnostic = n.error() << "cannot expand " << n.in(0).getType() << " to [";
    llvm::interleaveComma(*target, diagnostic);
    return diagnostic << "]";
  }
  return n.set(n.b.broadcast(n.in(0), *shape));
}

LogicalResult importTile(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto repeats = n.intsInput(1);
  if (failed(repeats))
    return failure();
  if (int64_t(repeats->size()) != n.rank(0) || llvm::any_of(*repeats, [](int64_t r) { return r < 0; }))
    return n.error() << "one count >= 0 per dimension is expected";
  // [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r a, s b]
  SmallVector<int64_t> apart, stretched, joined;
  for (auto [size, repeat] : llvm::zip(n.shape(0), *repeats)) {
    int64_t total;
    if (__builtin_mul_overflow(size, repeat, &total))
      return n.error() << "the result is too large";
    joined.push_back(total);
    if (repeat != 1) {
      apart.push_back(1);
      stretched.push_back(repeat);
    }
    apart.push_back(size);
    stretched.push_back(size);
  }
  return n.set(n.b.reshape(n.b.broadcast(n.b.reshape(n.in(0), apart), stretched), joined));
}

LogicalResult importPad(Node &n) {
  if (failed(n.require(1)))
    return failure();
  auto pads = n.intsAttrOrInput(n.hasAttr("paddings") ? "paddings" : "pads", 1, std::nullopt);
  if (failed(pads))
    return failure();
  int64_t rank = n.rank(0);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank)), low(rank, 0), high(rank, 0);
  if (n.in(3)) {
    auto given = n.intsInput(3);
    if (failed(given))
      return failure();
    axes.clear();
    for (int64_t axis : *given) {
      auto at = n.axis(axis, rank);
      if (failed(at))
        return failure();
      axes.push_back(*at);
    }
  }
  if (pads->size() != 2 * axes.size())
    return n.error() << "two pads per axis are expected";
  for (auto [i, axis] : llvm::enumerate(axes)) {
    low[axis] = (*pads)[i];
    high[axis] = (*pads)[i + axes.size()];
    for (int64_t pad : {low[axis], high[axis]})
      if (pad < -kMostElements || pad > kMostElements)
        return n.error() << "a pad of " << pad << " is out of range";
    if (n.shape(0)[axis] + low[axis] + high[axis] < 0)
      return n.error() << "dimension " << axis << " would get a negative size";
  }
  StringRef name = n.stringAttr("mode", "constant");
  std::optional<PadMode> mode = symbolizePadMode(name);
  if (!mode)
    return n.error() << "mode '" << name << "' is unknown";
  Value value = n.in(2);
  if (value)
    value = n.b.reshape(value, {});
  else if (n.floatAttr("value", 0) != 0)
    value = n.b.scalar(n.element(0), n.floatAttr("value", 0));
  for (int64_t d = 0; d < rank && *mode != PadMode::Constant; ++d)
    if ((n.shape(0)[d] == 0 && (low[d] > 0 || high[d] > 0)) ||
        (*mode == PadMode::Reflect && n.shape(0)[d] == 1 && (low[d] > 0 || high[d] > 0)))
      return n.error() << "dimension " << d << " is too small for mode '" << name << "'";
  if (llvm::all_of(low, [](int64_t p) { return p == 0; }) &&
      llvm::all_of(high, [](int64_t p) { return p == 0; }))
    return n.set(n.in(0));
  return n.set(n.b.pad(n.in(0), low, high, *mode == PadMode::Constant ? value : Value(), *mode));
}

LogicalResult importDepthToSpace(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t block = n.intAttr("blocksize", 0);
  if (n.rank(0) != 4 || block <= 0 || block > kMostBlock || n.shape(0)[1] % (block * block))
    return n.error() << "a 4-d tensor whose channels are a multiple of blocksize^2 is expected";
  int64_t batch = n.shape(0)[0], c = n.shape(0)[1] / (block * block), h = n.shape(0)[2], w = n.shape(0)[3];
  bool dcr = n.stringAttr("mode", "DCR") == "DCR";
  Value x = dcr ? n.b.reshape(n.in(0), {batch, block, block, c, h, w})
                : n.b.reshape(n.in(0), {batch, c, block, block, h, w});
  x = n.b.transpose(x, dcr ? ArrayRef<int64_t>{0, 3, 4, 1, 5, 2} : ArrayRef<int64_t>{0, 1, 4, 2, 5, 3});
  return n.set(n.b.reshape(x, {batch, c, h * block, w * block}));
}

LogicalResult importSpaceToDepth(Node &n) {
  if (failed(n.require(1)))
    return failure();
  int64_t block = n.intAttr("blocksize", 0);
  if (n.rank(0) != 4 || block <= 0 || block > kMostBlock || n.shape(0)[2] % block || n.shape(0)[3] % block)
    return n.error() << "a 4-d tensor whose height and width are multiples of blocksize is expected";
  int64_t batch = n.shape(0)[0], c = n.shape(0)[1], h = n.shape(0)[2] / block, w = n.shape(0)[3] / block;
  bool dcr = n.stringAttr("mode", "DCR") == "DCR";
  Value x = n.b.reshape(n.in(0), {batch, c, h, block, w, block});
  x = n.b.transpose(x, dcr ? ArrayRef<int64_t>{0, 3, 5, 1, 2, 4} : ArrayRef<int64_t>{0, 1, 3, 5, 2, 4});
  return n.set(n.b.reshape(x, {batch, c * block * block, h, w}));
}

LogicalResult importCenterCropPad(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto target = n.intsInput(1);
  SmallVector<int64_t> axes = n.intsAttr("axes");
  if (!n.hasAttr("axes"))
    axes.assign(llvm::seq<int64_t>(0, n.rank(0)).begin(), llvm::seq<int64_t>(0, n.rank(0)).end());
  if (failed(target))
    return failure();
  if (target->size() != axes.size())
    return n.error() << "one size per axis is expected";
  SmallVector<int64_t> low(n.rank(0), 0), high(n.rank(0), 0), starts(n.rank(0), 0), sizes(n.shape(0));
  for (auto [given, size] : llvm::zip(axes, *target)) {
    auto axis = n.axis(given, n.rank(0));
    if (failed(axis))
      return failure();
    int64_t old = n.shape(0)[*axis];
    if (size < 0)
      return n.error() << "a size is negative";
    if (size < old) {
      starts[*axis] = (old - size) / 2;
      sizes[*axis] = size;
    } else {
      low[*axis] = (size - old) / 2;
      high[*axis] = size - old - low[*axis];
    }
  }
  return n.set(n.b.pad(n.b.slice(n.in(0), starts, sizes), low, high));
}

/// The sum of blocks at their places: for each place inside a block, its elements spread out by the strides
/// and shifted.
LogicalResult importCol2Im(Node &n) {
  if (failed(n.require(3)))
    return failure();
  auto image = n.intsInput(1), block = n.intsInput(2);
  if (failed(image) || failed(block))
    return failure();
  size_t spatial = image->size();
  auto read = [&](StringRef name, size_t count, int64_t otherwise) {
    return n.hasAttr(name) ? n.intsAttr(name) : SmallVector<int64_t>(count, otherwise);
  };
  SmallVector<int64_t> dilations = read("dilations", spatial, 1), strides = read("strides", spatial, 1);
  SmallVector<int64_t> pads = read("pads", 2 * spatial, 0);
  constexpr int64_t kMost = 1 << 20;
  auto isBad = [&](ArrayRef<int64_t> values, size_t count, int64_t least) {
    return values.size() != count || llvm::any_of(values, [&](int64_t v) { return v < least || v > kMost; });
  };
  if (spatial < 1 || spatial > 3 || isBad(*image, spatial, 1) || isBad(*block, spatial, 1) ||
      isBad(dilations, spatial, 1) || isBad(strides, spatial, 1) || isBad(pads, 2 * spatial, 0))
    return n.error() << "image, block, dilations, strides and pads do not fit";
  SmallVector<int64_t> blocks; // per dimension
  for (size_t d = 0; d < spatial; ++d)
    blocks.push_back(
        ((*image)[d] + pads[d] + pads[d + spatial] - dilations[d] * ((*block)[d] - 1) - 1) / strides[d] + 1);
  if (n.rank(0) != 3 || isBad(blocks, spatial, 1) || n.shape(0)[1] % product(*block) ||
      n.shape(0)[2] != product(blocks) || product(*block) > 4096)
    return n.error() << "blocks of " << n.in(0).getType() << " do not fit the image";
  int64_t batch = n.shape(0)[0], channels = n.shape(0)[1] / product(*block);
  SmallVector<int64_t> apart = {batch, channels, product(*block)};
  llvm::append_range(apart, blocks);
  Value x = n.b.reshape(n.in(0), apart), sum;
  for (int64_t tap = 0; tap < product(*block); ++tap) {
    Value part = n.b.squeeze(n.b.sliceDim(x, 2, tap, 1), {2});
    int64_t rest = tap;
    for (int64_t d = spatial - 1; d >= 0; --d) {
      int64_t at = rest % (*block)[d] * dilations[d] - pads[d];
      rest /= (*block)[d];
      // [.., n, ..] -> [.., n, 1, ..] -> [.., n, stride, ..] -> [.., n * stride, ..]
      SmallVector<int64_t> shape(GraphBuilder::shapeOf(part)), spread(shape);
      spread.insert(spread.begin() + d + 3, 1);
      SmallVector<int64_t> low(spread.size(), 0), high(spread.size(), 0);
      high[d + 3] = strides[d] - 1;
      if (strides[d] > 1)
        part = n.b.pad(n.b.reshape(part, spread), low, high);
      shape[d + 2] *= strides[d];
      part = n.b.reshape(part, shape);
      SmallVector<int64_t> before(shape.size(), 0), after(shape.size(), 0);
      before[d + 2] = at;
      after[d + 2] = (*image)[d] - at - shape[d + 2];
      part = n.b.pad(part, before, after);
    }
    sum = sum ? n.b.add(sum, part) : part;
  }
  return n.set(sum);
}

} // namespace

void addMovementOperators(OperatorTable &table) {
  auto add = [&](StringRef name, OperatorFunction function, int64_t first = 1) {
    table.push_back({"", name, first, 0, function});
  };
  add("Reshape", importReshape);
  add("Flatten", importFlatten);
  add("Squeeze", importSqueeze);
  add("Unsqueeze", importUnsqueeze);
  add("Transpose", importTranspose);
  add("Concat", importConcat, 4);
  add("Split", importSplit, 2);
  add("Slice", importSlice);
  add("Expand", importExpand, 8);
  add("Tile", importTile, 6);
  add("Pad", importPad, 2);
  add("DepthToSpace", importDepthToSpace);
  add("SpaceToDepth", importSpaceToDepth);
  add("CenterCropPad", importCenterCropPad, 18);
  add("Col2Im", importCol2Im, 18);
}

} // namespace colossal::onnx_import
