//===- OnnxNames.cpp - ONNX names in locations ------------------------------===//
//
// See OnnxNames.h for the layout. A tensor without a node has the node name "-".
//
//===----------------------------------------------------------------------===//
#include "colossal/Import/OnnxNames.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace colossal {

Location makeOnnxLocation(MLIRContext *context, StringRef node, ArrayRef<StringRef> outputs) {
  SmallVector<Location> tensors;
  for (StringRef output : outputs)
    if (!output.empty())
      tensors.push_back(NameLoc::get(StringAttr::get(context, output)));
  if (node.empty())
    node = "-";
  if (tensors.empty())
    return NameLoc::get(StringAttr::get(context, node));
  Location child = tensors.size() == 1 ? tensors.front() : FusedLoc::get(context, tensors);
  return NameLoc::get(StringAttr::get(context, node), child);
}

static void collectTensors(Location location, OnnxNames &names) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    if (!llvm::is_contained(names.tensors, name.getName().getValue()))
      names.tensors.push_back(name.getName().getValue());
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collectTensors(part, names);
  }
}

static void collect(Location location, OnnxNames &names) {
  if (auto name = dyn_cast<NameLoc>(location)) {
    StringRef node = name.getName().getValue();
    if (node != "-" && !llvm::is_contained(names.nodes, node))
      names.nodes.push_back(node);
    collectTensors(name.getChildLoc(), names);
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      collect(part, names);
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    collect(call.getCallee(), names);
  }
}

OnnxNames getOnnxNames(Location location) {
  OnnxNames names;
  collect(location, names);
  return names;
}

} // namespace colossal
