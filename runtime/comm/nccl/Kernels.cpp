// The kernels of Kernels.cu: the text that nvcc made of them, built in.
#include "runtime/comm/nccl/Nccl.h"

#include "runtime/comm/Reduce.h"

#include <cstring>

namespace colossal::runtime {

extern const char ncclKernelsText[]; // Kernels.ptx

namespace {
constexpr uint64_t threads = 128;

/// By ElementType; null where nothing is reduced. A bool is 0 or 1, as a byte.
constexpr const char *reductionNames[] = {nullptr, "f32", "f64", "f16", "bf16", "i8",  "i16",
                                          "i32",   "i64", "u8",  "u16", "u32",  "u64", "u8"};
} // namespace

Status NcclKernels::load(Device &device) {
  const plan::ByteView text = {reinterpret_cast<const std::byte *>(ncclKernelsText),
                               std::strlen(ncclKernelsText) + 1};
  COLOSSAL_RETURN_IF_ERROR(device.loadImage(text, image));
  for (size_t type = 1; type < std::size(reductionNames); ++type)
    COLOSSAL_RETURN_IF_ERROR(image->find(std::string("reduce_") + reductionNames[type], reductions[type]));
  for (size_t bytes : {1, 2, 4, 8})
    COLOSSAL_RETURN_IF_ERROR(image->find("fill_" + std::to_string(bytes), fills[bytes]));
  return {};
}

Status NcclKernels::reduce(ElementType type, Reduction op, std::byte *parts, uint32_t members, uint64_t count,
                           std::byte *out, Queue &queue) const {
  if (type == ElementType::Bool) // sum is or, product is and
    op = op == Reduction::Sum || op == Reduction::Max    ? Reduction::Or
         : op == Reduction::Prod || op == Reduction::Min ? Reduction::And
                                                         : op;
  void *const buffers[] = {parts, out};
  const int64_t params[] = {members, static_cast<int64_t>(count), static_cast<int64_t>(op)};
  return queue.launch(
      {reductions[static_cast<size_t>(type)], buffers, 2, params, 3, (count + threads - 1) / threads, 0});
}

Status NcclKernels::fill(ElementType type, double value, std::byte *out, uint64_t rows, uint64_t stride,
                         uint64_t length, Queue &queue) const {
  int64_t pattern = 0;
  fillElements(type, value, reinterpret_cast<std::byte *>(&pattern), 1);
  void *const buffers[] = {out};
  const int64_t params[] = {pattern, static_cast<int64_t>(rows), static_cast<int64_t>(stride),
                            static_cast<int64_t>(length)};
  return queue.launch(
      {fills[elementSize(type)], buffers, 1, params, 4, (rows * length + threads - 1) / threads, 0});
}

} // namespace colossal::runtime
