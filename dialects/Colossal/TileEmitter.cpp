//===- TileEmitter.cpp - numbers, branches and loops without results --------===//
#include "dialects/Colossal/TileEmitter.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace colossal;

Element TileEmitter::number(int64_t value) {
  Type i64 = elements().builder().getI64Type();
  return {elements(), elements().scalar(i64, static_cast<double>(value)), i64};
}

Element TileEmitter::word(Value value) {
  return {elements(), value, elements().builder().getI64Type()};
}

void TileEmitter::when(Value condition, llvm::function_ref<void()> body) {
  // Branches of the emitter have a value.
  elements().choose(condition, [&] { return body(), number(0).get(); }, [&] { return number(0).get(); });
}

void TileEmitter::forEach(ArrayRef<int64_t> shape, SmallVector<Lane> &index,
                          llvm::function_ref<void()> body) {
  if (shape.empty())
    return body();
  elements().reduce(shape[0], number(0).get(), [&](Value counter, ValueRange carried) -> SmallVector<Value> {
    index.push_back(elements().uniform(counter));
    forEach(shape.drop_front(), index, body);
    index.pop_back();
    return {carried[0]};
  });
}
