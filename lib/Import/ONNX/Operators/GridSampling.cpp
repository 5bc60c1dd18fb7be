//===- GridSampling.cpp - ONNX operators that sample at computed places -----===//
//
// GridSample and RoiAlign read around real coordinates: per dimension a few taps, each an index and a weight;
// per choice of taps one gather from the tensor with its channels last. AffineGrid makes such coordinates.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

using Kind = ElementwiseKind;

/// What is read along one dimension: `index` (i64, inside the tensor) times `weight` (null: 1), or 0 where
/// `inside` (null: everywhere) is false.
struct Tap {
  Value index, weight, inside;
};

/// Calls `visit` with every choice of one tap per dimension.
void forEachChoice(ArrayRef<SmallVector<Tap>> taps, llvm::function_ref<void(ArrayRef<Tap>)> visit) {
  SmallVector<Tap> choice;
  auto descend = [&](auto self, size_t d) -> void {
    if (d == taps.size())
      return visit(choice);
    for (const Tap &tap : taps[d]) {
      choice.push_back(tap);
      self(self, d + 1);
      choice.pop_back();
    }
  };
  descend(descend, 0);
}

/// The tensor with its channels last.
Value channelsLast(Node &n, Value x) {
  SmallVector<int64_t> permutation = {0};
  for (int64_t d = 2; d < GraphBuilder::rankOf(x); ++d)
    permutation.push_back(d);
  permutation.push_back(1);
  return n.b.transpose(x, permutation);
}

/// The type in which coordinates and weights are computed.
Type getCoordinateType(Node &n, ArrayRef<Type> types) {
  return llvm::any_of(types, [](Type type) { return type.isF64(); }) ? Type(n.b.ops().getF64Type())
                                                                     : Type(n.b.ops().getF32Type());
}

/// Clip that also brings NaN into the range, once it is an integer.
Value clamp(Node &n, Value x, double low, double high) {
  Type element = GraphBuilder::elementOf(x);
  return n.b.elementwise(Kind::Clip, {x, n.b.scalar(element, low), n.b.scalar(element, high)});
}

//===----------------------------------------------------------------------===//
// GridSample
//===----------------------------------------------------------------------===//

class GridSample {
public:
  explicit GridSample(Node &n) : n(n) {}

  LogicalResult import() {
    if (failed(check()))
      return failure();
    int64_t spatial = n.rank(0) - 2;
    std::vector<SmallVector<Tap>> taps;
    Value grid = n.b.cast(n.in(1), real);
    for (int64_t d = 0; d < spatial; ++d) {
      // The grid's last dimension names the input's dimensions from the last to the first.
      Value place = n.b.sliceDim(grid, spatial + 1, spatial - 1 - d, 1);
      taps.push_back(getTaps(n.b.squeeze(place, {spatial + 1}), n.shape(0)[d + 2]));
    }
    Value data = channelsLast(n, n.in(0)), sum;
    bool isFloat = isa<FloatType>(n.element(0));
    forEachChoice(taps, [&](ArrayRef<Tap> choice) {
      SmallVector<Value> places;
      Value weight, inside;
      for (const Tap &tap : choice) {
        places.push_back(n.b.unsqueeze(tap.index, {spatial + 1}));
        if (tap.weight)
          weight = weight ? n.b.mul(weight, tap.weight) : tap.weight;
        if (tap.inside)
          inside = inside ? n.b.elementwise(Kind::And, {inside, tap.inside}) : tap.inside;
      }
      Value value = n.b.gatherND(data, n.b.concat(places, spatial + 1), 1); // N, places, C
      if (inside)
        value = n.b.select(n.b.unsqueeze(inside, {spatial + 1}), value, n.b.scalar(n.element(0), 0));
      if (isFloat)
        value = n.b.cast(value, real);
      if (weight)
        value = n.b.mul(value, n.b.unsqueeze(weight, {spatial + 1}));
      sum = sum ? n.b.add(sum, value) : value;
    });
    SmallVector<int64_t> permutation = {0, spatial + 1};
    for (int64_t d = 1; d <= spatial; ++d)
      permutation.push_back(d);
    return n.set(n.b.transpose(n.b.cast(sum, n.element(0)), permutation));
  }

private:
  LogicalResult check() {
    if (failed(n.require(2)))
      return failure();
    int64_t spatial = n.rank(0) - 2;
    if (spatial < 1 || spatial > 3 || n.rank(1) != n.rank(0) || n.shape(1).back() != spatial ||
        n.shape(1)[0] != n.shape(0)[0] || !isa<FloatType>(n.element(1)) || llvm::is_contained(n.shape(0), 0))
      return n.error() << "grid " << n.in(1).getType() << " does not fit " << n.in(0).getType();
    mode = n.stringAttr("mode", "linear");
    mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
    padding = n.stringAttr("padding_mode", "zeros");
    if ((mode != "linear" && mode != "nearest" && mode != "cubic") ||
        (padding != "zeros" && padding != "border" && padding != "reflection"))
      return n.error() << "mode '" << mode << "' with padding '" << padding << "' is unknown";
    if (mode != "nearest" && !isa<FloatType>(n.element(0)))
      return n.error() << "integers are sampled by mode 'nearest' only";
    isAligned = n.intAttr("align_corners", 0);
    real = getCoordinateType(n, {n.element(0), n.element(1)});
    return success();
  }

