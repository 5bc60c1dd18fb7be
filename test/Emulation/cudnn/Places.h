// Where the elements of a tensor lie in the emulated device's memory, what they are, and how work gets to a
// stream.
#ifndef COLOSSAL_EMULATION_CUDNN_PLACES_H
#define COLOSSAL_EMULATION_CUDNN_PLACES_H

#include "Rules.h"
#include "Values.h"
#include "test/Emulation/driver/Hooks.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>

namespace colossal::cudnn {

using cuda::EmulatedUse;

/// The bytes of a tensor in memory: a use for each run of elements without gaps.
class Places {
public:
  Places(const Tensor &tensor, cuda::DevicePointer base, bool write, std::vector<EmulatedUse> &uses)
      : first(uses.size()), size(elementBytes(tensor.type)) {
    // Dimensions from the longest stride to the shortest; those that follow each other are a run.
    std::vector<size_t> order(tensor.sizes.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return tensor.strides[a] > tensor.strides[b]; });
    while (!order.empty() && (tensor.sizes[order.back()] == 1 || tensor.strides[order.back()] == run)) {
      run *= tensor.sizes[order.back()];
      order.pop_back();
    }
    std::vector<std::int64_t> offsets{0};
    for (size_t d : order) {
      std::vector<std::int64_t> wider;
      for (std::int64_t offset : offsets)
        for (std::int64_t i = 0; i < tensor.sizes[d]; ++i)
          wider.push_back(offset + i * tensor.strides[d]);
      offsets = std::move(wider);
    }
    std::sort(offsets.begin(), offsets.end());
    for (std::int64_t offset : offsets)
      uses.push_back({base + static_cast<std::uint64_t>(offset) * size,
                      static_cast<std::uint64_t>(run) * size, write, nullptr});
    begins = std::move(offsets);
  }
  /// Of the element so many elements behind the first.
  std::byte *at(const EmulatedUse *uses, std::int64_t offset) const {
    const auto found = std::upper_bound(begins.begin(), begins.end(), offset) - 1;
    return uses[first + static_cast<size_t>(found - begins.begin())].data +
           static_cast<std::uint64_t>(offset - *found) * size;
  }

private:
  size_t first;
  std::uint64_t size;
  std::int64_t run = 1;
  std::vector<std::int64_t> begins;
};

template <class T>
T read(const std::byte *from, DataType type) {
  if (type == Double) {
    double value;
    std::memcpy(&value, from, 8);
    return static_cast<T>(value);
  }
  if (type == Float) {
    float value;
    std::memcpy(&value, from, 4);
    return static_cast<T>(value);
  }
  std::uint16_t bits;
  std::memcpy(&bits, from, 2);
  return static_cast<T>(type == Half ? ptx::halfToFloat(bits) : ptx::bfloatToFloat(bits));
}

template <class T>
void write(T value, DataType type, std::byte *to) {
  if (type == Double) {
    const auto wide = static_cast<double>(value);
    std::memcpy(to, &wide, 8);
  } else if (type == Float) {
    const auto single = static_cast<float>(value);
    std::memcpy(to, &single, 4);
  } else {
    const auto bits = static_cast<std::uint16_t>(
        ptx::encode(static_cast<double>(value), type == Half ? ptx::kHalf : ptx::kBFloat));
    std::memcpy(to, &bits, 2);
  }
}

/// For each element, in the order of the dimensions, its place.
template <class Function>
void forEach(const Tensor &tensor, Function function) {
  std::vector<std::int64_t> at(tensor.sizes.size(), 0);
  const std::int64_t count = tensor.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t offset = 0;
    for (size_t d = 0; d < at.size(); ++d)
      offset += at[d] * tensor.strides[d];
    function(i, offset);
    for (size_t d = at.size(); d-- > 0 && ++at[d] == tensor.sizes[d];)
      at[d] = 0;
  }
}

/// Adds work to the stream's. BadParam where a use lies in no memory of the GPU.
inline Result enqueue(const char *what, std::vector<EmulatedUse> &uses, cuda::EmulatedWork work,
                      void *argument, Stream stream) {
  static const cuda::EmulatedEnqueue driver = [] {
    void *library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? ::dlsym(library, cuda::emulatedEnqueueName) : nullptr;
    cuda::EmulatedEnqueue address = nullptr;
    std::memcpy(&address, &symbol, sizeof address);
    return address;
  }();
  if (!driver)
    return NotInitialized;
  const cuda::Result result = driver(stream, what, uses.data(), uses.size(), work, argument);
  return result == cuda::Success ? Success : result == cuda::InvalidValue ? BadParam : ExecutionFailed;
}

} // namespace colossal::cudnn

#endif
