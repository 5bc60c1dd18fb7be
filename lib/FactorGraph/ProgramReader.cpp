//===- ProgramReader.cpp - operations and programs as they stand ------------===//
#include "Description.h"
#include "colossal/FactorGraph/Reader.h"
#include "colossal/Outline/OpNames.h"
#include "colossal/Partition/Refinement.h"
#include "colossal/Partition/Resharding.h"
#include "dialects/Colossal/Colossal.h"

#include <map>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;

static factors::Factor::Kind getKind(FactorKind kind) {
  switch (kind) {
  case FactorKind::Parallel: return factors::Factor::Parallel;
  case FactorKind::Reduction: return factors::Factor::Reduction;
  case FactorKind::Whole: return factors::Factor::Whole;
  case FactorKind::Joined: return factors::Factor::Joined;
  case FactorKind::Carried: return factors::Factor::Carried;
  }
  llvm_unreachable("unknown kind of factor");
}

factors::Factor factors::describe(const dist::Factor &given) {
  factors::Factor factor;
  factor.size = std::max<double>(1, static_cast<double>(given.size));
  factor.kind = getKind(given.kind);
  factor.role = given.role.str();
  factor.indexed = given.indexed;
  factor.staged = given.staged;
  if (given.operandSize >= 0)
    factor.window = factors::Window{static_cast<double>(given.operandSize), static_cast<double>(given.stride),
                                    static_cast<double>(given.window)};
  return factor;
}

void factors::addPlaces(const TensorFactors &dims, const std::vector<Factor> &all, Use &use) {
  for (auto [d, dim] : llvm::enumerate(dims)) {
    double inner = 1;
    for (unsigned f : llvm::reverse(dim)) {
      use.places.push_back({static_cast<int>(f), static_cast<int>(d), inner});
      inner *= all[f].size;
    }
  }
}

factors::Operation::Kind factors::getOperationKind(mlir::Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  switch (kernel ? kernel.getKernelKind() : KernelKind::Element) {
  case KernelKind::Contraction:
  case KernelKind::Convolution: return factors::Operation::Contraction;
  case KernelKind::Attention: return factors::Operation::Attention;
  // What moves elements of one operand, and reads none for its gradient, is taken as a view by kernels.
  case KernelKind::Movement:
    if (!cast<GradientOpInterface>(op).isOperandSaved(0))
      return factors::Operation::View;
    return factors::Operation::Streaming;
  default: return factors::Operation::Streaming;
  }
}

factors::Tensor factors::describe(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  factors::Tensor tensor;
  tensor.elements = std::max<double>(1, static_cast<double>(type.getNumElements()));
  tensor.perSequence = false;
  tensor.isFloat = isa<FloatType>(type.getElementType());
  tensor.bytes = getElementBytes(type.getElementType());
  return tensor;
}

factors::Operation factors::readOperation(mlir::Operation *op, const FactorRule &rule) {
  auto ruled = cast<ShardingRuleOpInterface>(op);
  factors::Operation built;
  built.flops = ruled.getFlops();
  built.heavy = ruled.isHeavy();
  built.kind = getOperationKind(op);
  if (op->getNumOperands() == 1 && op->getNumResults() == 1 && built.flops == 0)
    built.kind = factors::Operation::View;
  else if (built.kind == factors::Operation::View)
    built.kind = factors::Operation::Streaming;
  for (const dist::Factor &factor : rule.factors)
    built.factors.push_back(describe(factor));
  int number = 0;
  auto add = [&](TypeRange types, ArrayRef<TensorFactors> places, std::vector<factors::Use> &uses) {
    for (auto [i, type] : llvm::enumerate(types)) {
      factors::Use use;
      use.tensor = number++;
      if (!isa<RankedTensorType>(type))
        continue;
      addPlaces(places[i], built.factors, use);
      uses.push_back(std::move(use));
    }
  };
  add(op->getOperandTypes(), rule.operands, built.operands);
  add(op->getResultTypes(), rule.results, built.results);
  return built;
}

factors::Reading factors::readProgram(func::FuncOp function, const RefinementAnalysis &rules,
                                      const std::function<bool(mlir::Operation *)> &isRepeated,
                                      std::map<std::string, int> &parameters) {
  factors::Reading reading;
  factors::UnitKind &kind = reading.graph.kinds.emplace_back();
  reading.graph.units.push_back(0);
  std::vector<int> &ids = reading.graph.ids.emplace_back();
  kind.name = reading.graph.name = function.getName().str();
  llvm::DenseMap<Value, int> numbers;
  llvm::DenseMap<const RefinedRule *, factors::Operation> known; // ops that share a rule are of one kind
  auto add = [&](Value value, factors::Tensor::Kind as) -> factors::Tensor & {
    numbers[value] = static_cast<int>(kind.tensors.size());
    kind.tensors.push_back(describe(value));
    kind.tensors.back().kind = as;
    return kind.tensors.back();
  };
  for (BlockArgument argument : function.getArguments()) {
    add(argument, factors::Tensor::Given);
    kind.inputs.push_back(numbers[argument]);
  }
  // Of layers there are many: what is known of them is written once where it stays.
  size_t operations = 0, tensors = kind.tensors.size();
  for (mlir::Operation &op : function.front()) {
    ++operations;
    tensors += op.getNumResults();
  }
  reading.operations.reserve(operations);
  ids.reserve(operations);
  kind.operations.reserve(operations);
  kind.tensors.reserve(tensors);
  for (mlir::Operation &op : function.front().without_terminator()) {
    const int id = static_cast<int>(reading.operations.size());
    reading.operations.push_back(&op);
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      factors::Tensor &tensor = add(parameter, factors::Tensor::Parameter);
      tensor.name = parameter.getName().str();
      tensor.stored = tensor.elements;
      tensor.shared = parameters.try_emplace(tensor.name, static_cast<int>(parameters.size())).first->second;
      tensor.id = id;
      continue;
    }
    const RefinedRule &rule = rules.get(&op);
    auto [like, isNew] = known.try_emplace(&rule);
    if (isNew)
      like->second = readOperation(&op, rule.rule);
    factors::Operation built = like->second;
    StringRef name = outline::getFirstName(op.getLoc());
    built.name = (name.empty() ? op.getName().getStringRef() : name).str();
    built.repeated = isRepeated(&op);
    for (factors::Use &use : built.operands)
      use.tensor = numbers.lookup(op.getOperand(static_cast<unsigned>(use.tensor)));
    for (factors::Use &use : built.results) {
      Value result = op.getResult(static_cast<unsigned>(use.tensor) - op.getNumOperands());
      add(result, factors::Tensor::Activation).name = built.name;
      use.tensor = numbers[result];
    }
    kind.operations.push_back(std::move(built));
    ids.push_back(id);
  }
  for (Value value : function.front().getTerminator()->getOperands())
    kind.outputs.push_back(numbers.lookup(value));
  factors::findLives(kind);
  return reading;
}