  Value constant(double value) { return n.b.scalar(real, value); }

  /// Reflects at the borders until inside. The tensor is periodic then, and symmetric in every period.
  Value reflect(Value x, int64_t size) {
    double low = isAligned ? 0 : -0.5, range = isAligned ? double(size - 1) : double(size);
    if (range == 0)
      return n.b.mul(x, constant(0));
    Value at = n.b.elementwise(Kind::Mod, {n.b.sub(x, constant(low)), constant(2 * range)});
    at = n.b.elementwise(Kind::Min, {at, n.b.sub(constant(2 * range), at)});
    return n.b.add(at, constant(low));
  }

  Tap makeTap(Value place, Value weight, int64_t size) {
    Type i64 = n.b.ops().getI64Type();
    Value inside;
    if (padding == "zeros")
      inside = n.b.elementwise(Kind::And,
                               {n.b.elementwise(Kind::GreaterOrEqual, {place, constant(0)}),
                                n.b.elementwise(Kind::LessOrEqual, {place, constant(double(size - 1))})});
    else if (padding == "reflection")
      place = reflect(place, size);
    return {clamp(n, n.b.cast(clamp(n, place, 0, double(size - 1)), i64), 0, double(size - 1)), weight,
            inside};
  }

  SmallVector<Tap> getTaps(Value place, int64_t size) {
    // From [-1, 1] to elements: the outermost elements' centers, or their edges.
    Value x = n.b.add(place, constant(1));
    x = isAligned ? n.b.mul(n.b.mul(x, constant(0.5)), constant(double(size - 1)))
                  : n.b.mul(n.b.sub(n.b.mul(x, constant(double(size))), constant(1)), constant(0.5));
    // Far outside all is alike, unless reflected.
    if (padding != "reflection")
      x = clamp(n, x, -8, double(size) + 8);
    if (mode == "nearest")
      x = n.b.unary(Kind::Round, x);
    if (padding == "border" && mode != "cubic") { // cubic taps are clamped one by one, as PyTorch does
      double low = isAligned ? 0 : -0.5, high = double(size - 1) - low;
      Value isOut = n.b.elementwise(Kind::Or, {n.b.elementwise(Kind::Less, {x, constant(low)}),
                                               n.b.elementwise(Kind::Greater, {x, constant(high)})});
      x = n.b.select(isOut, clamp(n, x, 0, double(size - 1)), x);
    } else if (padding == "reflection") {
      x = reflect(x, size);
    }
    if (mode == "nearest")
      return {makeTap(x, {}, size)};
    Value first = n.b.unary(Kind::Floor, x), t = n.b.sub(x, first);
    SmallVector<Tap> taps;
    if (mode == "linear") {
      taps.push_back(makeTap(first, n.b.sub(constant(1), t), size));
      taps.push_back(makeTap(n.b.add(first, constant(1)), t, size));
      return taps;
    }
    for (int i = -1; i <= 2; ++i) {
      Value distance = n.b.unary(Kind::Abs, n.b.sub(t, constant(i)));
      Value weight = cubicWeight(distance, i == 0 || i == 1);
      taps.push_back(makeTap(n.b.add(first, constant(i)), weight, size));
    }
    return taps;
  }

