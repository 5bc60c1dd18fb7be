//===- RepeatedNodes.h - where a graph of nodes repeats itself --------------===//
//
// A look at the nodes alone, before anything is made of them. Two nodes are alike here that have one operator
// and equal attributes (of tensors, equal types); what they read is not compared. That is enough for whoever
// may be wrong and loses no more than time; Outline/RepeatedBlocks.h finds what is equal.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_IMPORT_ONNX_REPEATEDNODES_H
#define COLOSSAL_LIB_IMPORT_ONNX_REPEATEDNODES_H

#include "UnsupportedOperators.h"

namespace colossal::onnx_import {

/// Places [first, first + period * count) of an order of nodes: each node is like the one `period` before it.
struct RepeatedNodes {
  size_t first = 0, period = 0, count = 0;

  /// Repetitions that a model keeps to which the others can be compared: the first three and the last. The
  /// third stands for those that are left out.
  static constexpr size_t kKept = 4, kLike = 2;

  /// Places of all repetitions but those.
  size_t firstDropped() const { return first + (kLike + 1) * period; }
  size_t dropped() const { return count > kKept ? (count - kKept) * period : 0; }
};

/// That of most dropped(), the first of several; a count of 0 where nothing repeats. O(nodes).
RepeatedNodes findRepeatedNodes(const Nodes &nodes, llvm::ArrayRef<int> order);

} // namespace colossal::onnx_import

#endif // COLOSSAL_LIB_IMPORT_ONNX_REPEATEDNODES_H
