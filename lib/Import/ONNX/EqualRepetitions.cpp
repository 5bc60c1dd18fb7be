//===- EqualRepetitions.cpp - repetitions that are imported once ------------===//
#include "EqualRepetitions.h"

#include "Importer.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/bit.h"

#include <cstring>

using namespace mlir;

namespace colossal::onnx_import {

template <typename Range>
static bool haveEqualElements(const Range &a, const Range &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

static bool haveEqualTypes(const onnx::TensorProto &a, const onnx::TensorProto &b) {
  return a.data_type() == b.data_type() && haveEqualElements(a.dims(), b.dims());
}

static bool haveEqualContents(ModelFile &file, const onnx::TensorProto &a, const onnx::TensorProto &b) {
  auto ofA = file.findBytes(a), ofB = file.findBytes(b);
  if (!ofA || !ofB) {
    consumeError(ofA.takeError());
    consumeError(ofB.takeError());
    return false;
  }
  if (*ofA && *ofB)
    return !(*ofA)->missing && !(*ofB)->missing && (*ofA)->bytes == (*ofB)->bytes;
  return !*ofA && !*ofB && haveEqualElements(a.int32_data(), b.int32_data()) &&
         haveEqualElements(a.int64_data(), b.int64_data()) &&
         haveEqualElements(a.uint64_data(), b.uint64_data()) &&
         haveEqualElements(a.string_data(), b.string_data());
}

static bool areEqual(ModelFile &file, const onnx::AttributeProto &a, const onnx::AttributeProto &b) {
  if (a.has_g() || a.has_sparse_tensor() || a.has_tp() || a.graphs_size() || a.tensors_size() ||
      a.sparse_tensors_size() || a.type_protos_size() || !a.ref_attr_name().empty())
    return false;
  auto hasSame = [&](auto has) { return (a.*has)() == (b.*has)(); };
  using A = onnx::AttributeProto;
  if (a.name() != b.name() || a.type() != b.type() || !hasSame(&A::has_i) || a.i() != b.i() ||
      !hasSame(&A::has_f) || llvm::bit_cast<uint32_t>(a.f()) != llvm::bit_cast<uint32_t>(b.f()) ||
      !hasSame(&A::has_s) || a.s() != b.s() || !hasSame(&A::has_t) || b.has_g() ||
      !b.ref_attr_name().empty() || !haveEqualElements(a.ints(), b.ints()) ||
      !haveEqualElements(a.strings(), b.strings()) || a.floats_size() != b.floats_size() ||
      (a.floats_size() &&
       std::memcmp(a.floats().data(), b.floats().data(), sizeof(float) * a.floats_size()) != 0))
    return false;
  return !a.has_t() || (haveEqualTypes(a.t(), b.t()) && haveEqualContents(file, a.t(), b.t()));
}

namespace {

/// Compares the repetitions with the one that stands for them.
class Matcher {
public:
  Matcher(MLIRContext *context, ModelFile &file, ArrayRef<int> order, const Givers &givers,
          const RepeatedNodes &repeated)
      : context(context), file(file), graph(file.proto().graph()), order(order), givers(givers),
        repeated(repeated), initializers(repeated.count) {}

  std::optional<RepeatedInitializers> run() {
    if (!givers.isUnique || !readLike())
      return std::nullopt;
    for (size_t r = 1; r < repeated.count; ++r)
      for (size_t j = 0; r != RepeatedNodes::kLike && j < repeated.period; ++j)
        if (!match(r, j))
          return std::nullopt;
    if (!areWhole() || !isApart())
      return std::nullopt;
    return std::move(initializers);
  }

private:
  /// Where what a node reads comes from.
  struct Read {
    enum { Own, Before, Elsewhere } from = Elsewhere;
    size_t place = 0;
    int output = 0;
    const onnx::TensorProto *initializer = nullptr;
  };

  const onnx::NodeProto &getNode(size_t repetition, size_t place) const {
    return graph.node(order[repeated.first + repetition * repeated.period + place]);
  }
  const onnx::TensorProto *findInitializer(StringRef name) const {
    return byName.lookup(llvm::CachedHashStringRef(name));
  }
  bool isRepeated(int node) const {
    return placeOf[node] >= repeated.first &&
           placeOf[node] < repeated.first + repeated.period * repeated.count;
  }
  /// Some exporters merge initializers of equal contents, and have an Identity for each of the others.
  StringRef findRoot(StringRef name) const {
    constexpr int kDeepest = 16;
    for (int depth = 0; depth < kDeepest && file.proto().functions_size() == 0; ++depth) {
      auto giver = givers.nodeOf.find(llvm::CachedHashStringRef(name));
      if (giver == givers.nodeOf.end() || isRepeated(giver->second))
        break;
      const onnx::NodeProto &node = graph.node(giver->second);
      if (node.op_type() != "Identity" || !(node.domain().empty() || node.domain() == "ai.onnx") ||
          node.input_size() != 1)
        break;
      name = node.input(0);
    }
    return name;
  }

  /// Sees what the repetition reads to which the others are compared.
  bool readLike() {
    placeOf.assign(graph.node_size(), order.size());
    for (auto [place, node] : llvm::enumerate(order))
      placeOf[node] = place;
    byName.reserve(graph.initializer_size());
    for (const auto &initializer : graph.initializer())
      if (!byName.try_emplace(llvm::CachedHashStringRef(initializer.name()), &initializer).second)
        return false;
    llvm::DenseMap<llvm::CachedHashStringRef, Read> given;
    for (size_t r : {RepeatedNodes::kLike - 1, RepeatedNodes::kLike})
      for (size_t j = 0; j < repeated.period; ++j)
        for (auto [k, name] : llvm::enumerate(getNode(r, j).output()))
          given[llvm::CachedHashStringRef(name)] = {r == RepeatedNodes::kLike ? Read::Own : Read::Before, j,
                                                    static_cast<int>(k), nullptr};
    reads.resize(repeated.period);
    for (size_t j = 0; j < repeated.period; ++j) {
      const onnx::NodeProto &node = getNode(RepeatedNodes::kLike, j);
      if (findFunction(file.proto(), node))
        return false;
      for (const std::string &name : node.input()) {
        Read read;
        if (auto found = given.find(llvm::CachedHashStringRef(name)); !name.empty() && found != given.end())
          read = found->second;
        else
          read.initializer = findInitializer(findRoot(name));
        reads[j].push_back(read);
      }
    }
    return true;
  }

  bool match(size_t r, size_t j) {
    const onnx::NodeProto &node = getNode(r, j), &like = getNode(RepeatedNodes::kLike, j);
    if (node.op_type() != like.op_type() || node.domain() != like.domain() ||
        node.overload() != like.overload() || node.input_size() != like.input_size() ||
        node.output_size() != like.output_size() || node.attribute_size() != like.attribute_size())
      return false;
    for (auto [a, b] : llvm::zip(node.attribute(), like.attribute()))
      if (!areEqual(file, a, b))
        return false;
    for (auto [a, b] : llvm::zip(node.output(), like.output()))
      if (a.empty() != b.empty())
        return false;
    for (auto [name, other, read] : llvm::zip(node.input(), like.input(), reads[j])) {
      if (read.from != Read::Elsewhere) {
        if (name != getNode(read.from == Read::Own ? r : r - 1, read.place).output(read.output))
          return false;
      } else if (name == other || findRoot(name) == findRoot(other)) {
        if (read.initializer)
          shared.insert(read.initializer);
      } else if (!matchInitializer(r, name, read.initializer)) {
        return false;
      }
    }
    return true;
  }

  /// `name` in place of `like`, which the repetition that is compared to reads.
  bool matchInitializer(size_t r, StringRef name, const onnx::TensorProto *like) {
    const onnx::TensorProto *own = findInitializer(findRoot(name));
    if (!own || !like)
      return false;
    auto [slot, isNewSlot] = slotOf.try_emplace(like, slotOf.size());
    if (isNewSlot) {
      initializers[RepeatedNodes::kLike].push_back(like);
      Type element = getElementType(context, like->data_type());
      if (!element || !llvm::all_of(like->dims(), [](int64_t size) { return size >= 0; }))
        return false;
      auto type = RankedTensorType::get(ArrayRef<int64_t>(like->dims().data(), like->dims_size()), element);
      areParameters.push_back(becomesParameter(type, like->name(), true, file));
      if (!owned.insert(like).second || givers.nodeOf.contains(llvm::CachedHashStringRef(like->name())))
        return false;
    }
    auto &slots = initializers[r];
    if (slots.size() <= slot->second)
      slots.resize(slot->second + 1);
    const onnx::TensorProto *&known = slots[slot->second];
    if (known)
      return known == own;
    known = own;
    return owned.insert(own).second && !givers.nodeOf.contains(llvm::CachedHashStringRef(own->name())) &&
           haveEqualTypes(*own, *like) &&
           (areParameters[slot->second] || haveEqualContents(file, *own, *like));
  }

  /// Whether each repetition has an initializer of its own where another has.
  bool areWhole() const {
    for (size_t r = 1; r < repeated.count; ++r)
      if (initializers[r].size() != slotOf.size() || llvm::is_contained(initializers[r], nullptr))
        return false;
    return llvm::none_of(slotOf, [&](const auto &slot) { return shared.contains(slot.first); });
  }

  /// Whether nothing else reads what belongs to the repetitions between the first and the last.
  bool isApart() const {
    const size_t begin = repeated.first + repeated.period,
                 end = repeated.first + repeated.period * repeated.count, last = end - repeated.period;
    auto isInside = [&](StringRef name) {
      auto giver = givers.nodeOf.find(llvm::CachedHashStringRef(name));
      return giver != givers.nodeOf.end() && placeOf[giver->second] >= begin && placeOf[giver->second] < last;
    };
    llvm::StringSet<> names;
    for (auto [place, node] : llvm::enumerate(order))
      if (place < begin || place >= end)
        collectReads(graph.node(node), names);
    for (const auto &output : graph.output())
      names.insert(output.name());
    if (llvm::any_of(names, [&](const auto &name) {
          const onnx::TensorProto *initializer = findInitializer(name.getKey());
          return isInside(name.getKey()) || (initializer && owned.contains(initializer));
        }))
      return false;
    // Nor does the repetition to which all are compared read what comes later, as around a cycle.
    for (size_t j = 0; j < repeated.period; ++j)
      for (auto [name, read] : llvm::zip(getNode(RepeatedNodes::kLike, j).input(), reads[j]))
        if (read.from == Read::Elsewhere && isInside(name))
          return false;
    return true;
  }

  MLIRContext *context;
  ModelFile &file;
  const onnx::GraphProto &graph;
  ArrayRef<int> order;
  const Givers &givers;
  const RepeatedNodes &repeated;
  RepeatedInitializers initializers;
  std::vector<size_t> placeOf;             ///< in `order`, by node
  std::vector<SmallVector<Read, 4>> reads; ///< of the repetition to which the others are compared, by node
  llvm::DenseMap<llvm::CachedHashStringRef, const onnx::TensorProto *> byName;
  llvm::DenseMap<const onnx::TensorProto *, size_t> slotOf;
  std::vector<bool> areParameters;                  ///< by slot
  llvm::DenseSet<const onnx::TensorProto *> owned;  ///< by one repetition
  llvm::DenseSet<const onnx::TensorProto *> shared; ///< read by several under one name
};

} // namespace

std::optional<RepeatedInitializers> matchRepetitions(MLIRContext *context, ModelFile &file,
                                                     ArrayRef<int> order, const Givers &givers,
                                                     const RepeatedNodes &repeated) {
  return Matcher(context, file, order, givers, repeated).run();
}

} // namespace colossal::onnx_import
