//===- PlanPins.cpp - a training plan's layouts as pins ------------------------===//
#include "PlanPins.h"

#include "colossal/Outline/OpNames.h"
#include "colossal/Outline/Origins.h"
#include "dialects/Colossal/Colossal.h"
#include "lib/Layout/Names.h"
#include "llvm/ADT/StringSet.h"

#include <set>

using namespace mlir;

namespace colossal {

std::string nameTensorAxis(size_t number) {
  return number == 0 ? "model" : "model" + std::to_string(number + 1);
}

std::vector<std::string> findStagePins(ArrayRef<int> parts, const ReadModel &model) {
  // Nodes of several units belong to none of them: what is made of them stands where it is needed.
  llvm::StringMap<size_t> partOf;
  std::vector<std::vector<StringRef>> names(parts.size());
  llvm::StringSet<> shared;
  size_t unit = 0;
  for (auto [part, units] : llvm::enumerate(parts))
    for (const size_t end = unit + static_cast<size_t>(units); unit < end; ++unit)
      for (int64_t id : model.reading.graph.ids[unit]) {
        const StringRef name = id < 0 ? "" : outline::getFirstName(model.reading.operations[id]->getLoc());
        if (name.empty())
          continue;
        auto [known, isNew] = partOf.try_emplace(name, part);
        if (isNew)
          names[part].push_back(known->getKey());
        else if (known->second != part)
          shared.insert(name);
      }
  constexpr size_t kLongest = 900; // an expression of a pin has at most 1,000 characters
  std::vector<std::string> pins;
  for (auto [part, own] : llvm::enumerate(names)) {
    std::string text;
    auto finish = [&, part = part] {
      if (!text.empty())
        pins.push_back("(" + text + ")=stage:" + std::to_string(part));
      text.clear();
    };
    for (StringRef name : own) {
      if (shared.contains(name))
        continue;
      const std::string escaped = outline::escapeName(name);
      if (text.size() + escaped.size() > kLongest)
        finish();
      text += (text.empty() ? "" : "|") + escaped;
    }
    finish();
  }
  return pins;
}

/// Whether `op` only moves elements of a parameter, which lie as they are stored.
static bool isReadOf(Operation &op) {
  auto kernel = dyn_cast<KernelOpInterface>(&op);
  if (!kernel || kernel.getKernelKind() != KernelKind::Movement || op.getNumOperands() != 1)
    return false;
  Operation *maker = op.getOperand(0).getDefiningOp();
  return maker && (isa<ParameterOp>(maker) || isReadOf(*maker));
}

std::vector<std::string> findBatchlessPins(ReadModel &model) {
  func::FuncOp function = model.functions[0];
  llvm::DenseMap<Value, outline::Origin> origins = outline::findOrigins(function);
  llvm::DenseMap<Operation *, std::string> unique = outline::getUniqueNames(function);
  llvm::StringMap<Type> sizes; // at the other batch
  for (auto [op, name] : outline::getUniqueNames(model.functions[1]))
    if (op->getNumResults() > 0)
      sizes[name] = op->getResult(0).getType();
  // What is repeated for each sequence has a batch, and what that is made of may be split as it is.
  llvm::DenseSet<Operation *> batched;
  for (Operation &op : llvm::reverse(function.front().without_terminator())) {
    const bool isFixed = op.getNumResults() > 0 && !origins.lookup(op.getResult(0)).argument;
    if (isFixed && (sizes.lookup(unique[&op]) != op.getResult(0).getType() ||
                    llvm::any_of(op.getUsers(), [&](Operation *user) { return batched.contains(user); })))
      batched.insert(&op);
  }
  llvm::MapVector<StringRef, SmallVector<Operation *, 1>> nodes;
  for (Operation &op : function.front().without_terminator())
    if (StringRef name = outline::getFirstName(op.getLoc());
        !name.empty() && !isa<ParameterOp>(op) && op.getNumResults() > 0)
      nodes[name].push_back(&op);
  std::vector<std::string> pins;
  for (auto &[name, ops] : nodes) {
    bool isReached = true; // by a gradient, which goes on to parameters alone
    llvm::StringSet<> own;
    for (Operation *op : ops) {
      const outline::Origin origin = origins.lookup(op->getResult(0));
      const bool isBatchless = !origin.argument && !batched.contains(op);
      isReached &= isBatchless && origin.parameter;
      auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
      if (!type || !isBatchless || isReadOf(*op))
        continue;
      std::string pin = "?" + outline::escapeName(name) + "=replicated[";
      llvm::raw_string_ostream text(pin);
      llvm::interleave(type.getShape(), text, ",");
      text << "]";
      if (own.insert(pin).second)
        pins.push_back(std::move(pin));
    }
    if (isReached)
      pins.push_back("?" + outline::escapeName(outline::nameGradient(name)) + "(#\\d+)?=partial:data");
  }
  return pins;
}

/// What the model's operations make at the other of the two batches, by their unique names.
static llvm::StringMap<Type> findTypesAtOther(ReadModel &model) {
  llvm::StringMap<Type> types;
  for (auto [op, name] : outline::getUniqueNames(model.functions[1]))
    if (op->getNumResults() > 0)
      types[name] = op->getResult(0).getType();
  return types;
}

/// Behind the pin of a slice: the dimensions it speaks of. What a node drops of them, when it takes one row,
/// is a reshape that has its name and other factors. And where several operations of a node are to be told
/// apart (`hasSizes`): their sizes, but for the batch. `other`: its result's type at another batch.
static std::string describeShape(Operation &op, Type other, bool hasSizes) {
  if (!hasSizes && !isa<SliceOp>(op))
    return "";
  auto type = cast<RankedTensorType>(op.getResult(0).getType()),
       atOther = dyn_cast_or_null<RankedTensorType>(other);
  std::string text;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    const bool isFixed = hasSizes && atOther && atOther.getRank() == type.getRank() &&
                         atOther.getDimSize(d) == type.getDimSize(d);
    text += (d ? "," : "") + (isFixed ? std::to_string(type.getDimSize(d)) : "-");
  }
  return "[" + text + "]";
}

