// Operands are read into dense arrays, by what they are computed in; sums of four columns by 64 rows stay in
// registers and the first cache while k goes on.
#include "Multiply.h"

#include "Values.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <vector>

namespace colossal::cublaslt {

namespace {

using cuda::EmulatedUse;

/// The bytes of a matrix in memory, one use for each run of columns without gaps.
class Places {
public:
  Places(const MatrixLayoutHandle &layout, cuda::DevicePointer base, bool write,
         std::vector<EmulatedUse> &uses)
      : layout(layout), size(elementBytes(layout.type)), first(uses.size()) {
    const std::uint64_t columnBytes = layout.rows * size;
    wholeMatrix = layout.leading == static_cast<std::int64_t>(layout.rows) || layout.columns == 1;
    // A matrix that all of the batch share is one.
    matrices = layout.stride == 0 ? 1 : static_cast<std::uint64_t>(layout.batch);
    for (std::uint64_t i = 0; i < matrices; ++i) {
      const cuda::DevicePointer at = base + i * static_cast<std::uint64_t>(layout.stride) * size;
      if (wholeMatrix)
        uses.push_back({at, columnBytes * layout.columns, write, nullptr});
      else
        for (std::uint64_t j = 0; j < layout.columns; ++j)
          uses.push_back(
              {at + j * static_cast<std::uint64_t>(layout.leading) * size, columnBytes, write, nullptr});
    }
  }
  std::byte *column(const EmulatedUse *uses, std::uint64_t matrix, std::uint64_t column) const {
    if (matrices == 1)
      matrix = 0;
    return wholeMatrix ? uses[first + matrix].data + column * layout.rows * size
                       : uses[first + matrix * layout.columns + column].data;
  }

private:
  MatrixLayoutHandle layout;
  std::uint64_t size;
  std::size_t first;
  bool wholeMatrix = false;
  std::uint64_t matrices = 1;
};

template <class T>
T read(const std::byte *from, DataType type, bool rounds) {
  if (type == R64F) {
    double value;
    std::memcpy(&value, from, 8);
    return static_cast<T>(value);
  }
  if (type == R32F) {
    float value;
    std::memcpy(&value, from, 4);
    if (rounds && std::isfinite(value))
      value = static_cast<float>(ptx::decode(ptx::encode(value, ptx::kTf32), ptx::kTf32));
    return static_cast<T>(value);
  }
  std::uint16_t bits;
  std::memcpy(&bits, from, 2);
  return static_cast<T>(type == R16F ? ptx::halfToFloat(bits) : ptx::bfloatToFloat(bits));
}

template <class T>
void write(T value, DataType type, std::byte *to) {
  if (type == R64F) {
    const auto wide = static_cast<double>(value);
    std::memcpy(to, &wide, 8);
  } else if (type == R32F) {
    const auto single = static_cast<float>(value);
    std::memcpy(to, &single, 4);
  } else {
    const auto bits = static_cast<std::uint16_t>(
        ptx::encode(static_cast<double>(value), type == R16F ? ptx::kHalf : ptx::kBFloat));
    std::memcpy(to, &bits, 2);
  }
}

template <class T>
T activate(T x, std::uint32_t epilogue) {
  if (epilogue == EpilogueRelu || epilogue == EpilogueReluBias)
    return x > 0 || x != x ? x : T(0);
  if (epilogue == EpilogueGelu || epilogue == EpilogueGeluBias)
    return T(0.5) * x * (T(1) + std::tanh(T(0.7978845608028654) * (x + T(0.044715) * x * x * x)));
  return x;
}

constexpr std::size_t rowBlock = 64, columnBlock = 4;

/// sums[j][i] = sum over k of a[k][i] b[j][k] for a block.
template <class T>
void multiplyBlock(const T *__restrict a, const T *__restrict b, std::size_t steps, std::size_t bStride,
                   T (&sums)[columnBlock][rowBlock]) {
  for (auto &column : sums)
    std::fill(std::begin(column), std::end(column), T(0));
  for (std::size_t p = 0; p < steps; ++p)
    for (std::size_t j = 0; j < columnBlock; ++j) {
      const T factor = b[j * bStride + p];
      for (std::size_t i = 0; i < rowBlock; ++i)
        sums[j][i] += a[p * rowBlock + i] * factor;
    }
}

template <class T>
class Multiplication {
public:
  Multiplication(const Product &p, const Places &a, const Places &b, const Places &d, std::size_t biasUse,
                 std::size_t workspaceUse)
      : p(p), a(a), b(b), d(d), biasUse(biasUse), workspaceUse(workspaceUse), m(p.d.rows), n(p.d.columns),
        k(p.operation.transposeFirst == OperationT ? p.a.rows : p.a.columns),
        rounds(p.operation.compute == Compute32FFastTF32) {}

