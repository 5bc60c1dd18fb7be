//===- BoundaryAttrs.cpp - attributes of arguments and results, many at once ===//
#include "dialects/Dist/BoundaryAttrs.h"

using namespace mlir;
using namespace colossal::dist;

BoundaryAttrs::BoundaryAttrs(func::FuncOp function) : function(function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    arguments.emplace_back(function.getArgAttrDict(i));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    results.emplace_back(function.getResultAttrDict(i));
}

void BoundaryAttrs::apply() {
  auto getDictionaries = [&](ArrayRef<NamedAttrList> lists) {
    return llvm::map_to_vector(
        lists, [&](const NamedAttrList &list) { return list.getDictionary(function.getContext()); });
  };
  function.setAllArgAttrs(getDictionaries(arguments));
  function.setAllResultAttrs(getDictionaries(results));
}
