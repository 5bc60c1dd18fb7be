//===- KernelCache.cpp - equal kernels are generated once -------------------===//
#include "colossal/Schedule/KernelCache.h"

#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::schedule;

KernelKey &KernelKey::add(int64_t value) {
  words.push_back(value);
  return *this;
}

KernelKey &KernelKey::add(double value) {
  return add(llvm::bit_cast<int64_t>(value));
}

KernelKey &KernelKey::add(Type type) {
  words.push_back(reinterpret_cast<uintptr_t>(type.getAsOpaquePointer()));
  return *this;
}

KernelKey &KernelKey::add(Attribute attribute) {
  words.push_back(reinterpret_cast<uintptr_t>(attribute.getAsOpaquePointer()));
  return *this;
}

KernelKey &KernelKey::add(ArrayRef<int64_t> values) {
  words.push_back(values.size());
  words.insert(words.end(), values.begin(), values.end());
  return *this;
}

KernelKey &KernelKey::add(Operation *op) {
  words.push_back(reinterpret_cast<uintptr_t>(op->getName().getAsOpaquePointer()));
  add(op->getPropertiesAsAttribute()).add(Attribute(op->getDiscardableAttrDictionary()));
  add(int64_t(op->getNumResults()));
  for (Type type : op->getResultTypes())
    add(type);
  return *this;
}

KernelKey &KernelKey::add(func::FuncOp function) {
  llvm::DenseMap<Value, int64_t> numbers;
  auto number = [&](Value value) { numbers.try_emplace(value, numbers.size()); };
  Block &block = function.getBody().front();
  add(int64_t(block.getNumArguments()));
  for (BlockArgument argument : block.getArguments()) {
    add(argument.getType());
    number(argument);
  }
  for (Operation &op : block) {
    add(&op).add(int64_t(op.getNumOperands()));
    for (Value operand : op.getOperands())
      add(numbers.lookup(operand));
    for (Value result : op.getResults())
      number(result);
  }
  return *this;
}
