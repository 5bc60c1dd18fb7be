// What the library's descriptors hold, and what of them it computes: from its documentation (CUDA 13, "Using
// the cuBLASLt API").
#ifndef COLOSSAL_EMULATION_CUBLASLT_RULES_H
#define COLOSSAL_EMULATION_CUBLASLT_RULES_H

#include "runtime/cuda/cublaslt/Abi.h"

#include <string>

namespace colossal::cublaslt {

struct CublasLtHandle {};

struct MatmulDescHandle {
  ComputeType compute = Compute32F;
  DataType scale = R32F;
  std::int32_t transposeFirst = OperationN, transposeSecond = OperationN;
  std::uint32_t epilogue = EpilogueDefault;
  const void *bias = nullptr;
  std::int32_t biasType = -1; ///< -1: that of the result
};

/// Column by column.
struct MatrixLayoutHandle {
  DataType type = R32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0; ///< elements from one matrix to the next
};

struct PreferenceHandle {
  std::uint64_t workspaceBytes = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256}; ///< A, B, C, D
};

/// A product as the library sees it: descriptors that are there.
struct Problem {
  const MatmulDescHandle *operation = nullptr;
  const MatrixLayoutHandle *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;

  std::uint64_t m() const { return d->rows; }
  std::uint64_t n() const { return d->columns; }
  std::uint64_t k() const { return operation->transposeFirst == OperationT ? a->rows : a->columns; }
  std::uint64_t batch() const { return static_cast<std::uint64_t>(d->batch); }
};

std::uint64_t elementBytes(DataType type);
inline bool hasBias(std::uint32_t epilogue) {
  return (epilogue & EpilogueBias) != 0;
}

/// InvalidValue where descriptors contradict each other, NotSupported where the library has no such types,
/// layouts or epilogue; `why` in words.
Result check(const Problem &problem, std::string &why);

/// Ways to compute a product, and what they ask for. They add up in different orders.
struct Way {
  enum Kind : std::uint64_t { Plain = 1, Aligned = 2, Split = 3 } kind = Plain;
  std::uint64_t alignment = 1;      ///< of the operands and their strides, in bytes
  std::uint64_t workspaceBytes = 0; ///< partial sums of Split
};
constexpr std::uint64_t splitParts = 2;
/// The best first.
constexpr Way::Kind kinds[] = {Way::Split, Way::Aligned, Way::Plain};
Way wayOf(const Problem &problem, Way::Kind kind);
/// Whether the strides have that alignment, and there is enough to split.
bool fits(const Problem &problem, const Way &way);

/// As an Algorithm carries it: for these types only.
Algorithm encode(const Problem &problem, const Way &way);
/// False for what no heuristic of this library returned for such types.
bool decode(const Problem &problem, const Algorithm &algorithm, Way &way);

} // namespace colossal::cublaslt

#endif