/// A pin of the loss, which is no operation of the file, where tensor axes split it: what it computes for
/// each logit has their dimensions. `choice` has the factor that each of `axes` splits, or -1.
static std::string nameLossLayout(const factors::Operation &loss,
                                  const planner::UnitLayout::value_type &choice, ArrayRef<std::string> axes,
                                  bool hasData) {
  std::string text;
  bool splits = false;
  double classes = 1;
  int dims = 0;
  for (const factors::FactorPosition &place : loss.operands[0].places) {
    const factors::Factor &factor = loss.factors[place.factor];
    classes *= factor.role == "vocabulary" ? factor.size : 1;
    dims = std::max(dims, place.dim + 1);
    std::string on = hasData && factor.perSequence ? "data" : "";
    for (auto [a, axis] : llvm::enumerate(axes))
      if (choice[a] == place.factor) {
        splits = true;
        on += (on.empty() ? "" : "+") + axis;
      }
    int parts = 0, outside = 0; // of the dimension
    for (const factors::FactorPosition &other : loss.operands[0].places) {
      parts += other.dim == place.dim;
      outside += other.dim == place.dim && other.inner > place.inner;
    }
    if (!on.empty())
      text += (text.empty() ? "" : ",") + ("d" + std::to_string(place.dim)) +
              (parts > 1 ? "." + std::to_string(outside) : "") + ":" + on;
  }
  if (!splits)
    return "";
  std::string shape = "[";
  for (int d = 1; d < dims; ++d)
    shape += "-,";
  const std::string gradient = outline::escapeName(outline::nameGradient("")); // has it, too
  return "?" + outline::escapeName(loss.name) + "(" + gradient + ")?=" + text + shape +
         std::to_string(static_cast<int64_t>(classes)) + "]";
}

