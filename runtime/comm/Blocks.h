// Strided blocks, walked as rows of contiguous elements: the data movement that communicators share.
#ifndef COLOSSAL_RUNTIME_COMM_BLOCKS_H
#define COLOSSAL_RUNTIME_COMM_BLOCKS_H

#include "runtime/comm/Communicator.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace colossal::runtime {

/// A block of `sizes` in two places at once, merged as far as both places allow. Element e of it, in
/// row-major order, lies at first(e) and second(e), both in elements.
class StridedBlock {
public:
  StridedBlock(const std::vector<uint64_t> &sizes, const std::vector<uint64_t> &firstStrides,
               const std::vector<uint64_t> &secondStrides);

  uint64_t elements() const { return total; }

  /// Calls row(first offset, second offset, position in row-major order, length) for the rows that cover
  /// elements [begin, end). All are in elements; a row is contiguous in both places.
  template <class Row>
  void forRows(uint64_t begin, uint64_t end, Row row) const;

private:
  struct Dim {
    uint64_t size, first, second;
  };
  std::vector<Dim> dims; // the outer ones
  uint64_t run = 1;      // contiguous elements of a row
  uint64_t total = 1;
};

/// Row-major strides of a dense block.
std::vector<uint64_t> denseStrides(const std::vector<uint64_t> &sizes);

/// Copies a block between two places.
void copyBlock(const StridedBlock &block, const std::byte *first, std::byte *second, uint64_t elementBytes);

/// One piece of an EXCHANGE: `length` places from `from` of a member's src to `to` of the receiver's dst;
/// member -1 means fill.
struct WindowPiece {
  int64_t member, from, to, length;
};
/// How member `receiver` fills its dst extent, in order of places. Where several hold a place, the first
/// member gives it.
std::vector<WindowPiece> windowPieces(const CollectiveCall::Window &window, uint32_t receiver);
/// Writes the fill value to `length` places from `place` on.
void fillWindow(const CollectiveCall::Window &window, ElementType type, std::byte *dst, int64_t place,
                int64_t length);

template <class Row>
void StridedBlock::forRows(uint64_t begin, uint64_t end, Row row) const {
  if (begin >= end)
    return;
  uint64_t index[32] = {};
  uint64_t rest = begin / run, first = 0, second = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = rest % dims[d].size;
    rest /= dims[d].size;
    first += index[d] * dims[d].first;
    second += index[d] * dims[d].second;
  }
  uint64_t within = begin % run;
  for (uint64_t at = begin; at < end;) {
    uint64_t length = run - within < end - at ? run - within : end - at;
    row(first + within, second + within, at, length);
    at += length;
    within = 0;
    for (size_t d = dims.size(); d-- > 0;) {
      first += dims[d].first;
      second += dims[d].second;
      if (++index[d] < dims[d].size)
        break;
      first -= dims[d].first * dims[d].size;
      second -= dims[d].second * dims[d].size;
      index[d] = 0;
    }
  }
}

} // namespace colossal::runtime

#endif // COLOSSAL_RUNTIME_COMM_BLOCKS_H
