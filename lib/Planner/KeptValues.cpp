// Values in the order of the seconds that a byte of them saves.
#include "KeptValues.h"

#include "RemadeUnits.h"

#include <algorithm>

namespace colossal::planner {

namespace {

/// The results of an operation of a kind, in all of the kind's units.
struct KeepableValue {
  std::size_t kind, operation;
  double secondsPerByte, bytes;
};

/// What full recompute makes again and takes time to make: what a view shows is there with its operand, and
/// what has no kernel of its own costs nothing.
std::vector<KeepableValue> findValues(const FactorGraph &graph, BlockPlanner &blocks,
                                      const TrainingTypes &types) {
  const RemadeUnits remade = findRemadeUnits(graph, Recompute::Full, nullptr, types.activation);
  std::vector<std::vector<double>> units(graph.kinds.size()); // by operation: in which it is done again
  for (std::size_t k = 0; k < graph.kinds.size(); ++k)
    units[k].resize(graph.kinds[k].operations.size());
  for (int unit : remade.units)
    for (std::size_t i = 0; i < remade.kinds[unit].isAgain.size(); ++i)
      units[remade.graphKinds[unit]][i] += remade.kinds[unit].isAgain[i];
  std::vector<KeepableValue> values;
  for (std::size_t k = 0; k < graph.kinds.size(); ++k)
    for (std::size_t i = 0; i < graph.kinds[k].operations.size(); ++i) {
      const Operation &op = graph.kinds[k].operations[i];
      double bytes = 0;
      for (const Use &use : op.results) {
        const Tensor &tensor = graph.kinds[k].tensors[use.tensor];
        bytes += tensor.elements * (tensor.isFloat ? types.activation : tensor.bytes);
      }
      if (units[k][i] == 0 || op.kind == Operation::View || bytes <= 0)
        continue;
      const double seconds = blocks.forwardSeconds(static_cast<int>(k), static_cast<int>(i));
      if (seconds > 0)
        values.push_back({k, i, seconds / bytes, bytes * units[k][i]});
    }
  std::stable_sort(values.begin(), values.end(), [](const KeepableValue &a, const KeepableValue &b) {
    return a.secondsPerByte > b.secondsPerByte;
  });
  return values;
}

} // namespace

std::vector<std::shared_ptr<const KeptOperations>>
findKeptChoices(const FactorGraph &graph, BlockPlanner &blocks, const TrainingTypes &types, int most) {
  const std::vector<KeepableValue> values = findValues(graph, blocks, types);
  double all = 0;
  for (const KeepableValue &value : values)
    all += value.bytes;
  KeptOperations kept;
  for (const UnitKind &kind : graph.kinds)
    kept.emplace_back(kind.operations.size(), false);
  std::vector<std::shared_ptr<const KeptOperations>> choices;
  double bytes = 0, wanted = all / (most + 1);
  for (const KeepableValue &value : values) {
    kept[value.kind][value.operation] = true;
    bytes += value.bytes;
    if (bytes < wanted || &value == &values.back())
      continue;
    choices.push_back(std::make_shared<const KeptOperations>(kept));
    while (wanted <= bytes)
      wanted += all / (most + 1);
  }
  return choices;
}

std::map<std::string, std::vector<std::string>> nameKept(const FactorGraph &graph,
                                                         const KeptOperations &kept) {
  std::map<std::string, std::vector<std::string>> names;
  for (std::size_t k = 0; k < kept.size(); ++k)
    for (std::size_t i = 0; i < kept[k].size(); ++i)
      if (kept[k][i])
        names[graph.kinds[k].name].push_back(graph.kinds[k].operations[i].name);
  return names;
}

KeptOperations readKept(const FactorGraph &graph,
                        const std::map<std::string, std::vector<std::string>> &names, std::string &error) {
  KeptOperations kept;
  for (const UnitKind &kind : graph.kinds)
    kept.emplace_back(kind.operations.size(), false);
  for (const auto &[name, operations] : names) {
    const auto kind = std::find_if(graph.kinds.begin(), graph.kinds.end(),
                                   [&, &name = name](const UnitKind &one) { return one.name == name; });
    if (kind == graph.kinds.end()) {
      error = "the model has no unit '" + name + "'";
      return kept;
    }
    for (const std::string &operation : operations) {
      const auto at = std::find_if(kind->operations.begin(), kind->operations.end(),
                                   [&](const Operation &op) { return op.name == operation; });
      if (at == kind->operations.end()) {
        error = "unit '" + name + "' has no operation '" + operation + "'";
        return kept;
      }
      kept[kind - graph.kinds.begin()][at - kind->operations.begin()] = true;
    }
  }
  return kept;
}

} // namespace colossal::planner