/// A plan's axes, as a unit's layout has them.
static SmallVector<std::string> nameAxes(const planner::TrainingPlan &plan) {
  SmallVector<std::string> axes;
  if (plan.context > 1)
    axes.push_back("context");
  for (auto [t, size] : llvm::enumerate(plan.tensor))
    if (size > 1)
      axes.push_back(nameTensorAxis(t));
  return axes;
}

std::vector<std::string> findStreamPins(const planner::TrainingPlan &plan, ReadModel &model) {
  const SmallVector<std::string> axes = nameAxes(plan);
  if (axes.empty())
    return {};
  const factors::FactorGraph &graph = model.reading.graph;
  double ranks = plan.context;
  for (int size : plan.tensor)
    ranks *= size;
  std::optional<planner::PositionKey> beside = planner::findPlaceBesideStream(graph);
  if (beside && beside->size < ranks)
    beside.reset();
  const planner::Boundary besideStream(axes.size(), beside);
  llvm::DenseMap<Operation *, std::string> unique = outline::getUniqueNames(model.functions[0]);
  const llvm::StringMap<Type> atOther = findTypesAtOther(model);
  std::set<std::string> layouts;
  for (auto [u, ids] : llvm::enumerate(graph.ids)) {
    const factors::UnitKind &kind = graph.kinds[graph.units[u]];
    for (auto [i, id] : llvm::enumerate(ids)) {
      const factors::Operation &op = kind.operations[i];
      if (id < 0 || op.results.empty() || !llvm::is_contained(kind.outputs, op.results[0].tensor))
        continue;
      Operation *maker = model.reading.operations[id];
      auto type = dyn_cast<RankedTensorType>(maker->getResult(0).getType());
      if (!type || type.getRank() == 0)
        continue;
      SmallVector<std::string> dims(type.getRank(), "-");
      if (plan.data > 1)
        dims[0] = "data";
      const bool isStream = op.results[0].tensor == kind.outputs.front();
      const planner::Boundary &places = isStream ? plan.boundary : besideStream;
      for (auto [axis, place] : llvm::zip_equal(axes, ArrayRef(places).take_front(axes.size()))) {
        if (!place || place->dim >= type.getRank())
          continue;
        std::string &dim = dims[place->dim];
        const auto inner = static_cast<int64_t>(place->inner), size = static_cast<int64_t>(place->size);
        const bool isOutermost = size == 0 || size * inner >= type.getDimSize(place->dim);
        if (dim != "-") {
          dim += "+" + axis; // axes that share a place
          continue;
        }
        dim = (isOutermost ? "" : "-*" + std::to_string(size) + ":") + axis +
              (inner > 1 ? "*" + std::to_string(inner) : "");
      }
      layouts.insert("[" + llvm::join(dims, ",") + "]" +
                     describeShape(*maker, atOther.lookup(unique[maker]), /*hasSizes=*/true));
    }
  }
  std::vector<std::string> pins;
  for (const std::string &layout : layouts)
    pins.push_back("?(send|recv)\\..*=" + layout);
  return pins;
}

