//===- LinearAttention.cpp - ONNX LinearAttention, unrolled -----------------===//
//
// A state of d_k x d_v for each head: every step lets it decay, writes its key and value into it (what the
// state already gives for the key taken off, by the delta rules), and reads it with its queries. In f32, as
// the specification's function.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

#include <cmath>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

constexpr int64_t kMostSteps = 4096;

class Recurrence {
public:
  explicit Recurrence(Node &n) : n(n) {}

  LogicalResult import() {
    if (failed(n.require(3)) || failed(readSizes()))
      return failure();
    Type f32 = n.b.ops().getF32Type();
    Value state = n.in(3) ? n.b.cast(n.in(3), f32) : n.b.splat({batch, heads, width, valueWidth}, f32, 0);
    Value query = unpack(0, {heads, group, width}), key = unpack(1, {heads, width}),
          value = unpack(2, {heads, valueWidth});
    Value decay, beta;
    if (decays)
      decay = n.b.unary(ElementwiseKind::Exp, unpack(4, {heads, n.shape(4)[2] / heads, 1}));
    if (corrects)
      beta = unpack(5, {n.shape(5)[2], 1});
    double scale = n.floatAttr("scale", 0);
    query = n.b.mul(query, n.b.scalar(f32, scale != 0 ? scale : 1 / std::sqrt(double(width))));
    SmallVector<Value> results;
    for (int64_t t = 0; t < steps; ++t) {
      auto at = [&](Value x) { return n.b.squeeze(n.b.sliceDim(x, 1, t, 1), {1}); };
      Value k = at(key), v = at(value);
      if (decays)
        state = n.b.mul(state, at(decay));
      if (corrects) {
        Value rest = n.b.sub(v, n.b.contract(state, k, {0, 1, 2, 3}, {0, 1, 2}, {0, 1, 3}));
        v = n.b.mul(at(beta), rest);
      }
      v = n.b.unsqueeze(v, {2});
      state = n.b.add(state, n.b.mul(n.b.unsqueeze(k, {3}), v));
      Value read = n.b.contract(at(query), state, {0, 1, 4, 2}, {0, 1, 2, 3}, {0, 1, 4, 3});
      results.push_back(n.b.reshape(read, {batch, 1, heads * group * valueWidth}));
    }
    n.give(0, n.b.cast(n.b.concat(results, 1), n.element(0)));
    n.give(1, n.b.cast(state, n.element(n.in(3) ? 3 : 0)));
    return success();
  }

private:
  LogicalResult readSizes() {
    StringRef rule = n.stringAttr("update_rule", "gated_delta");
    decays = rule.starts_with("gated");
    corrects = rule.ends_with("delta");
    if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
      return n.error() << "update_rule '" << rule << "' is not known";
    if (decays != bool(n.in(4)) || corrects != bool(n.in(5)))
      return n.error() << "update_rule '" << rule << "' takes " << (decays ? "a decay" : "no decay")
                       << " and " << (corrects ? "a beta" : "no beta");
    int64_t queries = n.intAttr("q_num_heads", 0);
    heads = n.intAttr("kv_num_heads", 0);
    if (heads <= 0 || queries <= 0 || queries % heads)
      return n.error() << "q_num_heads = " << queries << " is no multiple of kv_num_heads = " << heads;
    for (size_t i : {0, 1, 2, 4, 5})
      if (n.in(i) && (n.rank(i) != 3 || n.shape(i).take_front(2) != n.shape(0).take_front(2)))
        return n.error() << "input " << i << ", " << n.in(i).getType()
                         << ", must be [batch, steps, ...] as the query, " << n.in(0).getType();
    group = queries / heads;
    batch = n.shape(0)[0];
    steps = n.shape(0)[1];
    width = n.shape(0)[2] / queries;
    valueWidth = n.shape(2)[2] / heads;
    if (steps < 1 || steps > kMostSteps)
      return n.error() << steps << " steps are not unrolled: 1 to " << kMostSteps << " are";
    if (width * queries != n.shape(0)[2] || width * heads != n.shape(1)[2] ||
        valueWidth * heads != n.shape(2)[2])
      return n.error() << "query, key and value do not split into " << queries << " and " << heads
                       << " heads";
    if (n.in(3) && n.shape(3) != ArrayRef<int64_t>{batch, heads, width, valueWidth})
      return n.error() << "past_state, " << n.in(3).getType() << ", must be [" << batch << ", " << heads
                       << ", " << width << ", " << valueWidth << "]";
    if (decays && n.shape(4)[2] != heads && n.shape(4)[2] != heads * width)
      return n.error() << "the decay has a number for each head, or for each element of its keys";
    if (corrects && n.shape(5)[2] != heads && n.shape(5)[2] != 1)
      return n.error() << "beta has a number for each head, or one";
    return success();
  }

  /// Input `i` in f32 as [batch, steps, sizes...].
  Value unpack(size_t i, ArrayRef<int64_t> sizes) {
    SmallVector<int64_t> shape = {batch, steps};
    llvm::append_range(shape, sizes);
    return n.b.reshape(n.b.cast(n.in(i), n.b.ops().getF32Type()), shape);
  }

  Node &n;
  int64_t batch = 0, steps = 0, heads = 0, group = 1, width = 0, valueWidth = 0;
  bool decays = false, corrects = false;
};

} // namespace

void addLinearAttentionOperators(OperatorTable &table) {
  table.push_back({"", "LinearAttention", 27, 0, [](Node &n) { return Recurrence(n).import(); }});
}

} // namespace colossal::onnx_import
