//===- Importer.cpp - the walk over an ONNX graph ---------------------------===//
//
// Nodes in the model's order, or a topological one where that is none; only those that an output depends on.
// Functions are inlined. The inputs are bound in Inputs.cpp, weights are made in Parameters.cpp; what
// operators are not supported is told by UnsupportedOperators.cpp before anything is built.
//
//===----------------------------------------------------------------------===//
#include "Importer.h"

#include "dialects/Colossal/NarrowTypes.h"

#include "colossal/Import/OnnxNames.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace colossal::onnx_import {

std::string getNodeName(const onnx::NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return node.op_type() + ":" + output;
  return node.op_type();
}

Importer::Importer(MLIRContext *context, const ImportOptions &options, ModelFile &file)
    : ctx(context), options(options), file(file), builder(context) {
  versions = getOperatorSets(file.proto().opset_import());
}

Location Importer::locationOf(StringRef tensor) {
  return makeOnnxLocation(ctx, "", {tensor});
}
Location Importer::locationOf(const onnx::NodeProto &node) {
  return OpaqueLoc::get<const onnx::NodeProto *>(&node, ctx);
}

Location Importer::resolve(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    SmallVector<Location> parts;
    for (Location part : fused.getLocations())
      parts.push_back(resolve(part));
    return FusedLoc::get(parts, fused.getMetadata(), ctx);
  }
  auto *node = OpaqueLoc::getUnderlyingLocationOrNull<const onnx::NodeProto *>(location);
  return node ? resolve(*node) : location;
}

Location Importer::resolve(const onnx::NodeProto &node) {
  SmallVector<StringRef> outputs(node.output().begin(), node.output().end());
  return makeOnnxLocation(ctx, getNodeName(node), outputs);
}

void Importer::dropUnused() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void Importer::resolveLocations() {
  Location last = builder.getUnknownLoc(), resolved = last;
  for (Operation &op : function.getBody().front()) {
    if (op.getLoc() != last) {
      last = op.getLoc();
      resolved = resolve(last);
    }
    op.setLoc(resolved);
  }
}

LogicalResult Importer::verifyModule(ModuleOp module) {
  {
    ScopedDiagnosticHandler quiet(ctx, [](Diagnostic &) { return success(); });
    if (succeeded(verify(module)))
      return success();
  }
  resolveLocations(); // so that messages have names
  return verify(module);
}

Location Importer::modelLocation() {
  return FileLineColLoc::get(ctx, options.modelPath, 0, 0);
}

std::optional<HostTensor> Importer::evaluate(Value value) {
  auto read = [&](Operation *op) -> std::optional<HostTensor> {
    const onnx::TensorProto *tensor = tensorOf.lookup(op);
    if (!tensor)
      return std::nullopt;
    auto bytes = file.findBytes(*tensor);
    if (!bytes) {
      consumeError(bytes.takeError());
      return std::nullopt;
    }
    evaluated.insert(tensor);
    auto attr = readTensor(ctx, *tensor, *bytes);
    if (!attr) {
      consumeError(attr.takeError());
      return std::nullopt;
    }
    return HostTensor::fromAttr(*attr);
  };
  return colossal::evaluate(value, read);
}

/// Whether `op` makes its result of more than what inputs say about shapes.
static bool isComputation(Operation *op) {
  if (isa<ParameterOp, RandomOp, DropoutOp>(op))
    return true;
  auto ruled = dyn_cast<dist::ShardingRuleOpInterface>(op);
  int64_t most = 0; // elements of one tensor
  auto count = [&](Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      most = std::max(most, type.getNumElements());
  };
  llvm::for_each(op->getOperands(), count);
  llvm::for_each(op->getResults(), count);
  return ruled && ruled.getFlops() > 4.0 * double(most);
}

Importer::Source Importer::findSource(Value value) {
  Source source;
  SmallVector<Value> work = {value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kOnnxNameAttr);
      if (source.input.empty() && name) {
        source.input = name.getValue();
        source.element = GraphBuilder::elementOf(argument);
      }
      continue;
    }
    Operation *op = next.getDefiningOp();
    if (source.computedBy.empty() && isComputation(op)) {
      // A weight computes nothing by itself: who reads it does.
      Operation *reader = op;
      while (isa<ParameterOp>(reader)) {
        auto user = llvm::find_if(reader->getUsers(), [&](Operation *user) {
          return llvm::any_of(user->getResults(), [&](Value result) { return seen.contains(result); });
        });
        if (user == reader->getUsers().end())
          break;
        reader = *user;
      }
      OnnxNames names = getOnnxNames(resolve(reader->getLoc()));
      source.computedBy = !names.nodes.empty()     ? names.nodes.front().str()
                          : !names.tensors.empty() ? names.tensors.front().str()
                                                   : op->getName().getStringRef().str();
    }
    llvm::append_range(work, op->getOperands());
  }
  return source;
}

