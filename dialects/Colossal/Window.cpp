//===- Window.cpp - loops over the windows of convolutions and pools --------===//
#include "dialects/Colossal/Window.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace colossal {

SmallVector<Value> overWindow(ElementEmitter &emitter, ArrayRef<int64_t> extents, ValueRange init,
                              llvm::function_ref<SmallVector<Value>(ArrayRef<Value>, ValueRange)> visit) {
  SmallVector<Value> counters;
  auto loop = [&](auto self, ValueRange carried) -> SmallVector<Value> {
    if (counters.size() == extents.size())
      return visit(counters, carried);
    return emitter.reduce(extents[counters.size()], carried, [&](Value counter, ValueRange next) {
      counters.push_back(counter);
      SmallVector<Value> results = self(self, next);
      counters.pop_back();
      return results;
    });
  };
  return loop(loop, init);
}

Value carriedLike(ElementEmitter &emitter, Value value, ArrayRef<Lane> index) {
  if (isa<VectorType>(value.getType()) ||
      llvm::all_of(index, [](const Lane &lane) { return lane.isUniform(); }))
    return value;
  return vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                     VectorType::get({(int64_t)emitter.lanes()}, value.getType()), value);
}

} // namespace colossal
