//===- UnsupportedOperators.cpp - what of a model is not supported ----------===//
//
// A call of a function counts the nodes of its body, a Loop or Scan those of its body once. The branches of
// an If are looked into as well, but what stands only there is no error yet: the branch may not be taken.
//
//===----------------------------------------------------------------------===//
#include "UnsupportedOperators.h"

#include "Importer.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace colossal::onnx_import {

OperatorSets getOperatorSets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &imports) {
  OperatorSets sets;
  for (const auto &set : imports)
    sets[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  return sets;
}

int64_t getVersion(const OperatorSets &versions, const std::string &domain) {
  static const std::string standard;
  auto found = versions.find(domain == "ai.onnx" ? standard : domain);
  return found == versions.end() ? 0 : found->second;
}

const onnx::FunctionProto *findFunction(const onnx::ModelProto &model, const onnx::NodeProto &node) {
  for (const auto &function : model.functions())
    if (function.name() == node.op_type() && function.domain() == node.domain() &&
        function.overload() == node.overload())
      return &function;
  return nullptr;
}

void collectReads(const onnx::NodeProto &node, llvm::StringSet<> &reads) {
  for (const std::string &input : node.input())
    reads.insert(input);
  for (const auto &attribute : node.attribute()) {
    if (!attribute.has_g())
      continue;
    const onnx::GraphProto &graph = attribute.g();
    llvm::StringSet<> inside;
    for (const auto &inner : graph.node())
      collectReads(inner, inside);
    for (const auto &output : graph.output())
      inside.insert(output.name());
    for (const auto &inner : graph.node())
      for (const std::string &output : inner.output())
        inside.erase(output);
    for (const auto &input : graph.input())
      inside.erase(input.name());
    for (const auto &initializer : graph.initializer())
      inside.erase(initializer.name());
    for (const auto &name : inside)
      reads.insert(name.getKey());
  }
}

SmallVector<int> orderNodes(const Nodes &nodes, const llvm::StringSet<> &wanted, Givers *known) {
  // Of a name, the first, and others: these are an error of the model's, which its import tells.
  llvm::DenseMap<llvm::CachedHashStringRef, int> givers;
  llvm::DenseMap<llvm::CachedHashStringRef, SmallVector<int>> others;
  givers.reserve(nodes.size());
  for (auto [i, node] : llvm::enumerate(nodes))
    for (const std::string &output : node.output())
      if (!output.empty())
        if (llvm::CachedHashStringRef name(output); !givers.try_emplace(name, i).second)
          others[name].push_back(i);
  using Places = SmallVector<int, 4>;
  auto addGivers = [&](StringRef name, Places &found) {
    llvm::CachedHashStringRef key(name);
    auto giver = givers.find(key);
    if (giver == givers.end())
      return;
    found.push_back(giver->second);
    if (!others.empty())
      llvm::append_range(found, others.lookup(key));
  };
  auto findGivers = [&](const onnx::NodeProto &node) {
    Places found;
    if (llvm::none_of(node.attribute(), [](const auto &attribute) { return attribute.has_g(); })) {
      for (const std::string &input : node.input())
        addGivers(input, found);
    } else {
      llvm::StringSet<> reads;
      collectReads(node, reads);
      for (const auto &name : reads)
        addGivers(name.getKey(), found);
    }
    llvm::sort(found);
    return found;
  };
  // Depth first from each needed node; what is needed is found first, so that the roots come in order.
  std::vector<Places> before(nodes.size());
  llvm::BitVector needed(nodes.size()), seen(nodes.size());
  Places work;
  for (const auto &name : wanted)
    addGivers(name.getKey(), work);
  while (!work.empty()) {
    int i = work.pop_back_val();
    if (needed.test(i))
      continue;
    needed.set(i);
    before[i] = findGivers(nodes[i]);
    llvm::append_range(work, before[i]);
  }
  SmallVector<int> order;
  SmallVector<std::pair<int, size_t>> path; // a node, and how many of those before it were looked at
  for (unsigned root : needed.set_bits()) {
    if (seen.test(root))
      continue;
    seen.set(root);
    path.push_back({static_cast<int>(root), 0});
    while (!path.empty()) {
      auto &[i, next] = path.back();
      if (next == before[i].size()) {
        order.push_back(i);
        path.pop_back();
      } else if (int other = before[i][next++]; !seen.test(other)) {
        seen.set(other);
        path.push_back({other, 0});
      }
    }
  }
  if (known)
    *known = {std::move(givers), others.empty()};
  return order;
}

struct UnsupportedOperators::Walk {
  const onnx::ModelProto &model;
  UnsupportedOperators &found;
  unsigned level = 0;
  int64_t visited = 0;

  void visit(const Nodes &nodes, const OperatorSets &sets, ArrayRef<int> needed, bool inBranch) {
    // Recursion is reported where it is inlined, and so is what functions multiply beyond all bounds.
    if (level == 64)
      return;
    ++level;
    for (int i : needed)
      if (visited++ < kMostNodes)
        visit(nodes[i], sets, inBranch);
    --level;
  }

  void visit(const onnx::NodeProto &node, const OperatorSets &sets, bool inBranch) {
    if (const onnx::FunctionProto *callee = findFunction(model, node)) {
      SmallVector<int> all = llvm::to_vector(llvm::seq<int>(callee->node_size()));
      visit(callee->node(), getOperatorSets(callee->opset_import()), all, inBranch);
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
      visit(attribute.g().node(), sets, orderNodes(attribute.g().node(), wanted), inBranch || isIf);
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
                                   ArrayRef<int> needed) {
  Walk{model, *this}.visit(model.graph().node(), versions, needed, false);
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