//===----------------------------------------------------------------------===//
// Streams of random values
//===----------------------------------------------------------------------===//

/// FNV-1a of `name`, which goes on from `hash`.
static uint64_t hashName(StringRef name, uint64_t hash) {
  for (unsigned char c : name)
    hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

static uint64_t hashNode(const onnx::NodeProto &node, uint64_t scope) {
  uint64_t hash = 14695981039346656037ull ^ scope;
  for (auto [i, output] : llvm::enumerate(node.output()))
    hash = hashName(output, i ? hashName(",", hash) : hash);
  return hash;
}

uint64_t Importer::getStream() const {
  return hashNode(*stream.node, stream.scope);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

FailureOr<Value> Importer::lookup(Scope &scope, StringRef name) {
  if (!standIns.empty())
    if (auto other = standIns.find(llvm::CachedHashStringRef(name)); other != standIns.end())
      name = other->second;
  const llvm::CachedHashStringRef key(name);
  for (Scope *at = &scope; at; at = const_cast<Scope *>(at->parent)) {
    auto value = at->values.find(key);
    if (value != at->values.end())
      return value->second;
    auto initializer = at->initializers.find(key);
    if (initializer != at->initializers.end()) {
      auto made = importTensor(*initializer->second, name, true);
      if (succeeded(made))
        at->values[key] = *made;
      return made;
    }
  }
  return Value();
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

LogicalResult Importer::importNodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                                    Scope &scope, ArrayRef<int> needed) {
  Scope *outer = current;
  current = &scope;
  LogicalResult result = success();
  for (int i : needed) {
    const onnx::NodeProto &node = nodes[i];
    if (++imported > kMostNodes) {
      result = emitError(modelLocation())
               << "more than " << kMostNodes << " nodes once functions and loops are unrolled";
      break;
    }
    const onnx::FunctionProto *callee = findFunction(file.proto(), node);
    result = callee ? importCall(node, *callee, scope) : importNode(node, scope);
    if (failed(result))
      break;
  }
  current = outer;
  return result;
}

LogicalResult Importer::importNode(const onnx::NodeProto &proto, Scope &scope) {
  GraphBuilder graph(builder, locationOf(proto));
  SmallVector<Value> inputs;
  for (const std::string &name : proto.input()) {
    FailureOr<Value> value = name.empty() ? FailureOr<Value>(Value()) : lookup(scope, name);
    if (failed(value))
      return failure();
    if (!*value && !name.empty())
      return emitError(resolve(graph.loc()))
             << "node '" << getNodeName(proto) << "' reads '" << name
             << "', which no input, initializer or node that does not depend on it gives";
    inputs.push_back(*value);
  }
  int64_t version = getVersion(*scope.versions, proto.domain());
  const OperatorRow *row = findOperator(proto.domain(), proto.op_type(), version);
  if (!row) // in a branch of an If, which is taken after all
    return unsupported.emit(modelLocation());
  Node node(*this, proto, version, graph, inputs);
  if (!row->takesSequences)
    for (auto [i, input] : llvm::enumerate(inputs))
      if (input && isSequence(input))
        return node.error() << "input " << i << " ('" << proto.input(i)
                            << "') is a sequence, and not a tensor";
  auto outer = stream;
  stream = {&proto, scope.stream, 0};
  LogicalResult result = row->function(node);
  stream = outer;
  if (failed(result))
    return failure();
  RankedTensorType impossible = graph.impossibleType();
  for (Value output : node.outputs)
    if (output && !isSequence(output) && !isPossibleShape(GraphBuilder::shapeOf(output)))
      impossible = GraphBuilder::typeOf(output);
  if (impossible)
    return node.error() << "it needs a tensor of type " << impossible << ", and at most " << kMostElements
                        << " elements are possible";
  for (auto [i, name] : llvm::enumerate(proto.output())) {
    if (name.empty())
      continue;
    if (!node.outputs[i])
      return node.error() << "output " << i << " ('" << name << "') is not supported";
    if (!scope.values.try_emplace(llvm::CachedHashStringRef(name), node.outputs[i]).second)
      return node.error() << "its output '" << name << "' is given a second time";
  }
  return success();
}

/// The function's node with references to the function's attributes replaced by what the call gives.
static onnx::NodeProto substituteAttributes(const onnx::NodeProto &body, const onnx::NodeProto &call,
                                            const onnx::FunctionProto &function) {
  onnx::NodeProto node = body;
  node.clear_attribute();
  for (const auto &attribute : body.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      onnx::AttributeProto *copy = node.add_attribute();
      *copy = attribute;
      if (attribute.has_g())
        for (auto &inner : *copy->mutable_g()->mutable_node())
          inner = substituteAttributes(onnx::NodeProto(inner), call, function);
      continue;
    }
    auto find = [&](const auto &attributes) {
      for (const auto &given : attributes)
        if (given.name() == attribute.ref_attr_name()) {
          onnx::AttributeProto *copy = node.add_attribute();
          *copy = given;
          copy->set_name(attribute.name());
          return true;
        }
      return false;
    };
    if (!find(call.attribute()))
      find(function.attribute_proto());
  }
  return node;
}

LogicalResult Importer::importCall(const onnx::NodeProto &call, const onnx::FunctionProto &callee,
                                   Scope &scope) {
  Location loc = makeOnnxLocation(ctx, getNodeName(call), {});
  if (++depth > 64)
    return emitError(loc) << "function '" << callee.name()
                          << "' calls itself, or calls are nested too deeply";
  if (call.input_size() > callee.input_size() || call.output_size() > callee.output_size())
    return emitError(loc) << "node '" << getNodeName(call) << "' has more inputs or outputs than function '"
                          << callee.name() << "'";
  OperatorSets sets = getOperatorSets(callee.opset_import());
  Scope inner;
  inner.versions = &sets;
  inner.stream = hashNode(call, scope.stream);
  // An optional input that is not given is an empty name inside the body.
  llvm::StringSet<> absent;
  for (int i = 0; i < callee.input_size(); ++i) {
    if (i >= call.input_size() || call.input(i).empty()) {
      absent.insert(callee.input(i));
      continue;
    }
    auto value = lookup(scope, call.input(i));
    if (failed(value))
      return failure();
    if (!*value)
      return emitError(loc) << "node '" << getNodeName(call) << "' reads '" << call.input(i)
                            << "', which no input, initializer or node that does not depend on it gives";
    inner.values[llvm::CachedHashStringRef(callee.input(i))] = *value;
  }
  google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes = inlined.emplace_back();
  for (const auto &body : callee.node()) {
    onnx::NodeProto *node = nodes.Add();
    *node = substituteAttributes(body, call, callee);
    node->set_name(getNodeName(call) + "/" + getNodeName(body));
    for (std::string &input : *node->mutable_input())
      if (absent.contains(input))
        input.clear();
  }
  llvm::StringSet<> wanted;
  for (int i = 0; i < call.output_size(); ++i)
    if (!call.output(i).empty())
      wanted.insert(callee.output(i));
  if (failed(importNodes(nodes, inner, onnx_import::orderNodes(nodes, wanted))))
    return failure();
  for (int i = 0; i < call.output_size(); ++i) {
    if (call.output(i).empty())
      continue;
    auto value = lookup(inner, callee.output(i));
    if (failed(value))
      return failure();
    if (!*value)
      return emitError(loc) << "function '" << callee.name() << "' does not give its output '"
                            << callee.output(i) << "'";
    if (!scope.values.try_emplace(llvm::CachedHashStringRef(call.output(i)), *value).second)
      return emitError(loc) << "node '" << getNodeName(call) << "': its output '" << call.output(i)
                            << "' is given a second time";
  }
  --depth;
  return success();
}

FailureOr<SmallVector<Value>> Importer::importSubgraph(const onnx::GraphProto &graph,
                                                       ArrayRef<Value> inputs) {
  if (++depth > 64)
    return emitError(modelLocation()) << "subgraphs are nested too deeply";
  Scope scope;
  scope.parent = current;
  scope.versions = current->versions;
  scope.stream = hashName("/" + std::to_string(stream.scopes++), getStream());
  for (const auto &initializer : graph.initializer())
    scope.initializers[llvm::CachedHashStringRef(initializer.name())] = &initializer;
  for (auto [input, value] : llvm::zip(graph.input(), inputs))
    scope.values[llvm::CachedHashStringRef(input.name())] = value;
  llvm::StringSet<> wanted;
  for (const auto &output : graph.output())
    wanted.insert(output.name());
  if (failed(importNodes(graph.node(), scope, onnx_import::orderNodes(graph.node(), wanted))))
    return failure();
  --depth;
  return importOutputs(graph, scope, "a subgraph");
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

LogicalResult Importer::orderNodes() {
  constexpr int64_t kOldest = 7, kNewest = 27;
  int64_t version = getVersion(versions, "");
  if (version && (version < kOldest || version > kNewest))
    return emitError(modelLocation()) << "the model has operator set " << version << "; " << kOldest << " to "
                                      << kNewest << " are supported";
  llvm::StringSet<> wanted;
  for (const auto &output : file.proto().graph().output())
    wanted.insert(output.name());
  needed = onnx_import::orderNodes(file.proto().graph().node(), wanted, &givers);
  unsupported.collect(file.proto(), versions, needed);
  return unsupported.isCertain() ? unsupported.emit(modelLocation()) : success();
}

bool Importer::orderShorter(const Importer &whole) {
  const Nodes &nodes = file.proto().graph().node();
  repeated = findRepeatedNodes(nodes, whole.needed);
  if (repeated.dropped() == 0 || whole.needed.size() > kMostNodes)
    return false;
  const size_t begin = repeated.firstDropped(), end = begin + repeated.dropped();
  needed.assign(whole.needed.begin(), whole.needed.begin() + begin);
  needed.append(whole.needed.begin() + end, whole.needed.end());
  if (repeated.dropped() < needed.size())
    return false;
  equal = matchRepetitions(ctx, file, whole.needed, whole.givers, repeated);
  // Of equal repetitions only the last reads one that is left out, and that is the one before.
  const size_t period = repeated.period;
  for (size_t i = equal ? end - period : begin; i < end; ++i) {
    const auto &dropped = nodes[whole.needed[i]].output();
    const auto &like = nodes[whole.needed[begin - period + (i - begin) % period]].output();
    for (auto [name, instead] : llvm::zip(dropped, like))
      standIns.try_emplace(llvm::CachedHashStringRef(name), instead);
  }
  return true;
}

bool Importer::isMuchShorter() const {
  constexpr size_t kLeastGain = 3;
  return repeated.dropped() >= kLeastGain * needed.size();
}

FailureOr<SmallVector<Value>> Importer::importOutputs(const onnx::GraphProto &graph, Scope &scope,
                                                      StringRef owner) {
  SmallVector<Value> outputs;
  for (const auto &output : graph.output()) {
    auto value = lookup(scope, output.name());
    if (failed(value))
      return failure();
    if (!*value)
      return emitError(modelLocation()) << owner << " does not give its output '" << output.name() << "'";
    outputs.push_back(*value);
  }
  return outputs;
}

FailureOr<OwningOpRef<ModuleOp>> Importer::run() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(modelLocation());
  builder.setInsertionPointToEnd(module->getBody());
  function =
      func::FuncOp::create(builder, modelLocation(), options.functionName, builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  const onnx::GraphProto &graph = file.proto().graph();
  Scope scope;
  scope.versions = &versions;
  current = &scope;
  scope.values.reserve(needed.size());
  scope.initializers.reserve(graph.initializer_size());
  for (const auto &initializer : graph.initializer())
    scope.initializers[llvm::CachedHashStringRef(initializer.name())] = &initializer;
  if (failed(bindInputs()))
    return failure();
  isBound = true;
  if (failed(importNodes(graph.node(), scope, needed)))
    return failure();
  auto results = importOutputs(graph, scope, "the model");
  if (failed(results))
    return failure();
  for (auto [output, value] : llvm::zip(graph.output(), *results))
    if (isSequence(value))
      return emitError(modelLocation())
             << "the model's output '" << output.name() << "' is a sequence; give its elements as outputs";
  func::ReturnOp::create(builder, modelLocation(), *results);
  function.setFunctionType(
      builder.getFunctionType(function.getBody().getArgumentTypes(), ValueRange(*results).getTypes()));
  for (int i = 0; i < graph.output_size(); ++i)
    function.setResultAttr(i, kOnnxNameAttr, builder.getStringAttr(graph.output(i).name()));
  dropUnused();
  if (!texts.empty())
    module->getOperation()->setAttr(
        kTextsAttr, builder.getStrArrayAttr(SmallVector<StringRef>(texts.begin(), texts.end())));
  if (failed(verifyModule(*module)))
    return failure();
  return module;
}

} // namespace colossal::onnx_import
