// Sums and lives of a factor graph, and its validation.
#include "colossal/FactorGraph/FactorGraph.h"

#include <algorithm>
#include <set>

namespace colossal::factors {

double UnitKind::parameters() const {
  double sum = 0;
  for (const Tensor &tensor : tensors)
    if (tensor.kind == Tensor::Parameter)
      sum += tensor.stored;
  return sum;
}

double UnitKind::frozen() const {
  double sum = 0;
  for (const Tensor &tensor : tensors)
    sum += tensor.frozen;
  return sum;
}

double UnitKind::contractionFlops() const {
  double sum = 0;
  for (const Operation &op : operations)
    if (op.kind == Operation::Contraction || op.kind == Operation::Attention)
      sum += op.flops;
  return sum;
}

double FactorGraph::parameters() const {
  double sum = 0;
  std::set<int> seen;
  for (int unit : units)
    for (const Tensor &tensor : kinds[unit].tensors)
      if (tensor.kind == Tensor::Parameter && (tensor.shared < 0 || seen.insert(tensor.shared).second))
        sum += tensor.stored;
  return sum;
}

double FactorGraph::stepFlops(double sequences) const {
  double sum = 0;
  for (int unit : units)
    for (const Operation &op : kinds[unit].operations)
      if (op.kind == Operation::Contraction || op.kind == Operation::Attention) {
        sum += op.flops;
        for (const Use &use : op.operands)
          sum += use.gradientFlops;
      }
  return sum * sequences;
}

void findLives(UnitKind &kind) {
  int count = static_cast<int>(kind.operations.size());
  for (Tensor &tensor : kind.tensors)
    tensor.begin = tensor.end = 0;
  std::vector<bool> isInLoop(kind.tensors.size(), false);
  for (int i = 0; i < count; ++i) {
    const Operation &op = kind.operations[i];
    for (const Use &use : op.operands) {
      int &end = kind.tensors[use.tensor].end;
      end = op.repeated && !isInLoop[use.tensor] ? count : std::max(end, i + 1);
    }
    for (const Use &use : op.results) {
      kind.tensors[use.tensor].begin = i;
      kind.tensors[use.tensor].end = std::max(kind.tensors[use.tensor].end, i + 1);
      isInLoop[use.tensor] = op.repeated;
    }
  }
  for (int output : kind.outputs)
    kind.tensors[output].end = count;
  for (int i = count - 1; i >= 0; --i) { // views of views come last first
    const Operation &op = kind.operations[i];
    if (op.kind == Operation::View && !op.operands.empty())
      for (const Use &result : op.results) {
        int &end = kind.tensors[op.operands.front().tensor].end;
        end = std::max(end, kind.tensors[result.tensor].end);
      }
  }
}

/// Empty, or what is wrong with the tensors of a kind.
static std::string checkTensors(const UnitKind &kind) {
  for (const Tensor &tensor : kind.tensors)
    if (!(tensor.elements > 0) || !(tensor.stored >= 0))
      return "tensor '" + tensor.name + "' has no elements";
  for (std::size_t i = 0; i < kind.operations.size(); ++i)
    for (const auto *uses : {&kind.operations[i].operands, &kind.operations[i].results})
      for (const Use &use : *uses) {
        if (use.tensor < 0 || use.tensor >= static_cast<int>(kind.tensors.size()))
          continue; // told of with the operation
        const Tensor &tensor = kind.tensors[use.tensor];
        if (tensor.begin > static_cast<int>(i) || tensor.end <= static_cast<int>(i))
          return "tensor '" + tensor.name + "' is not there when '" + kind.operations[i].name + "' uses it";
      }
  return "";
}

static std::string checkUse(const UnitKind &kind, const Operation &op, const Use &use) {
  if (use.tensor < 0 || use.tensor >= static_cast<int>(kind.tensors.size()))
    return "names a tensor that is not there";
  for (const FactorPosition &place : use.places)
    if (place.factor < 0 || place.factor >= static_cast<int>(op.factors.size()))
      return "names a factor that is not there";
  return "";
}

std::string validate(const FactorGraph &graph) {
  if (graph.units.empty())
    return "units: there are none";
  for (std::size_t k = 0; k < graph.kinds.size(); ++k) {
    const UnitKind &kind = graph.kinds[k];
    std::string where = "kinds[" + std::to_string(k) + "] (" + kind.name + ")";
    for (const Operation &op : kind.operations) {
      for (const Factor &factor : op.factors)
        if (!(factor.size > 0))
          return where + ": operation '" + op.name + "' has a factor without a size";
      for (const auto *uses : {&op.operands, &op.results})
        for (const Use &use : *uses)
          if (std::string error = checkUse(kind, op, use); !error.empty())
            return where + ": operation '" + op.name + "' " + error;
      if (op.kind == Operation::Attention && op.operands.size() < 3)
        return where + ": operation '" + op.name + "' is attention without three operands";
      if (op.kind == Operation::Contraction && op.operands.size() < 2)
        return where + ": operation '" + op.name + "' is a contraction without two operands";
    }
    if (std::string error = checkTensors(kind); !error.empty())
      return where + ": " + error;
    for (const TableUse &use : kind.tables)
      if (use.operation < 0 || use.operation >= static_cast<int>(kind.operations.size()) || use.operand < 0 ||
          use.operand >= static_cast<int>(kind.operations[use.operation].operands.size()))
        return where + ": a table is read by an operand that is not there";
    for (const auto *boundary : {&kind.inputs, &kind.outputs})
      for (int tensor : *boundary)
        if (tensor < 0 || tensor >= static_cast<int>(kind.tensors.size()))
          return where + ": its boundary names a tensor that is not there";
  }
  for (const Table &table : graph.tables)
    for (auto [unit, place] : table.uses)
      if (unit < 0 || unit >= static_cast<int>(graph.units.size()) || place < 0 ||
          place >= static_cast<int>(graph.kinds[graph.units[unit]].tables.size()))
        return "tables: one is read where no unit does";
  if (!graph.ids.empty() && graph.ids.size() != graph.units.size())
    return "ids: there must be those of every unit";
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    if (graph.units[u] < 0 || graph.units[u] >= static_cast<int>(graph.kinds.size()))
      return "units[" + std::to_string(u) + "]: there is no such kind";
    if (!graph.ids.empty() && graph.ids[u].size() != graph.kinds[graph.units[u]].operations.size())
      return "ids[" + std::to_string(u) + "]: must have one number for each operation";
    if (u > 0 && graph.kinds[graph.units[u]].inputs.size() != graph.kinds[graph.units[u - 1]].outputs.size())
      return "units[" + std::to_string(u) + "]: takes " +
             std::to_string(graph.kinds[graph.units[u]].inputs.size()) + " tensors, the unit before gives " +
             std::to_string(graph.kinds[graph.units[u - 1]].outputs.size());
  }
  return "";
}

} // namespace colossal::factors
