//===- Control.cpp - ONNX control flow that folds ---------------------------===//
//
// The branch of an If is taken at compile time; a Loop or Scan whose trip count is known is unrolled. An
// optional tensor is one that is there, or not, as the model is written.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

constexpr int64_t kMostTrips = 4096;

LogicalResult importIf(Node &n) {
  auto condition = n.intsInput(0);
  if (failed(condition))
    return failure();
  const auto *branch = n.attr(condition->size() == 1 && condition->front() ? "then_branch" : "else_branch");
  if (condition->size() != 1 || !branch || !branch->has_g())
    return n.error() << "one condition and two branches are expected";
  auto outputs = n.importer.importSubgraph(branch->g(), {});
  if (failed(outputs))
    return failure();
  for (auto [i, output] : llvm::enumerate(*outputs))
    n.give(i, output);
  return success();
}

LogicalResult importLoop(Node &n) {
  const auto *body = n.attr("body");
  if (!body || !body->has_g() || n.inputCount() < 2)
    return n.error() << "a body is expected";
  int64_t most = -1;
  if (n.in(0)) {
    auto trips = n.intsInput(0);
    if (failed(trips))
      return failure();
    most = trips->empty() ? 0 : trips->front();
  }
  bool go = true;
  if (n.in(1)) {
    auto condition = n.intsInput(1);
    if (failed(condition))
      return failure();
    go = !condition->empty() && condition->front();
  }
  SmallVector<Value> carried;
  for (size_t i = 2; i < n.inputCount(); ++i)
    carried.push_back(n.in(i));
  size_t states = carried.size(), scans = std::max<int64_t>(0, body->g().output_size() - 1 - int64_t(states));
  if (body->g().input_size() != int(states) + 2 || body->g().output_size() < int(states) + 1)
    return n.error() << "the body's inputs and outputs do not fit";
  std::vector<SmallVector<Value>> stacked(scans);
  Type i64 = n.b.ops().getI64Type(), i1 = n.b.ops().getI1Type();
  int64_t trip = 0;
  for (; go && (most < 0 || trip < most); ++trip) {
    if (trip == kMostTrips)
      return n.error() << "more than " << kMostTrips << " trips are not unrolled";
    SmallVector<Value> inputs = {n.b.scalar(i64, double(trip)), n.b.scalar(i1, 1)};
    llvm::append_range(inputs, carried);
    auto outputs = n.importer.importSubgraph(body->g(), inputs);
    if (failed(outputs))
      return failure();
    if (llvm::any_of(ArrayRef<Value>(*outputs).take_back(scans), isSequence) || isSequence(outputs->front()))
      return n.error() << "its condition and what it stacks must be tensors, not sequences";
    auto next = n.importer.evaluate(outputs->front());
    if (!next) {
      InFlightDiagnostic error = n.error() << "whether it goes on after trip " << trip
                                           << " must be known at compile time";
      n.explainUnknown(error, outputs->front(), false);
      return error;
    }
    go = next->count() == 1 && next->getInt(0);
    for (size_t i = 0; i < states; ++i)
      carried[i] = (*outputs)[i + 1];
    for (size_t i = 0; i < scans; ++i)
      stacked[i].push_back(n.b.unsqueeze((*outputs)[i + 1 + states], {0}));
  }
  for (size_t i = 0; i < states; ++i)
    n.give(i, carried[i]);
  for (size_t i = 0; i < scans; ++i) {
    if (stacked[i].empty()) {
      if (n.wants(states + i))
        return n.error() << "a loop without trips has no shape for output " << states + i;
      continue;
    }
    for (Value part : stacked[i])
      if (part.getType() != stacked[i].front().getType())
        return n.error() << "output " << states + i << " changes its shape from trip to trip";
    n.give(states + i, n.b.concat(stacked[i], 0));
  }
  return success();
}

