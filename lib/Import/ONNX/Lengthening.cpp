//===- Lengthening.cpp - from the ops of few repetitions to all -------------===//
#include "Lengthening.h"

#include "colossal/Import/OnnxNames.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;

namespace colossal::onnx_import {

Lengthening::Lengthening(Importer &shorter, const Importer &whole)
    : shorter(shorter), whole(whole), repeated(shorter.repeated), nodes(shorter.file.proto().graph().node()) {
  static_assert(kLike == RepeatedNodes::kLike && kLast + 1 == RepeatedNodes::kKept);
  const size_t begin = repeated.first, end = begin + repeated.period * repeated.count;
  for (auto [i, node] : llvm::enumerate(whole.needed)) {
    if (i < begin || i >= end) {
      rankOf[&nodes[node]] = i < begin ? -1 : static_cast<int>(kLast) + 1;
      continue;
    }
    const size_t r = (i - begin) / repeated.period, place = (i - begin) % repeated.period;
    if (r <= kLike || r + 1 == repeated.count)
      placeOf[&nodes[node]] = {std::min(r, kLast), place};
  }
}

bool Lengthening::match() {
  if (shorter.imported + static_cast<int64_t>(repeated.dropped()) > kMostNodes || !findParameters() ||
      !findOps() || !areAlike(kLike) || !areAlike(kLast))
    return false;
  for (auto [before, op] : llvm::zip_equal(ops[kBefore], ops[kLike]))
    locations.push_back({before->getLoc(), op->getLoc()});
  return true;
}

//===----------------------------------------------------------------------===//
// What belongs to which repetition
//===----------------------------------------------------------------------===//

bool Lengthening::findParameters() {
  llvm::StringMap<Place> byName;
  for (size_t r : {kBefore, kLike, kLast}) {
    const auto &own = (*shorter.equal)[r == kLast ? repeated.count - 1 : r];
    for (auto [slot, tensor] : llvm::enumerate(own)) {
      if (shorter.evaluated.contains(tensor))
        return false;
      byName[tensor->name()] = {r, slot};
      initializerOf[shorter.locationOf(tensor->name())] = {r, slot};
    }
  }
  for (auto parameter : shorter.function.getOps<ParameterOp>()) {
    auto found = byName.find(parameter.getName());
    if (found == byName.end())
      continue;
    if (parameter.getData() || parameter.getAliases())
      return false;
    auto [r, slot] = found->second;
    known[parameter] = {r, parameters[r].size(), true};
    parameters[r].push_back(parameter);
    slots[r].push_back(slot);
  }
  for (size_t r : {kBefore, kLast}) {
    if (slots[r] != slots[kLike])
      return false;
    for (auto [a, b] : llvm::zip_equal(parameters[r], parameters[kLike]))
      if (a->getResultTypes() != b->getResultTypes() ||
          a->getDiscardableAttrDictionary() != b->getDiscardableAttrDictionary())
        return false;
  }
  return true;
}

std::optional<int> Lengthening::getRank(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    std::optional<int> most;
    for (Location part : fused.getLocations())
      if (std::optional<int> rank = getRank(part))
        most = std::max(most.value_or(*rank), *rank);
    return most;
  }
  auto *node = OpaqueLoc::getUnderlyingLocationOrNull<const onnx::NodeProto *>(location);
  if (!node)
    return std::nullopt;
  if (auto place = placeOf.find(node); place != placeOf.end())
    return static_cast<int>(place->second.repetition);
  if (auto rank = rankOf.find(node); rank != rankOf.end())
    return rank->second;
  return std::nullopt;
}

bool Lengthening::findOps() {
  int at = -1;
  Ops unknown; // ops that stand for no node belong where their neighbours do
  auto add = [&](Operation *op) {
    if (at < 0 || at > static_cast<int>(kLast))
      return;
    known[op] = {static_cast<size_t>(at), ops[at].size(), false};
    ops[at].push_back(op);
  };
  for (Operation &op : shorter.function.getBody().front().without_terminator()) {
    if (isa<ParameterOp, ConstantOp>(op))
      continue;
    std::optional<int> rank = getRank(op.getLoc());
    if (!rank) {
      unknown.push_back(&op);
      continue;
    }
    if (*rank < at || (!unknown.empty() && *rank > at && *rank > static_cast<int>(kFirst)))
      return false;
    llvm::for_each(unknown, add);
    unknown.clear();
    at = *rank;
    add(&op);
  }
  return (unknown.empty() || at > static_cast<int>(kLast)) && !ops[kLike].empty();
}

//===----------------------------------------------------------------------===//
// Whether they are equal
//===----------------------------------------------------------------------===//

bool Lengthening::areAlike(size_t r) {
  if (ops[r].size() != ops[r - 1].size())
    return false;
  for (auto [before, op] : llvm::zip_equal(ops[r - 1], ops[r])) {
    if (op->getNumRegions() ||
        !OperationEquivalence::isEquivalentTo(before, op, OperationEquivalence::ignoreValueEquivalence,
                                              nullptr, OperationEquivalence::IgnoreLocations))
      return false;
    for (auto [a, b] : llvm::zip_equal(before->getOperands(), op->getOperands()))
      if (!areAlike(a, b, r))
        return false;
    if (!areAlike(before->getLoc(), op->getLoc()))
      return false;
  }
  return true;
}

