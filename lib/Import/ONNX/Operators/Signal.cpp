//===- Signal.cpp - ONNX Fourier transforms ---------------------------------===//
//
// A discrete Fourier transform of static length is a contraction with the table of its angles; a short-time
// one, with overlapping frames.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

#include <cmath>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// cos and sin of 2 pi k n / length over [frequencies, length], of the element type.
std::pair<Value, Value> makeTables(Node &n, int64_t frequencies, int64_t length, Type element) {
  Type i64 = n.b.ops().getI64Type(), f64 = n.b.ops().getF64Type();
  Value along = n.b.iota({1, length}, i64, 1), turn = n.b.mul(n.b.iota({frequencies, 1}, i64, 0), along);
  turn = n.b.elementwise(ElementwiseKind::Mod, {turn, n.b.scalar(i64, double(length))});
  Value angle = n.b.mul(n.b.cast(turn, f64), n.b.scalar(f64, 2 * M_PI / double(length)));
  return {n.b.cast(n.b.unary(ElementwiseKind::Cos, angle), element),
          n.b.cast(n.b.unary(ElementwiseKind::Sin, angle), element)};
}

struct Transform {
  int64_t axis, length;
  bool inverse = false, onesided = false;
};

/// x [..., 1 or 2] transformed along an axis, as [..., 2] (real, [..., 1], for the inverse of one side). Sums
/// are in f64: what cancels in exact arithmetic is then 0 in the signal's type.
Value transform(Node &n, Value x, const Transform &t) {
  int64_t rank = GraphBuilder::rankOf(x);
  Type given = GraphBuilder::elementOf(x), element = n.b.ops().getF64Type();
  x = n.b.cast(x, element);
  // The inverse of one side: the other side is its conjugate in reverse order.
  int64_t kept = t.onesided && t.inverse ? t.length / 2 + 1 : t.length,
          size = GraphBuilder::shapeOf(x)[t.axis];
  if (size > kept)
    x = n.b.sliceDim(x, t.axis, 0, kept);
  SmallVector<int64_t> low(rank, 0), high(rank, 0);
  high[t.axis] = kept - std::min(size, kept);
  if (high[t.axis])
    x = n.b.pad(x, low, high);
  bool isComplex = GraphBuilder::shapeOf(x).back() == 2;
  Value real = n.b.squeeze(n.b.sliceDim(x, rank - 1, 0, 1), {rank - 1}), imaginary;
  if (isComplex)
    imaginary = n.b.squeeze(n.b.sliceDim(x, rank - 1, 1, 1), {rank - 1});
  if (kept != t.length) {
    // Elements length / 2 (rounded up) - 1 down to 1.
    int64_t missing = t.length - kept;
    SmallVector<int64_t> starts(rank - 1, 0), sizes(GraphBuilder::shapeOf(real)), steps(rank - 1, 1);
    starts[t.axis] = missing;
    sizes[t.axis] = missing;
    steps[t.axis] = missing > 1 ? -1 : 1;
    auto mirror = [&](Value side, bool negate) {
      Value other = n.b.slice(side, starts, sizes, steps);
      return n.b.concat({side, negate ? n.b.unary(ElementwiseKind::Neg, other) : other}, t.axis);
    };
    if (missing > 0) {
      real = mirror(real, false);
      imaginary = imaginary ? mirror(imaginary, true) : Value();
    }
  }
  int64_t frequencies = t.onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  auto [cosine, sine] = makeTables(n, frequencies, t.length, element);
  SmallVector<int64_t> in, out;
  for (int64_t d = 0; d < rank - 1; ++d) {
    in.push_back(d);
    out.push_back(d == t.axis ? rank : d);
  }
  auto contract = [&](Value side, Value table) { return n.b.contract(side, table, in, {rank, t.axis}, out); };
  // e^(-i a) forward, e^(i a) back.
  Value a = contract(real, cosine), b = contract(real, sine);
  if (!t.inverse)
    b = n.b.unary(ElementwiseKind::Neg, b);
  if (imaginary) {
    Value c = contract(imaginary, sine), d = contract(imaginary, cosine);
    a = t.inverse ? n.b.sub(a, c) : n.b.add(a, c);
    b = n.b.add(b, d);
  }
  if (t.inverse) {
    Value share = n.b.scalar(element, 1.0 / double(t.length));
    a = n.b.mul(a, share);
    b = n.b.mul(b, share);
  }
  a = n.b.unsqueeze(n.b.cast(a, given), {rank - 1});
  b = n.b.unsqueeze(n.b.cast(b, given), {rank - 1});
  return t.inverse && t.onesided ? a : n.b.concat({a, b}, rank - 1);
}

LogicalResult checkSignal(Node &n) {
  if (failed(n.require(1)))
    return failure();
  if (n.rank(0) < 2 || (n.shape(0).back() != 1 && n.shape(0).back() != 2) || !isa<FloatType>(n.element(0)))
    return n.error() << "a signal of real or complex numbers, [..., 1] or [..., 2], is expected, not "
                     << n.in(0).getType();
  return success();
}

