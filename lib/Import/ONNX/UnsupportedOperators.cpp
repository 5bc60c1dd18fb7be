//===- UnsupportedOperators.cpp - what of a model is not supported ----------===//
//
// A call of a function counts the nodes of its body, a Loop or Scan those of its body once. The branches of
// an If are looked into as well, but what stands only there is no error yet: the branch may not be taken.
//
//===----------------------------------------------------------------------===//
#include "UnsupportedOperators.h"

#include "Importer.h"

using namespace mlir;

namespace colossal::onnx_import {

OperatorSets getOperatorSets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &imports) {
  OperatorSets sets;
  for (const auto &set : imports)
    sets[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  return sets;
}

int64_t getVersion(const OperatorSets &versions, const std::string &domain) {
  auto found = versions.find(domain == "ai.onnx" ? "" : domain);
  return found == versions.end() ? 0 : found->second;
}

const onnx::FunctionProto *findFunction(const onnx::ModelProto &model, const onnx::NodeProto &node) {
  for (const auto &function : model.functions())
    if (function.name() == node.op_type() && function.domain() == node.domain() &&
        function.overload() == node.overload())
      return &function;
  return nullptr;
}

/// Names that a node reads, those that its subgraphs capture included.
static void collectReads(const onnx::NodeProto &node, llvm::StringSet<> &reads) {
  for (const std::string &input : node.input())
    reads.insert(input);
  for (const auto &attribute : node.attribute())
    if (attribute.has_g()) {
      for (const auto &inner : attribute.g().node())
        collectReads(inner, reads);
      for (const auto &output : attribute.g().output())
        reads.insert(output.name());
    }
}

llvm::BitVector closeOverNodes(const Nodes &nodes, llvm::StringSet<> &wanted) {
  llvm::BitVector needed(nodes.size());
  for (int i = nodes.size() - 1; i >= 0; --i)
    if (llvm::any_of(nodes[i].output(),
                     [&](const std::string &name) { return !name.empty() && wanted.contains(name); })) {
      needed.set(i);
      collectReads(nodes[i], wanted);
    }
  return needed;
}

struct UnsupportedOperators::Walk {
  const onnx::ModelProto &model;
  UnsupportedOperators &found;
  unsigned level = 0;

  /// `needed`: null stands for all.
  void visit(const Nodes &nodes, const OperatorSets &sets, const llvm::BitVector *needed, bool inBranch) {
    if (level == 64)
      return; // recursion is reported where it is inlined
    ++level;
    for (auto [i, node] : llvm::enumerate(nodes))
      if (!needed || needed->test(i))
        visit(node, sets, inBranch);
    --level;
  }

  void visit(const onnx::NodeProto &node, const OperatorSets &sets, bool inBranch) {
    if (const onnx::FunctionProto *callee = findFunction(model, node)) {
      visit(callee->node(), getOperatorSets(callee->opset_import()), nullptr, inBranch);
      return;
    }
    int64_t version = getVersion(sets, node.domain());
    if (!findOperator(node.domain(), node.op_type(), version))
      add(node, version, inBranch);
    bool isIf = node.op_type() == "If" && (node.domain().empty() || node.domain() == "ai.onnx");
    for (const auto &attribute : node.attribute()) {
      if (!attribute.has_g())
        continue;
      llvm::StringSet<> wanted;
      for (const auto &output : attribute.g().output())
        wanted.insert(output.name());
      llvm::BitVector needed = closeOverNodes(attribute.g().node(), wanted);
      visit(attribute.g().node(), sets, &needed, inBranch || isIf);
    }
  }

  void add(const onnx::NodeProto &node, int64_t version, bool inBranch) {
    Entry &entry = found.entries[{node.domain(), node.op_type(), version}];
    if (entry.count++ == 0)
      entry.firstNode = getNodeName(node);
    entry.inBranches += inBranch;
    found.certain |= !inBranch;
  }
};

void UnsupportedOperators::collect(const onnx::ModelProto &model, const OperatorSets &versions,
                                   const llvm::BitVector &needed) {
  Walk{model, *this}.visit(model.graph().node(), versions, &needed, false);
}

InFlightDiagnostic UnsupportedOperators::emit(Location loc) const {
  InFlightDiagnostic diagnostic = emitError(loc);
  diagnostic << entries.size() << " operator" << (entries.size() == 1 ? " is" : "s are") << " not supported:";
  for (const auto &[key, entry] : entries) {
    const auto &[domain, name, version] = key;
    diagnostic << "\n  " << (domain.empty() ? "ai.onnx" : domain) << "." << name << ", version " << version
               << ": " << entry.count << " node" << (entry.count == 1 ? "" : "s");
    if (entry.inBranches)
      diagnostic << " (" << entry.inBranches << " in branches of If)";
    diagnostic << ", the first is '" << entry.firstNode << "'";
  }
  return diagnostic;
}

} // namespace colossal::onnx_import