  /// Keys, "Cubic convolution interpolation" (1981), with a = -0.75; `isNear`: the distance is at most 1.
  Value cubicWeight(Value x, bool isNear) {
    double a = -0.75;
    auto horner = [&](ArrayRef<double> coefficients) {
      Value sum = constant(coefficients.front());
      for (double c : coefficients.drop_front())
        sum = n.b.add(n.b.mul(sum, x), constant(c));
      return sum;
    };
    return isNear ? horner({a + 2, -(a + 3), 0, 1}) : horner({a, -5 * a, 8 * a, -4 * a});
  }

  Node &n;
  StringRef mode, padding;
  bool isAligned = false;
  Type real;
};

LogicalResult importGridSample(Node &n) {
  return GridSample(n).import();
}

//===----------------------------------------------------------------------===//
// AffineGrid
//===----------------------------------------------------------------------===//

/// theta applied to (x, y, [z,] 1) of every place, the last dimension first.
LogicalResult importAffineGrid(Node &n) {
  if (failed(n.require(2)))
    return failure();
  auto size = n.intsInput(1);
  if (failed(size))
    return failure();
  int64_t spatial = int64_t(size->size()) - 2;
  if ((spatial != 2 && spatial != 3) || n.rank(0) != 3 || n.shape(0)[0] != size->front() ||
      n.shape(0)[1] != spatial || n.shape(0)[2] != spatial + 1 ||
      llvm::any_of(*size, [](int64_t s) { return s < 1 || s > (1 << 24); }))
    return n.error() << "size and theta, " << n.in(0).getType() << ", do not fit";
  bool isAligned = n.intAttr("align_corners", 0);
  ArrayRef<int64_t> places = ArrayRef<int64_t>(*size).drop_front(2);
  Type real = getCoordinateType(n, {n.element(0)});
  SmallVector<int64_t> column(places);
  column.push_back(1);
  SmallVector<Value> columns;
  for (int64_t d = spatial - 1; d >= 0; --d) {
    SmallVector<int64_t> along(spatial, 1);
    along[d] = places[d];
    double step = isAligned ? (places[d] > 1 ? 2.0 / double(places[d] - 1) : 0) : 2.0 / double(places[d]);
    Value line = n.b.iota(along, real, d, isAligned ? -1 : -1 + step / 2, step);
    columns.push_back(n.b.reshape(n.b.broadcast(line, places), column));
  }
  columns.push_back(n.b.splat(column, real, 1));
  Value grid = n.b.concat(columns, spatial), theta = n.b.cast(n.in(0), real);
  SmallVector<int64_t> in = llvm::to_vector(llvm::seq<int64_t>(1, spatial + 2)), out = in;
  out.insert(out.begin(), 0);
  out.back() = spatial + 2;
  Value result = n.b.contract(grid, theta, in, {0, spatial + 2, spatial + 1}, out);
  return n.set(n.b.cast(result, n.element(0)));
}

//===----------------------------------------------------------------------===//
// RoiAlign
//===----------------------------------------------------------------------===//

class RoiAlign {
public:
  explicit RoiAlign(Node &n) : n(n) {}

