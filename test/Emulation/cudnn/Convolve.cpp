// Operands are read into dense arrays of what is added up; a row of the result at a time takes its taps.
#include "Places.h"
#include "Work.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace colossal::cudnn {

namespace {

/// Three spatial dimensions; the outer ones of fewer are 1.
struct Space {
  std::int64_t depth = 1, rows = 1, columns = 1;
  static Space of(const std::vector<std::int64_t> &numbers, size_t skipped, std::int64_t missing) {
    Space space{missing, missing, missing};
    std::int64_t *const parts[] = {&space.depth, &space.rows, &space.columns};
    const size_t count = numbers.size() - skipped;
    for (size_t i = 0; i < count; ++i)
      *parts[3 - count + i] = numbers[skipped + i];
    return space;
  }
  std::int64_t volume() const { return depth * rows * columns; }
};

/// What a stream runs, as often as it comes to it.
struct Work {
  Call call;
  Places x, w, y;
  size_t biasUse, workspaceUse;
};

template <class T>
class Convolution {
public:
  Convolution(const Work &work, const EmulatedUse *uses)
      : g(*work.call.graph), work(work), uses(uses), in(Space::of(g.x.sizes, 2, 1)),
        out(Space::of(g.y.sizes, 2, 1)), window(Space::of(g.w.sizes, 2, 1)),
        stride(Space::of(g.strides, 0, 1)), dilation(Space::of(g.dilations, 0, 1)),
        pad(Space::of(g.pre, 0, 0)) {}

  void run() {
    readOperands();
    std::vector<T> results(static_cast<size_t>(g.y.elements()));
    const std::int64_t outChannels = g.y.sizes[1];
    for (std::int64_t image = 0; image < g.y.sizes[0]; ++image)
      for (std::int64_t channel = 0; channel < outChannels; ++channel)
        for (std::int64_t z = 0; z < out.depth; ++z)
          for (std::int64_t row = 0; row < out.rows; ++row)
            addRow(image, channel, z, row,
                   &results[static_cast<size_t>(
                       (((image * outChannels + channel) * out.depth + z) * out.rows + row) * out.columns)]);
    forEach(g.y, [&](std::int64_t i, std::int64_t offset) {
      write(results[static_cast<size_t>(i)], g.y.type, work.y.at(uses, offset));
    });
  }

private:
  void readOperands() {
    const bool rounds = work.call.engine.kind == Engine::TensorCores && g.x.type == Float;
    auto rounded = [&](T value) {
      return rounds && std::isfinite(value)
                 ? static_cast<T>(
                       ptx::decode(ptx::encode(static_cast<double>(value), ptx::kTf32), ptx::kTf32))
                 : value;
    };
    x.resize(static_cast<size_t>(g.x.elements()));
    w.resize(static_cast<size_t>(g.w.elements()));
    forEach(g.x, [&](std::int64_t i, std::int64_t offset) {
      const std::byte *from = work.x.at(uses, offset);
      if (work.call.engine.kind == Engine::Rearranged) {
        // By the workspace.
        const std::uint64_t size = elementBytes(g.x.type);
        std::byte *copy = uses[work.workspaceUse].data + static_cast<std::uint64_t>(i) * size;
        std::memcpy(copy, from, size);
        from = copy;
      }
      x[static_cast<size_t>(i)] = rounded(read<T>(from, g.x.type));
    });
    forEach(g.w, [&](std::int64_t i, std::int64_t offset) {
      w[static_cast<size_t>(i)] = rounded(read<T>(work.w.at(uses, offset), g.w.type));
    });
  }

  /// Sums of a row, with what follows them.
  void addRow(std::int64_t image, std::int64_t channel, std::int64_t z, std::int64_t row, T *result) const {
    const std::int64_t channels = g.w.sizes[1], group = channel / (g.w.sizes[0] / g.groups());
    std::vector<T> sums(static_cast<size_t>(out.columns), T(0)), part(sums.size());
    auto add = [&](std::int64_t c, std::int64_t tap, std::vector<T> &to) {
      const std::int64_t kz = tap / (window.rows * window.columns), ky = tap / window.columns % window.rows,
                         kx = tap % window.columns;
      const std::int64_t fromZ = z * stride.depth + kz * dilation.depth - pad.depth,
                         fromY = row * stride.rows + ky * dilation.rows - pad.rows;
      if (fromZ < 0 || fromZ >= in.depth || fromY < 0 || fromY >= in.rows)
        return;
      const T factor = w[static_cast<size_t>((channel * channels + c) * window.volume() + tap)];
      const T *from = &x[static_cast<size_t>(
          (((image * g.x.sizes[1] + group * channels + c) * in.depth + fromZ) * in.rows + fromY) *
          in.columns)];
      for (std::int64_t column = 0; column < out.columns; ++column) {
        const std::int64_t fromX = column * stride.columns + kx * dilation.columns - pad.columns;
        if (fromX >= 0 && fromX < in.columns)
          to[static_cast<size_t>(column)] += factor * from[fromX];
      }
    };
    const std::int64_t taps = window.volume();
    if (work.call.engine.kind == Engine::Direct) {
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t tap = 0; tap < taps; ++tap)
          add(c, tap, sums);
    } else {
      const std::int64_t parts = 1 + work.call.engine.tile;
      for (std::int64_t p = 0; p < parts; ++p) {
        std::fill(part.begin(), part.end(), T(0));
        for (std::int64_t tap = 0; tap < taps; ++tap)
          for (std::int64_t c = channels * p / parts; c < channels * (p + 1) / parts; ++c)
            add(c, tap, part);
        for (size_t i = 0; i < sums.size(); ++i)
          sums[i] += part[i];
      }
    }
    const T bias = g.bias ? read<T>(uses[work.biasUse].data +
                                        static_cast<std::uint64_t>(channel) * elementBytes(g.bias->type),
                                    g.bias->type)
                          : T(0);
    for (size_t i = 0; i < sums.size(); ++i) {
      const T sum = g.bias ? sums[i] + bias : sums[i];
      result[i] = g.relu && sum < 0 ? T(0) : sum;
    }
  }

  const Graph &g;
  const Work &work;
  const EmulatedUse *uses;
  const Space in, out, window, stride, dilation, pad;
  std::vector<T> x, w; // dense, in the order of the dimensions
};

void run(void *argument, const EmulatedUse *uses) {
  const Work &work = *static_cast<const Work *>(argument);
  if (work.call.graph->compute == Double)
    Convolution<double>(work, uses).run();
  else
    Convolution<float>(work, uses).run();
}

} // namespace

Result enqueueConvolution(const Call &call, Stream stream) {
  const Graph &g = *call.graph;
  std::vector<EmulatedUse> uses;
  const Places x(g.x, call.x, false, uses), w(g.w, call.w, false, uses);
  const size_t biasUse = uses.size();
  if (g.bias)
    uses.push_back({call.bias, static_cast<std::uint64_t>(g.bias->elements()) * elementBytes(g.bias->type),
                    false, nullptr});
  const size_t workspaceUse = uses.size();
  if (const std::int64_t bytes = workspaceBytes(g, call.engine))
    uses.push_back({call.workspace, static_cast<std::uint64_t>(bytes), true, nullptr});
  const Places y(g.y, call.y, true, uses);
  // A graph may run it at any later time: it stays.
  auto *work = new Work{call, x, w, y, biasUse, workspaceUse};
  const Result result = enqueue("a convolution of cuDNN", uses, run, work, stream);
  if (result != Success)
    delete work;
  return result;
}

} // namespace colossal::cudnn
