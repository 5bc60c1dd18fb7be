// A descriptor of the library's graph API: made, filled attribute by attribute, and finalized; from then on
// it is only read.
#ifndef COLOSSAL_RUNTIME_CUDA_CUDNN_DESCRIPTOR_H
#define COLOSSAL_RUNTIME_CUDA_CUDNN_DESCRIPTOR_H

#include "runtime/cuda/cudnn/Library.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace colossal::runtime {

class CudnnDescriptor {
public:
  CudnnDescriptor() = default;
  ~CudnnDescriptor() { reset(); }
  CudnnDescriptor(CudnnDescriptor &&other) noexcept
      : library(other.library), raw(std::exchange(other.raw, nullptr)) {}
  CudnnDescriptor &operator=(CudnnDescriptor &&other) noexcept {
    std::swap(library, other.library);
    std::swap(raw, other.raw);
    return *this;
  }

  /// An empty one. `opened` outlives it.
  Status create(const CudnnLibrary &opened, cudnn::DescriptorType type) {
    reset();
    library = &opened;
    COLOSSAL_CUDNN_CALL(opened, cudnnBackendCreateDescriptor, type, &raw);
    return {};
  }

  Status set(cudnn::Attribute attribute, cudnn::AttributeType type, int64_t count, const void *values) {
    COLOSSAL_CUDNN_CALL(*library, cudnnBackendSetAttribute, raw, attribute, type, count, values);
    return {};
  }
  /// One value: an enumeration, a number or a handle.
  template <class T>
  Status set(cudnn::Attribute attribute, cudnn::AttributeType type, T value) {
    return set(attribute, type, 1, &value);
  }
  Status set(cudnn::Attribute attribute, const std::vector<int64_t> &values) {
    return set(attribute, cudnn::TypeInt64, static_cast<int64_t>(values.size()), values.data());
  }
  Status set(cudnn::Attribute attribute, const CudnnDescriptor &other) {
    return set(attribute, cudnn::TypeDescriptor, 1, &other.raw);
  }
  Status finalize() {
    COLOSSAL_CUDNN_CALL(*library, cudnnBackendFinalize, raw);
    return {};
  }

  /// Up to `most` values of a finalized descriptor.
  template <class T>
  Status get(cudnn::Attribute attribute, cudnn::AttributeType type, size_t most,
             std::vector<T> &values) const {
    values.assign(most, T());
    int64_t count = 0;
    COLOSSAL_CUDNN_CALL(*library, cudnnBackendGetAttribute, raw, attribute, type, static_cast<int64_t>(most),
                        &count, values.data());
    values.resize(count < 0 ? 0 : std::min(most, static_cast<size_t>(count)));
    return {};
  }
  /// Up to `most` descriptors, which the library fills.
  Status get(cudnn::Attribute attribute, cudnn::DescriptorType type, size_t most,
             std::vector<CudnnDescriptor> &values) const {
    values.clear();
    std::vector<cudnn::RawDescriptor> raws;
    for (size_t i = 0; i < most; ++i) {
      COLOSSAL_RETURN_IF_ERROR(values.emplace_back().create(*library, type));
      raws.push_back(values.back().raw);
    }
    int64_t count = 0;
    COLOSSAL_CUDNN_CALL(*library, cudnnBackendGetAttribute, raw, attribute, cudnn::TypeDescriptor,
                        static_cast<int64_t>(most), &count, raws.data());
    values.resize(count < 0 ? 0 : std::min(most, static_cast<size_t>(count)));
    return {};
  }

  cudnn::RawDescriptor get() const { return raw; }

private:
  void reset() {
    if (raw)
      (void)(*library)->cudnnBackendDestroyDescriptor(raw);
    raw = nullptr;
  }

  const CudnnLibrary *library = nullptr;
  cudnn::RawDescriptor raw = nullptr;
};

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_CUDA_CUDNN_DESCRIPTOR_H