  LogicalResult import() {
    if (failed(n.require(3)))
      return failure();
    height = n.intAttr("output_height", 1), width = n.intAttr("output_width", 1),
    samples = n.intAttr("sampling_ratio", 0);
    if (n.rank(0) != 4 || n.rank(1) != 2 || n.shape(1)[1] != 4 || n.rank(2) != 1 ||
        n.shape(2)[0] != n.shape(1)[0] || height < 1 || width < 1 || !isa<FloatType>(n.element(0)))
      return n.error() << "features, regions and their images do not fit";
    if (samples < 1 || samples > 64)
      return n.error()
             << "a sampling_ratio of 1 to 64 is supported; 0 lets the regions' sizes decide, which are data";
    StringRef mode = n.stringAttr("mode", "avg");
    if (mode != "avg" && mode != "max")
      return n.error() << "mode '" << mode << "' is unknown";
    real = getCoordinateType(n, {n.element(0)});
    isShifted =
        n.version >= 16 && n.stringAttr("coordinate_transformation_mode", "half_pixel") == "half_pixel";
    int64_t regions = n.shape(1)[0], rows = height * samples, columns = width * samples;
    SmallVector<Tap> vertical = getTaps(1, height, n.shape(0)[2]),
                     horizontal = getTaps(0, width, n.shape(0)[3]);
    Value data = channelsLast(n, n.in(0)), result;
    Value image = n.b.reshape(n.b.cast(n.in(2), n.b.ops().getI64Type()), {regions, 1, 1, 1});
    SmallVector<int64_t> shape = {regions, rows, columns, 1};
    forEachChoice({vertical, horizontal}, [&](ArrayRef<Tap> choice) {
      auto spread = [&](Value value, bool isRow) {
        return n.b.reshape(value, isRow ? ArrayRef<int64_t>{regions, rows, 1, 1}
                                        : ArrayRef<int64_t>{regions, 1, columns, 1});
      };
      Value places =
          n.b.concat({n.b.broadcast(image, shape), n.b.broadcast(spread(choice[0].index, true), shape),
                      n.b.broadcast(spread(choice[1].index, false), shape)},
                     3);
      Value value = n.b.cast(n.b.gatherND(data, places, 0), real);
      Value across = spread(choice[1].weight, false);
      value = n.b.mul(value, n.b.mul(spread(choice[0].weight, true), across));
      Value inside =
          n.b.elementwise(Kind::And, {spread(choice[0].inside, true), spread(choice[1].inside, false)});
      value = n.b.select(inside, value, n.b.scalar(real, 0));
      if (result)
        value = mode == "avg" ? n.b.add(result, value) : n.b.elementwise(Kind::Max, {result, value});
      result = value;
    });
    result = n.b.reshape(result, {regions, height, samples, width, samples, n.shape(0)[1]});
    result = n.b.reduce(mode == "avg" ? ReduceKind::Mean : ReduceKind::Max, result, {2, 4}, false);
    return n.set(n.b.cast(n.b.transpose(result, {0, 3, 1, 2}), n.element(0)));
  }

private:
  /// Along one dimension, [regions, bins * samples]: `corner` is the place of its start in a region, the end
  /// two further.
  SmallVector<Tap> getTaps(int64_t corner, int64_t bins, int64_t size) {
    Value one = n.b.scalar(real, 1);
    auto edge = [&](int64_t at) {
      Value x = n.b.mul(n.b.cast(n.b.sliceDim(n.in(1), 1, at, 1), real),
                        n.b.scalar(real, n.floatAttr("spatial_scale", 1)));
      return isShifted ? n.b.sub(x, n.b.scalar(real, 0.5)) : x;
    };
    Value start = edge(corner), extent = n.b.sub(edge(corner + 2), start);
    if (!isShifted)
      extent = n.b.elementwise(Kind::Max, {extent, one});
    Value step = n.b.div(extent, n.b.scalar(real, double(bins * samples)));
    Value x = n.b.add(start, n.b.mul(n.b.iota({1, bins * samples}, real, 1, 0.5), step));
    Value inside =
        n.b.elementwise(Kind::And, {n.b.elementwise(Kind::GreaterOrEqual, {x, n.b.scalar(real, -1)}),
                                    n.b.elementwise(Kind::LessOrEqual, {x, n.b.scalar(real, double(size))})});
    x = clamp(n, x, 0, double(size - 1));
    Value first = n.b.unary(Kind::Floor, x), weight = n.b.sub(x, first);
    auto index = [&](Value place) {
      return clamp(n, n.b.cast(place, n.b.ops().getI64Type()), 0, double(size - 1));
    };
    return {{index(first), n.b.sub(one, weight), inside},
            {index(n.b.elementwise(Kind::Min, {n.b.add(first, one), n.b.scalar(real, double(size - 1))})),
             weight, inside}};
  }

  Node &n;
  int64_t height = 1, width = 1, samples = 0;
  bool isShifted = false;
  Type real;
};

LogicalResult importRoiAlign(Node &n) {
  return RoiAlign(n).import();
}

} // namespace

void addGridSamplingOperators(OperatorTable &table) {
  table.push_back({"", "GridSample", 16, 0, importGridSample});
  table.push_back({"", "AffineGrid", 20, 0, importAffineGrid});
  table.push_back({"", "RoiAlign", 10, 0, importRoiAlign});
}

} // namespace colossal::onnx_import