LogicalResult importScan(Node &n) {
  const auto *body = n.attr("body");
  int64_t scanned = n.intAttr("num_scan_inputs", 0);
  int64_t states = int64_t(n.inputCount()) - scanned;
  if (!body || !body->has_g() || scanned < 1 || states < 0 || n.version < 9 ||
      failed(n.require(n.inputCount())) || body->g().input_size() != int(n.inputCount()) ||
      body->g().output_size() < states)
    return n.error() << "a body whose inputs fit is expected, of version 9 or newer";
  int64_t results = body->g().output_size() - states;
  SmallVector<int64_t> inAxes = n.intsAttr("scan_input_axes"), outAxes = n.intsAttr("scan_output_axes");
  SmallVector<int64_t> inBack = n.intsAttr("scan_input_directions"),
                       outBack = n.intsAttr("scan_output_directions");
  inAxes.resize(scanned, 0);
  inBack.resize(scanned, 0);
  outAxes.resize(results, 0);
  outBack.resize(results, 0);
  int64_t trips = -1;
  for (int64_t i = 0; i < scanned; ++i) {
    auto axis = n.axis(inAxes[i], n.rank(states + i));
    if (failed(axis))
      return failure();
    inAxes[i] = *axis;
    int64_t size = n.shape(states + i)[*axis];
    if (trips >= 0 && trips != size)
      return n.error() << "scanned inputs differ in length";
    trips = size;
  }
  if (trips < 1 || trips > kMostTrips)
    return n.error() << trips << " trips are not unrolled";
  SmallVector<Value> carried;
  for (int64_t i = 0; i < states; ++i)
    carried.push_back(n.in(i));
  std::vector<SmallVector<Value>> stacked(results);
  for (int64_t trip = 0; trip < trips; ++trip) {
    SmallVector<Value> inputs(carried);
    for (int64_t i = 0; i < scanned; ++i) {
      Value slice = n.b.sliceDim(n.in(states + i), inAxes[i], inBack[i] ? trips - 1 - trip : trip, 1);
      inputs.push_back(n.b.squeeze(slice, {inAxes[i]}));
    }
    auto outputs = n.importer.importSubgraph(body->g(), inputs);
    if (failed(outputs))
      return failure();
    for (int64_t i = 0; i < states; ++i)
      carried[i] = (*outputs)[i];
    for (int64_t i = 0; i < results; ++i) {
      Value part = (*outputs)[states + i];
      auto axis = n.axis(outAxes[i], GraphBuilder::rankOf(part) + 1);
      if (failed(axis))
        return failure();
      part = n.b.unsqueeze(part, {*axis});
      stacked[i].insert(outBack[i] ? stacked[i].begin() : stacked[i].end(), part);
      if (part.getType() != stacked[i].front().getType())
        return n.error() << "output " << states + i << " changes its shape from trip to trip";
    }
  }
  for (int64_t i = 0; i < states; ++i)
    n.give(i, carried[i]);
  for (int64_t i = 0; i < results; ++i)
    n.give(states + i, n.b.concat(stacked[i], *n.axis(outAxes[i], GraphBuilder::rankOf(stacked[i].front()))));
  return success();
}

LogicalResult importOptionalHasElement(Node &n) {
  return n.set(n.b.scalar(n.b.ops().getI1Type(), n.in(0) ? 1 : 0));
}

LogicalResult importOptionalGetElement(Node &n) {
  if (failed(n.require(1)))
    return failure();
  return n.set(n.in(0));
}

} // namespace

void addControlOperators(OperatorTable &table) {
  auto addForAll = [&](StringRef name, int64_t first, OperatorFunction function) {
    table.push_back({"", name, first, 0, function, /*takesSequences=*/true});
  };
  addForAll("If", 1, importIf);
  addForAll("Loop", 1, importLoop);
  addForAll("OptionalGetElement", 15, importOptionalGetElement);
  addForAll("OptionalHasElement", 15, importOptionalHasElement);
  table.push_back({"", "Scan", 9, 0, importScan});
}

} // namespace colossal::onnx_import
