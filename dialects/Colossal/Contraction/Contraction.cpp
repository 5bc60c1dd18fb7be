//===- Contraction.cpp ---------------------------------------------------===//
//
// Products summed over shared dimensions. All that is known about these ops stands here: verification,
// folding, sharding rules, emission.
//
//===----------------------------------------------------------------------===//
#include "dialects/Colossal/Colossal.h"
#include "dialects/Colossal/Verification.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

LogicalResult ContractOp::verify() {
  if (failed(verifyTensors(*this)))
    return failure();
  struct Use {
    int64_t size;
    unsigned tensors; // bits: lhs, rhs, result
  };
  llvm::SmallMapVector<int64_t, Use, 8> uses;
  auto add = [&](Value tensor, ArrayRef<int64_t> labels, unsigned bit, StringRef name) -> LogicalResult {
    if (failed(verifyCount(*this, labels.size(), shapeOf(tensor).size(), name, "C3")))
      return failure();
    for (auto [label, size] : llvm::zip_equal(labels, shapeOf(tensor))) {
      Use &use = uses.insert({label, Use{size, 0}}).first->second;
      if (use.tensors & bit)
        return emitOpError() << "label " << label << " occurs twice in " << name << " (C1)";
      if (use.size != size)
        return emitOpError() << "label " << label << " has sizes " << use.size << " and " << size << " (C1)";
      use.tensors |= bit;
    }
    return success();
  };
  if (failed(add(getLhs(), getLhsDims(), 1, "lhs_dims")) ||
      failed(add(getRhs(), getRhsDims(), 2, "rhs_dims")) ||
      failed(add(getResult(), getResultDims(), 4, "result_dims")))
    return failure();
  for (auto &[label, use] : uses)
    if (llvm::isPowerOf2_32(use.tensors))
      return emitOpError() << "label " << label << " occurs in one tensor only (C2)";
  for (Value tensor : {getRhs(), getResult()})
    if (isa<FloatType>(elementTypeOf(getLhs())) != isa<FloatType>(elementTypeOf(tensor)))
      return emitOpError() << "mixes floats and integers: " << getLhs().getType() << " and "
                           << tensor.getType() << " (C4)";
  return success();
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

FactorRule ContractOp::getFactorRule() {
  FactorRule rule;
  llvm::SmallDenseMap<int64_t, unsigned> factors;
  auto addTensor = [&](Type type, ArrayRef<int64_t> labels) {
    TensorFactors dims;
    for (auto [label, size] : llvm::zip_equal(labels, cast<RankedTensorType>(type).getShape())) {
      bool inLhs = llvm::is_contained(getLhsDims(), label), inRhs = llvm::is_contained(getRhsDims(), label);
      bool inResult = llvm::is_contained(getResultDims(), label);
      auto [it, isNew] = factors.try_emplace(label, rule.factors.size());
      if (isNew) {
        rule.add(size, FactorKind::Parallel, inResult ? (inLhs && inRhs ? "batch" : inLhs ? "m" : "n") : "k");
        if (!inResult)
          rule.setReduction(it->second, ReductionKind::Sum);
      }
      dims.push_back({it->second});
    }
    return dims;
  };
  rule.operands.push_back(addTensor(getLhs().getType(), getLhsDims()));
  rule.operands.push_back(addTensor(getRhs().getType(), getRhsDims()));
  rule.results.push_back(addTensor(getType(), getResultDims()));
  return rule;
}

double ContractOp::getFlops() {
  // The sizes of the rule's factors: a label of the result is one of an operand, too (C2).
  double flops = 2.0;
  for (int64_t size : shapeOf(getLhs()))
    flops *= static_cast<double>(size);
  for (auto [label, size] : llvm::zip_equal(getRhsDims(), shapeOf(getRhs())))
    if (!llvm::is_contained(getLhsDims(), label))
      flops *= static_cast<double>(size);
  return flops;
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

// The gradient of each operand is a contraction of the other with the result's gradient, over the same index
// space.
double ContractOp::getGradientFlops(unsigned operand) {
  return getFlops();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

KernelKind ContractOp::getKernelKind() {
  return KernelKind::Contraction;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

Value ContractOp::emitElement(ElementEmitter &emitter, unsigned result, ArrayRef<Lane> index) {
  // The plain sum of products, for element types that have no kernel of their own.
  Type type = elementTypeOf(getResult()), inner = computeType(type);
  llvm::SmallDenseMap<int64_t, Lane> at;
  for (auto [label, lane] : llvm::zip(getResultDims(), index))
    at[label] = lane;
  SmallVector<std::pair<int64_t, int64_t>> sums; // label, size
  for (auto [label, size] : llvm::zip(getLhsDims(), shapeOf(getLhs())))
    if (!at.count(label))
      sums.push_back({label, size});
  auto read = [&](Value tensor, ArrayRef<int64_t> labels) {
    SmallVector<Lane> in;
    for (int64_t label : labels)
      in.push_back(at[label]);
    return Element(emitter, emitter.load(tensor, in), elementTypeOf(tensor)).to(inner);
  };
  Value init = emitter.scalar(inner, 0);
  if (llvm::any_of(index, [](const Lane &lane) { return !lane.isUniform(); }))
    init = vector::BroadcastOp::create(emitter.builder(), emitter.loc(),
                                       VectorType::get({(int64_t)emitter.lanes()}, init.getType()), init);
  auto loop = [&](auto self, unsigned i, ValueRange carried) -> SmallVector<Value> {
    if (i == sums.size()) {
      Element rhs = read(getRhs(), getRhsDims());
      return {(Element(emitter, carried[0], inner) + read(getLhs(), getLhsDims()) * rhs).get()};
    }
    return emitter.reduce(sums[i].second, carried, [&](Value counter, ValueRange next) {
      at[sums[i].first] = emitter.uniform(counter);
      return self(self, i + 1, next);
    });
  };
  return Element(emitter, loop(loop, 0, init)[0], inner).to(type).get();
}
