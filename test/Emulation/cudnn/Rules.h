// What the library's descriptors hold, and what of it is a graph that it computes: from the documentation in
// its header (cudnn_graph.h, version 9), and where that says nothing from what version 9.28 answers where
// there is no GPU (VendorTest.cpp).
#ifndef COLOSSAL_EMULATION_CUDNN_RULES_H
#define COLOSSAL_EMULATION_CUDNN_RULES_H

#include "runtime/cuda/cudnn/Abi.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace colossal::cudnn {

struct CudnnHandle {
  Stream stream = nullptr;
};

struct Tensor {
  std::int64_t number = 0, alignment = 0;
  DataType type = Float;
  std::vector<std::int64_t> sizes, strides;
  bool isVirtual = false, isByValue = false;

  std::int64_t elements() const {
    std::int64_t product = 1;
    for (std::int64_t size : sizes)
      product *= size;
    return product;
  }
};
std::uint64_t elementBytes(DataType type);

/// o = softmax(scale q k' + mask) v, where with `hidden` that is the score of keys behind a query's row and
/// `offset`.
struct Attention {
  Tensor q, k, v, o;
  Tensor scale; ///< this and `offset` and `hidden` by value
  std::optional<Tensor> mask, offset, hidden;
};

/// y = relu(x * w + bias), as far as there is a bias or ReLU. Or attention; or operations on elements alone,
/// as attention takes them.
struct Graph {
  std::optional<Attention> attention;
  bool isOfElements = false;

  Tensor x, w, y;
  std::optional<Tensor> bias;
  bool relu = false;
  DataType compute = Float;
  std::vector<std::int64_t> strides, dilations, pre, post;

  std::int64_t groups() const { return x.sizes[1] / w.sizes[1]; }
};

/// Ways to compute a graph. They add up in different orders.
struct Engine {
  enum Kind : std::int64_t {
    Direct = 0,
    Rearranged = 1,
    TensorCores = 2,
    Compiled = 3,
    Fused = 8
  } kind = Direct;
  std::int64_t tile = 0; ///< of Rearranged: in how many parts channels are added up, less one

  std::int64_t alignment() const { return kind == Direct ? 1 : 16; }
  std::vector<NumericalNote> notes() const;
  std::vector<BehaviorNote> behavior() const;
};
constexpr std::int64_t tileKnob = 2;
/// Those that can compute it, the best first.
std::vector<Engine> advise(const Graph &graph, HeuristicMode mode);
std::int64_t workspaceBytes(const Graph &graph, const Engine &engine);

/// What cudnnBackendCreateDescriptor makes. Once finalized it is only read.
struct Descriptor {
  explicit Descriptor(DescriptorType type) : type(type) {}

  const DescriptorType type;
  bool isFinalized = false;
  struct Value {
    AttributeType type;
    std::vector<std::byte> bytes;
    std::vector<std::shared_ptr<Descriptor>> parts; ///< of descriptors
  };
  std::map<Attribute, Value> values;

  // Of finalized ones.
  std::shared_ptr<const Graph> graph; ///< of graphs, and what refers to one
  std::optional<Engine> engine;       ///< of engines, configurations, plans

  template <class T>
  std::vector<T> all(Attribute attribute) const {
    auto found = values.find(attribute);
    std::vector<T> list;
    if (found == values.end())
      return list;
    list.resize(found->second.bytes.size() / sizeof(T));
    std::memcpy(list.data(), found->second.bytes.data(), list.size() * sizeof(T));
    return list;
  }
  template <class T>
  T one(Attribute attribute) const {
    return all<T>(attribute).at(0);
  }
  const std::shared_ptr<Descriptor> &part(Attribute attribute, size_t i = 0) const {
    return values.at(attribute).parts.at(i);
  }
  bool has(Attribute attribute) const { return values.count(attribute) != 0; }
};

/// Whether `descriptor` takes `count` elements of that type for the attribute.
Result checkAttribute(const Descriptor &descriptor, Attribute attribute, AttributeType type,
                      std::int64_t count, std::string &why);
/// Checks all that was set against one another, and fills what finalized ones have.
Result finalize(Descriptor &descriptor, std::string &why);

} // namespace colossal::cudnn

#endif
