//===- InstructionNames.cpp - ONNX names of instructions --------------------===//
#include "dialects/Plan/InstructionNames.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

using namespace mlir;
using namespace colossal;

static void collectNames(Location loc, SmallVectorImpl<StringRef> &names) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    if (!llvm::is_contained(names, name.getName().getValue()))
      names.push_back(name.getName().getValue());
    collectNames(name.getChildLoc(), names);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location child : fused.getLocations())
      collectNames(child, names);
  }
}

static void collectOperators(Location loc, SmallVectorImpl<StringRef> &names) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    StringRef node = name.getName().getValue();
    auto tensor = dyn_cast<NameLoc>(name.getChildLoc());
    if ((node.empty() || node == "-") && tensor)
      node = tensor.getName().getValue();
    if (!node.empty() && !llvm::is_contained(names, node))
      names.push_back(node);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location child : fused.getLocations())
      collectOperators(child, names);
  }
}

/// The strings of the attribute, where the instruction has it, or else what `collect` finds.
static SmallVector<StringRef> get(Operation *instruction, StringRef attribute,
                                  function_ref<void(Location, SmallVectorImpl<StringRef> &)> collect) {
  SmallVector<StringRef> names;
  if (auto given = instruction->getAttrOfType<ArrayAttr>(attribute))
    llvm::append_range(names, given.getAsValueRange<StringAttr>());
  else
    collect(instruction->getLoc(), names);
  return names;
}

SmallVector<StringRef> plan::getNames(Operation *instruction) {
  return get(instruction, kNamesAttrName, collectNames);
}

SmallVector<StringRef> plan::getOperators(Operation *instruction) {
  return get(instruction, kOperatorsAttrName, collectOperators);
}