bool Lengthening::areAlike(Value before, Value value, size_t r) {
  auto find = [&](Value value) -> std::optional<Known> {
    Operation *op = value.getDefiningOp();
    auto found = op ? known.find(op) : known.end();
    return found == known.end() ? std::nullopt : std::optional(found->second);
  };
  const std::optional<Known> to = find(value), from = find(before);
  if (!to || to->repetition == kFirst)
    return before == value;
  if (to->repetition > r || to->repetition + 1 < r)
    return false;
  // What the first repetition gives may stand elsewhere among its ops: that the second is read there is seen
  // where the last reads the third.
  if (to->repetition == kBefore && r == kLike)
    return !from || from->repetition == kFirst;
  return from && from->repetition + 1 == to->repetition && from->index == to->index &&
         from->isParameter == to->isParameter &&
         (to->isParameter ||
          cast<OpResult>(before).getResultNumber() == cast<OpResult>(value).getResultNumber());
}

bool Lengthening::areAlike(Location before, Location location) {
  if (before == location)
    return true;
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    auto other = dyn_cast<FusedLoc>(before);
    return other && other.getMetadata() == fused.getMetadata() &&
           other.getLocations().size() == fused.getLocations().size() &&
           llvm::all_of(llvm::zip_equal(other.getLocations(), fused.getLocations()),
                        [&](auto parts) { return areAlike(std::get<0>(parts), std::get<1>(parts)); });
  }
  auto follows = [](const auto &map, const auto &first, const auto &second) {
    auto a = map.find(first), b = map.find(second);
    return a != map.end() && b != map.end() && a->second.repetition + 1 == b->second.repetition &&
           a->second.node == b->second.node;
  };
  auto *node = OpaqueLoc::getUnderlyingLocationOrNull<const onnx::NodeProto *>(location);
  auto *other = OpaqueLoc::getUnderlyingLocationOrNull<const onnx::NodeProto *>(before);
  return node && other ? follows(placeOf, other, node) : follows(initializerOf, before, location);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

Location Lengthening::getNodeLocation(size_t repetition, size_t node) {
  const size_t place = repeated.first + repetition * repeated.period + node;
  return shorter.resolve(nodes[whole.needed[place]]);
}

Location Lengthening::relocate(Location before, Location location, size_t r) {
  if (before == location)
    return shorter.resolve(location);
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    SmallVector<Location> parts;
    for (auto [a, b] : llvm::zip_equal(cast<FusedLoc>(before).getLocations(), fused.getLocations()))
      parts.push_back(relocate(a, b, r));
    return FusedLoc::get(parts, fused.getMetadata(), location.getContext());
  }
  if (auto *node = OpaqueLoc::getUnderlyingLocationOrNull<const onnx::NodeProto *>(location)) {
    const Place place = placeOf.lookup(node);
    return getNodeLocation(r - kLike + place.repetition, place.node);
  }
  const Place place = initializerOf.lookup(location);
  return shorter.locationOf((*shorter.equal)[r - kLike + place.repetition][place.node]->name());
}

bool Lengthening::apply() {
  SmallVector<OpOperand *> reads; // of what is copied: they are to read the last copy
  for (const auto &values : {ops[kLike], parameters[kLike]})
    for (Operation *op : values)
      for (OpOperand &use : op->getUses())
        if (auto user = known.find(use.getOwner()); user == known.end() || user->second.repetition != kLike)
          reads.push_back(&use);
  IRMapping copies;
  auto mapResults = [&](ArrayRef<Operation *> from, ArrayRef<Operation *> to) {
    for (auto [a, b] : llvm::zip_equal(from, to))
      copies.map(a->getResults(), b->getResults());
  };
  mapResults(ops[kBefore], ops[kLike]);
  mapResults(parameters[kBefore], parameters[kLike]);
  OpBuilder &builder = shorter.builder;
  OpBuilder::InsertionGuard guard(builder);
  Operation *lastOp = ops[kLike].back(),
            *lastParameter = parameters[kLike].empty() ? lastOp : parameters[kLike].back();
  Ops ownOps, ownParameters;
  for (size_t r = kLike + 1; r + 1 < repeated.count; ++r) {
    const auto &tensors = (*shorter.equal)[r];
    SmallVector<std::optional<TensorBytes>> places(tensors.size());
    for (auto [tensor, place] : llvm::zip_equal(tensors, places)) {
      const Type element = getElementType(shorter.ctx, tensor->data_type());
      const auto type =
          RankedTensorType::get(ArrayRef<int64_t>(tensor->dims().data(), tensor->dims_size()), element);
      if (becomesParameter(type, tensor->name(), true, shorter.file) &&
          !(place = shorter.addParameter(*tensor, type)))
        return false;
    }
    ownParameters.clear();
    for (auto [parameter, slot] : llvm::zip_equal(parameters[kLike], slots[kLike])) {
      if (!places[slot])
        return false;
      const std::string &name = tensors[slot]->name();
      builder.setInsertionPointAfter(lastParameter);
      auto copy = cast<ParameterOp>(builder.clone(*parameter));
      copy.setName(name);
      copy.setFile(places[slot]->file);
      copy.setOffset(places[slot]->offset);
      copy->setLoc(shorter.locationOf(name));
      ownParameters.push_back(lastParameter = copy);
    }
    mapResults(parameters[kLike], ownParameters);
    builder.setInsertionPointAfter(lastOp);
    ownOps.clear();
    for (auto [op, location] : llvm::zip_equal(ops[kLike], locations)) {
      Operation *copy = builder.clone(*op, copies);
      copy->setLoc(relocate(location.first, location.second, r));
      ownOps.push_back(copy);
    }
    mapResults(ops[kBefore], ownOps);
    mapResults(parameters[kBefore], ownParameters);
    lastOp = ownOps.back();
  }
  for (OpOperand *read : reads) {
    Operation *op = read->get().getDefiningOp();
    const Known of = known.lookup(op);
    Operation *copy = (of.isParameter ? ownParameters : ownOps)[of.index];
    read->set(copy->getResult(cast<OpResult>(read->get()).getResultNumber()));
  }
  return true;
}

} // namespace colossal::onnx_import