  void run(const EmulatedUse *uses) {
    const std::size_t parts = p.way.kind == Way::Split ? splitParts : 1;
    for (std::uint64_t matrix = 0; matrix < static_cast<std::uint64_t>(p.d.batch); ++matrix) {
      packSecond(uses, matrix);
      for (std::size_t part = 0; part < parts; ++part) {
        const std::size_t begin = k * part / parts, end = k * (part + 1) / parts;
        for (std::size_t row = 0; row < m; row += rowBlock) {
          packFirst(uses, matrix, row, begin, end);
          for (std::size_t column = 0; column < n; column += columnBlock) {
            multiplyBlock(packedFirst.data(), packedSecond.data() + column * k + begin, end - begin, k, sums);
            for (std::size_t j = column; j < std::min(n, column + columnBlock); ++j)
              for (std::size_t i = row; i < std::min(m, row + rowBlock); ++i)
                keep(uses, matrix, part, parts, i, j, sums[j - column][i - row]);
          }
        }
      }
    }
  }

private:
  void packFirst(const EmulatedUse *uses, std::uint64_t matrix, std::size_t row, std::size_t begin,
                 std::size_t end) {
    const std::size_t size = elementBytes(p.a.type), rows = std::min(rowBlock, m - row);
    packedFirst.assign((end - begin) * rowBlock, T(0));
    if (p.operation.transposeFirst == OperationT) {
      for (std::size_t i = 0; i < rows; ++i) {
        const std::byte *from = a.column(uses, matrix, row + i);
        for (std::size_t step = begin; step < end; ++step)
          packedFirst[(step - begin) * rowBlock + i] = read<T>(from + step * size, p.a.type, rounds);
      }
    } else {
      for (std::size_t step = begin; step < end; ++step) {
        const std::byte *from = a.column(uses, matrix, step) + row * size;
        for (std::size_t i = 0; i < rows; ++i)
          packedFirst[(step - begin) * rowBlock + i] = read<T>(from + i * size, p.a.type, rounds);
      }
    }
  }
  void packSecond(const EmulatedUse *uses, std::uint64_t matrix) {
    const std::size_t size = elementBytes(p.b.type);
    packedSecond.assign((n + columnBlock) * k, T(0));
    const bool transposed = p.operation.transposeSecond == OperationT;
    for (std::size_t outer = 0; outer < (transposed ? k : n); ++outer) {
      const std::byte *from = b.column(uses, matrix, outer);
      for (std::size_t inner = 0; inner < (transposed ? n : k); ++inner) {
        const T value = read<T>(from + inner * size, p.b.type, rounds);
        (transposed ? packedSecond[inner * k + outer] : packedSecond[outer * k + inner]) = value;
      }
    }
  }
  /// Partial sums lie in the workspace until the last of them is there.
  void keep(const EmulatedUse *uses, std::uint64_t matrix, std::size_t part, std::size_t parts, std::size_t i,
            std::size_t j, T sum) {
    if (parts > 1) {
      auto place = [&](std::size_t of) {
        return uses[workspaceUse].data +
               (((of * static_cast<std::size_t>(p.d.batch) + matrix) * n + j) * m + i) * sizeof(T);
      };
      std::memcpy(place(part), &sum, sizeof sum);
      if (part + 1 < parts)
        return;
      sum = 0;
      for (std::size_t other = 0; other < parts; ++other) {
        T partial;
        std::memcpy(&partial, place(other), sizeof partial);
        sum += partial;
      }
    }
    sum *= static_cast<T>(p.alpha);
    if (hasBias(p.operation.epilogue))
      sum += read<T>(uses[biasUse].data + i * elementBytes(p.d.type), p.d.type, false);
    write(activate(sum, p.operation.epilogue), p.d.type,
          d.column(uses, matrix, j) + i * elementBytes(p.d.type));
  }

  const Product &p;
  const Places &a, &b, &d;
  const std::size_t biasUse, workspaceUse, m, n, k;
  const bool rounds;
  std::vector<T> packedFirst, packedSecond; // [step][row of the block]; [column][step]
  T sums[columnBlock][rowBlock];
};

/// What a stream runs, as often as it comes to it.
struct Work {
  Product product;
  Places a, b, d;
  std::size_t biasUse, workspaceUse;
};

void run(void *argument, const EmulatedUse *uses) {
  const Work &work = *static_cast<const Work *>(argument);
  if (work.product.operation.compute == Compute64F)
    Multiplication<double>(work.product, work.a, work.b, work.d, work.biasUse, work.workspaceUse).run(uses);
  else
    Multiplication<float>(work.product, work.a, work.b, work.d, work.biasUse, work.workspaceUse).run(uses);
}

cuda::EmulatedEnqueue findEnqueue() {
  static const cuda::EmulatedEnqueue found = [] {
    void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = driver ? ::dlsym(driver, cuda::emulatedEnqueueName) : nullptr;
    cuda::EmulatedEnqueue address = nullptr;
    std::memcpy(&address, &symbol, sizeof address);
    return address;
  }();
  return found;
}

} // namespace

Result enqueue(const Product &p, Stream stream) {
  const cuda::EmulatedEnqueue driver = findEnqueue();
  if (!driver)
    return NotInitialized;
  std::vector<EmulatedUse> uses;
  const Places a(p.a, p.first, false, uses), b(p.b, p.second, false, uses);
  const std::size_t biasUse = uses.size();
  if (hasBias(p.operation.epilogue))
    uses.push_back({reinterpret_cast<cuda::DevicePointer>(p.operation.bias),
                    p.d.rows * elementBytes(p.d.type), false, nullptr});
  const std::size_t workspaceUse = uses.size();
  if (p.way.workspaceBytes)
    uses.push_back({p.workspace, p.way.workspaceBytes, true, nullptr});
  const Places d(p.d, p.result, true, uses);
  // A graph may run it at any later time: it stays.
  auto *work = new Work{p, a, b, d, biasUse, workspaceUse};
  const cuda::Result result = driver(stream, "a product of cuBLASLt", uses.data(), uses.size(), run, work);
  if (result != cuda::Success)
    delete work;
  return result == cuda::Success ? Success : result == cuda::InvalidValue ? InvalidValue : ExecutionFailed;
}

} // namespace colossal::cublaslt
