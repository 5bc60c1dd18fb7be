// Sums over a training graph, and its validation.
#include "colossal/Planner/TrainingGraph.h"

#include <set>

namespace colossal::planner {

double UnitKind::parameters() const {
  double sum = 0;
  for (const Tensor &tensor : tensors)
    if (tensor.kind == Tensor::Parameter)
      sum += tensor.stored;
  return sum;
}

double UnitKind::contractionFlops() const {
  double sum = 0;
  for (const Operation &op : operations)
    if (op.kind == Operation::Contraction || op.kind == Operation::Attention)
      sum += op.flops;
  return sum;
}

double TrainingGraph::parameters() const {
  double sum = 0;
  std::set<int> seen;
  for (int unit : units)
    for (const Tensor &tensor : kinds[unit].tensors)
      if (tensor.kind == Tensor::Parameter && (tensor.shared < 0 || seen.insert(tensor.shared).second))
        sum += tensor.stored;
  return sum;
}

double TrainingGraph::stepFlops(double sequences) const {
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

static std::string checkUse(const UnitKind &kind, const Operation &op, const Use &use) {
  if (use.tensor < 0 || use.tensor >= static_cast<int>(kind.tensors.size()))
    return "names a tensor that is not there";
  for (const FactorPosition &place : use.places)
    if (place.factor < 0 || place.factor >= static_cast<int>(op.factors.size()))
      return "names a factor that is not there";
  return "";
}

std::string validate(const TrainingGraph &graph) {
  if (graph.units.empty())
    return "units: there are none";
  for (std::size_t k = 0; k < graph.kinds.size(); ++k) {
    const UnitKind &kind = graph.kinds[k];
    std::string where = "kinds[" + std::to_string(k) + "] (" + kind.name + ")";
    for (const Tensor &tensor : kind.tensors)
      if (!(tensor.elements > 0) || !(tensor.stored >= 0))
        return where + ": tensor '" + tensor.name + "' has no elements";
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
    for (const auto *boundary : {&kind.inputs, &kind.outputs})
      for (int tensor : *boundary)
        if (tensor < 0 || tensor >= static_cast<int>(kind.tensors.size()))
          return where + ": its boundary names a tensor that is not there";
  }
  for (std::size_t u = 0; u < graph.units.size(); ++u) {
    if (graph.units[u] < 0 || graph.units[u] >= static_cast<int>(graph.kinds.size()))
      return "units[" + std::to_string(u) + "]: there is no such kind";
    if (u > 0 && graph.kinds[graph.units[u]].inputs.size() != graph.kinds[graph.units[u - 1]].outputs.size())
      return "units[" + std::to_string(u) + "]: takes " +
             std::to_string(graph.kinds[graph.units[u]].inputs.size()) + " tensors, the unit before gives " +
             std::to_string(graph.kinds[graph.units[u - 1]].outputs.size());
  }
  return "";
}

} // namespace colossal::planner