std::vector<std::string> findPins(const planner::TrainingPlan &plan, ArrayRef<planner::UnitLayout> layouts,
                                  ReadModel &model) {
  const factors::FactorGraph &graph = model.reading.graph;
  dist::RefinementAnalysis rules(model.functions[0]);
  const SmallVector<std::string> axes = nameAxes(plan);
  // Several operations may be made of one node, and have its name; a pin of factors holds for those that have
  // them. One that splits nothing holds for any, so where there are several it is of the name that tells them
  // apart, and goes before.
  llvm::DenseMap<Operation *, std::string> unique = outline::getUniqueNames(model.functions[0]);
  llvm::StringMap<unsigned> count, reductions;
  llvm::StringSet<> turns;
  for (Operation &op : model.functions[0].front()) {
    ++count[outline::getFirstName(op.getLoc())];
    if (isa<TransposeOp>(op))
      turns.insert(outline::getFirstName(op.getLoc()));
    if (isa<ReduceOp>(op))
      ++reductions[outline::getFirstName(op.getLoc())];
  }
  const llvm::StringMap<Type> atOther = findTypesAtOther(model);
  std::vector<std::string> whole, split, reduced;
  for (auto [u, ids] : llvm::enumerate(graph.ids)) {
    const factors::UnitKind &kind = graph.kinds[graph.units[u]];
    const planner::UnitLayout &layout = layouts[graph.units[u]];
    for (auto [i, id] : llvm::enumerate(ids)) {
      const factors::Operation &operation = kind.operations[i];
      const StringRef name = id < 0 ? "" : outline::getFirstName(model.reading.operations[id]->getLoc());
      Operation *op = id < 0 ? nullptr : model.reading.operations[id];
      if (id < 0 && !axes.empty() && operation.name == "loss")
        if (std::string pin = nameLossLayout(operation, layout[i], axes, plan.data > 1); !pin.empty())
          split.push_back(std::move(pin));
      if (name.empty() || (operation.kind == factors::Operation::View && !isa<SliceOp>(op)))
        continue;
      const dist::RefinedRule &rule = rules.get(op);
      std::vector<std::string> names = layout::getFactorNames(rule);
      // Where the two batches are not cut alike the units have the factors as they are, whose outermost parts
      // are meant.
      if (rule.rule.factors.size() != operation.factors.size()) {
        std::vector<std::string> own;
        for (ArrayRef<unsigned> parts : rule.parts)
          own.push_back(names[parts.front()]);
        names = std::move(own);
      }
      std::vector<std::string> onFactor(names.size());
      auto add = [&](size_t factor, const std::string &axis) {
        onFactor[factor] += (onFactor[factor].empty() ? "" : "+") + axis;
      };
      if (plan.data > 1)
        for (auto [f, factor] : llvm::enumerate(operation.factors))
          if (factor.perSequence && factor.kind != factors::Factor::Whole) {
            add(f, "data");
            break;
          }
      for (auto [a, axis] : llvm::enumerate(axes))
        if (layout[i][a] >= 0)
          add(static_cast<size_t>(layout[i][a]), axis);
      std::string text;
      for (auto [factor, on] : llvm::zip_equal(names, onFactor))
        if (!on.empty())
          text += (text.empty() ? "" : ",") + factor + ":" + on;
      // A stage that has only some of a node's operations numbers these anew.
      const std::string pin = outline::escapeName(name) + "=" + text;
      if (text.empty())
        whole.push_back((count[name] > 1 && plan.pipeline > 1 ? "?" : "") +
                        outline::escapeName(count[name] > 1 ? StringRef(unique[op]) : name) + "=replicated");
      else if (isa<ReduceOp>(op) && reductions.lookup(name) > 1) {
        // Over classes and then over rows, as losses have them; a step may have others, as for statistics.
        split.push_back(pin);
        reduced.push_back("?" + pin + describeShape(*op, atOther.lookup(unique[op]), /*hasSizes=*/true));
      } else {
        // A node that turns what it reads has dimensions in another order behind that.
        const bool isBesideTurned = isa<ElementwiseOp>(op) && turns.contains(name);
        split.push_back(pin + describeShape(*op, atOther.lookup(unique[op]), isBesideTurned));
      }
    }
  }
  llvm::append_range(whole, split);
  llvm::append_range(whole, reduced);
  if (axes.empty())
    return whole;
  // The backward pass of what is split over tensor axes is, too.
  whole.insert(whole.begin(), ".*" + outline::escapeName(outline::nameGradient("")) + "=forward");
  return whole;
}

} // namespace colossal