LogicalResult importDFT(Node &n) {
  if (failed(checkSignal(n)))
    return failure();
  int64_t given = n.version < 20 ? n.intAttr("axis", 1) : -2;
  if (n.version >= 20 && n.in(2)) {
    auto axis = n.intsInput(2);
    if (failed(axis))
      return failure();
    given = axis->size() == 1 ? axis->front() : n.rank(0);
  }
  auto axis = n.axis(given, n.rank(0));
  if (failed(axis))
    return failure();
  if (*axis == n.rank(0) - 1)
    return n.error() << "the last dimension holds the parts of a number and is no axis";
  Transform t{*axis, n.shape(0)[*axis], bool(n.intAttr("inverse", 0)), bool(n.intAttr("onesided", 0))};
  if (t.onesided && !t.inverse && n.shape(0).back() == 2)
    return n.error() << "one side is enough for real signals only";
  if (t.onesided && t.inverse)
    t.length = 2 * (t.length - 1);
  if (n.in(1)) {
    auto length = n.intsInput(1);
    if (failed(length))
      return failure();
    t.length = length->size() == 1 ? length->front() : 0;
  }
  if (t.length < 1 || t.length > (1 << 20))
    return n.error() << "a length of " << t.length << " is not possible";
  return n.set(transform(n, n.in(0), t));
}

LogicalResult importSTFT(Node &n) {
  if (failed(n.require(2)) || failed(checkSignal(n)))
    return failure();
  auto step = n.intsInput(1);
  if (failed(step))
    return failure();
  if (n.rank(0) != 3)
    return n.error() << "a signal [batch, length, 1 or 2] is expected";
  int64_t length = n.in(2) ? GraphBuilder::typeOf(n.in(2)).getNumElements() : n.shape(0)[1];
  if (n.in(3)) {
    auto given = n.intsInput(3);
    if (failed(given))
      return failure();
    length = given->size() == 1 ? given->front() : 0;
  }
  if (step->size() != 1 || step->front() < 1 || length < 1 || length > n.shape(0)[1])
    return n.error() << "frame step and length do not fit a signal of length " << n.shape(0)[1];
  if (n.in(2) && (n.rank(2) != 1 || n.shape(2)[0] != length))
    return n.error() << "the window must be as long as a frame, " << length;
  bool onesided = n.intAttr("onesided", 1);
  if (onesided && n.shape(0)[2] == 2)
    return n.error() << "one side is enough for real signals only";
  int64_t frames = 1 + (n.shape(0)[1] - length) / step->front();
  Type i64 = n.b.ops().getI64Type();
  Value along = n.b.iota({1, length}, i64, 1);
  Value places = n.b.add(n.b.iota({frames, 1}, i64, 0, 0, double(step->front())), along);
  Value x = n.b.gather(n.in(0), places, 1); // batch, frames, length, parts
  if (n.in(2))
    x = n.b.mul(x, n.b.reshape(n.in(2), {length, 1}));
  return n.set(transform(n, x, {2, length, false, onesided}));
}

/// Triangular filters at equal distances on the mel scale, 2595 log10(1 + f / 700).
LogicalResult importMelWeightMatrix(Node &n) {
  auto bins = n.intsInput(0), length = n.intsInput(1), rate = n.intsInput(2);
  auto low = n.floatsInput(3), high = n.floatsInput(4);
  if (failed(bins) || failed(length) || failed(rate) || failed(low) || failed(high))
    return failure();
  Type element = getElementType(n.importer.context(), n.intAttr("output_datatype", 1));
  if (bins->size() != 1 || length->size() != 1 || rate->size() != 1 || low->size() != 1 ||
      high->size() != 1 || !element || bins->front() < 1 || bins->front() > (1 << 16) ||
      length->front() < 1 || length->front() > (1 << 16) || rate->front() < 1 || !(low->front() >= 0) ||
      !(high->front() >= low->front()))
    return n.error() << "five scalars of possible values and a supported type are expected";
  int64_t columns = bins->front(), rows = length->front() / 2 + 1;
  double first = 2595 * std::log10(1 + low->front() / 700), last = 2595 * std::log10(1 + high->front() / 700);
  double step = (last - first) / double(columns + 2);
  SmallVector<int64_t> edges;
  for (int64_t i = 0; i < columns + 2; ++i) {
    double hertz = 700 * (std::pow(10.0, (double(i) * step + first) / 2595) - 1);
    edges.push_back(int64_t(std::floor(double(length->front() + 1) * hertz / double(rate->front()))));
  }
  if (edges.back() > rows)
    return n.error() << "the upper edge is beyond half the sample rate";
  HostTensor table(RankedTensorType::get({rows, columns}, n.b.ops().getF64Type()));
  for (int64_t i = 0; i < columns; ++i) {
    int64_t left = edges[i], center = edges[i + 1], right = edges[i + 2];
    if (left == center && center < rows)
      table.setFloat(center * columns + i, 1);
    for (int64_t j = left; left != center && j <= center && j < rows; ++j)
      table.setFloat(j * columns + i, double(j - left) / double(center - left));
    for (int64_t j = center; j < right && j < rows; ++j)
      table.setFloat(j * columns + i, double(right - j) / double(right - center));
  }
  return n.set(n.b.cast(n.b.constant(table), element));
}

} // namespace

void addSignalOperators(OperatorTable &table) {
  table.push_back({"", "DFT", 17, 0, importDFT});
  table.push_back({"", "STFT", 17, 0, importSTFT});
  table.push_back({"", "MelWeightMatrix", 17, 0, importMelWeightMatrix});
}

} // namespace colossal::onnx_import
