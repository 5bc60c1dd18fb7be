//===- Attention.cpp - ONNX Attention and RotaryEmbedding -------------------===//
//
// Attention with past keys and values, masks, lengths, grouped heads and softcap; its scores, where they are
// asked for, are composed beside it.
//
//===----------------------------------------------------------------------===//
#include "../Importer.h"
#include "../Operator.h"
#include "dialects/Colossal/NarrowTypes.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

/// [B, S, H * D] -> [B, H, S, D]; tensors of rank 4 stay.
FailureOr<Value> splitHeads(Node &n, size_t i, StringRef heads) {
  Value x = n.in(i);
  if (n.rank(i) == 4)
    return x;
  int64_t count = n.intAttr(heads, 0);
  if (n.rank(i) != 3 || count <= 0 || n.shape(i)[2] % count)
    return n.error() << "input " << i << ", " << x.getType() << ", does not split into " << heads << " = "
                     << count;
  auto shape = n.shape(i);
  return n.b.transpose(n.b.reshape(x, {shape[0], shape[1], count, shape[2] / count}), {0, 2, 1, 3});
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// j <= i + offset over [queries, keys].
Value makeCausal(Node &n, int64_t queries, int64_t keys, int64_t offset) {
  Type i64 = n.b.ops().getI64Type();
  return n.b.elementwise(ElementwiseKind::LessOrEqual,
                         {n.b.iota({1, keys}, i64, 1), n.b.iota({queries, 1}, i64, 0, double(offset))});
}

struct AttentionParts {
  Value query, key, value, mask;
  double scale = 1, softcap = 0;
  bool causal = false;
  int64_t offset = 0;
};

/// The score matrix at one of ONNX's stages: 0 products, 1 softcapped, 2 masked, 3 softmax.
Value makeScores(Node &n, const AttentionParts &a, int64_t stage) {
  auto q = GraphBuilder::shapeOf(a.query), k = GraphBuilder::shapeOf(a.key);
  Type element = GraphBuilder::elementOf(a.query);
  int64_t group = q[1] / k[1];
  Value query = n.b.reshape(a.query, {q[0], k[1], group, q[2], q[3]});
  Value scores = n.b.contract(query, a.key, {0, 1, 2, 3, 4}, {0, 1, 5, 4}, {0, 1, 2, 3, 5});
  scores = n.b.mul(n.b.reshape(scores, {q[0], q[1], q[2], k[2]}), n.b.scalar(element, a.scale));
  if (stage >= 1 && a.softcap != 0) {
    Value cap = n.b.scalar(element, a.softcap);
    scores = n.b.mul(n.b.unary(ElementwiseKind::Tanh, n.b.div(scores, cap)), cap);
  }
  if (stage < 2)
    return scores;
  Value hidden = n.b.scalar(element, -kInfinity);
  if (a.mask)
    scores = GraphBuilder::elementOf(a.mask).isInteger(1) ? n.b.select(a.mask, scores, hidden)
                                                          : n.b.add(scores, n.b.cast(a.mask, element));
  if (a.causal)
    scores = n.b.select(makeCausal(n, q[2], k[2], a.offset), scores, hidden);
  return stage == 3 ? n.b.softmax(scores, 3) : scores;
}

/// The mask at the keys' length: what it lacks is hidden.
Value padMask(Node &n, Value mask, int64_t keys) {
  int64_t missing = keys - GraphBuilder::shapeOf(mask).back();
  if (missing <= 0 || GraphBuilder::shapeOf(mask).back() == 0)
    return mask;
  SmallVector<int64_t> low(GraphBuilder::rankOf(mask), 0), high = low;
  high.back() = missing;
  bool isBool = GraphBuilder::elementOf(mask).isInteger(1);
  return n.b.pad(mask, low, high, n.b.scalar(GraphBuilder::elementOf(mask), isBool ? 0 : -kInfinity));
}

LogicalResult importAttention(Node &n) {
  if (failed(n.require(3)))
    return failure();
  auto query = splitHeads(n, 0, "q_num_heads"), key = splitHeads(n, 1, "kv_num_heads"),
       value = splitHeads(n, 2, "kv_num_heads");
  if (failed(query) || failed(key) || failed(value))
    return failure();
  AttentionParts a{*query, *key, *value, n.in(3)};
  auto fitsPast = [&](Value past, Value now) {
    auto p = GraphBuilder::shapeOf(past), s = GraphBuilder::shapeOf(now);
    return p.size() == 4 && p[0] == s[0] && p[1] == s[1] && p[3] == s[3];
  };
  for (auto [i, now] : {std::pair<size_t, Value *>{4, &a.key}, {5, &a.value}}) {
    if (!n.in(i))
      continue;
    if (!fitsPast(n.in(i), *now))
      return n.error() << "input " << i << ", " << n.in(i).getType() << ", does not fit " << now->getType();
    if (i == 4)
      a.offset = n.shape(i)[2];
    *now = n.b.concat({n.in(i), *now}, 2);
  }
  auto q = GraphBuilder::shapeOf(a.query), k = GraphBuilder::shapeOf(a.key),
       v = GraphBuilder::shapeOf(a.value);
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] || k[1] == 0 ||
      q[1] % k[1])
    return n.error() << "query " << a.query.getType() << ", key " << a.key.getType() << " and value "
                     << a.value.getType() << " do not fit";
  SmallVector<int64_t> scores = {q[0], q[1], q[2], k[2]};
  if (a.mask) {
    a.mask = padMask(n, a.mask, k[2]);
    auto joined = broadcastShapes(scores, GraphBuilder::shapeOf(a.mask));
    if (!joined || *joined != scores)
      return n.error() << "mask " << a.mask.getType() << " does not broadcast to the scores";
  }
  a.scale = n.hasAttr("scale") ? n.floatAttr("scale", 1) : 1.0 / std::sqrt(double(q[3]));
  a.softcap = n.floatAttr("softcap", 0);
  a.causal = n.intAttr("is_causal", 0);
  if (Value lengths = n.in(6)) {
    if (n.rank(6) != 1 || n.shape(6)[0] != q[0])
      return n.error() << "one length per batch is expected";
    Type i64 = n.b.ops().getI64Type();
    Value real =
        n.b.elementwise(ElementwiseKind::Less, {n.b.iota({1, 1, 1, k[2]}, i64, 3),
                                                n.b.reshape(n.b.cast(lengths, i64), {q[0], 1, 1, 1})});
    if (!a.mask)
      a.mask = real;
    else if (GraphBuilder::elementOf(a.mask).isInteger(1))
      a.mask = n.b.elementwise(ElementwiseKind::And, {a.mask, real});
    else
      a.mask = n.b.select(real, a.mask, n.b.scalar(GraphBuilder::elementOf(a.mask), -kInfinity));
  }
  if (a.mask && GraphBuilder::elementOf(a.mask) != n.element(0) &&
      !GraphBuilder::elementOf(a.mask).isInteger(1))
    a.mask = n.b.cast(a.mask, n.element(0));
  Value result =
      AttentionOp::create(n.b.ops(), n.b.loc(), RankedTensorType::get({q[0], q[1], q[2], v[3]}, n.element(0)),
                          Type(), a.query, a.key, a.value, a.mask, Value(), Value(), APFloat(a.scale),
                          a.causal, uint64_t(a.offset), APFloat(a.softcap), false)
          .getResult();
  if (n.wants(3))
    n.give(3, makeScores(n, a, n.intAttr("qk_matmul_output_mode", 0)));
  if (n.rank(0) == 3)
    result = n.b.reshape(n.b.transpose(result, {0, 2, 1, 3}), {q[0], q[2], q[1] * v[3]});
  n.give(0, result);
  n.give(1, a.key);
  return n.set(2, a.value);
}

/// Attention whose scores and probabilities pass through subgraphs of the model.
LogicalResult importFlexAttention(Node &n) {
  if (failed(n.require(3)))
    return failure();
  auto q = n.shape(0), k = n.shape(1), v = n.shape(2);
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || q[0] != k[0] || q[0] != v[0] || k[1] != v[1] ||
      k[2] != v[2] || q[3] != k[3] || k[1] == 0 || q[1] % k[1])
    return n.error() << "query " << n.in(0).getType() << ", key " << n.in(1).getType() << " and value "
                     << n.in(2).getType() << " do not fit";
  Type element = n.element(0), precise = n.b.ops().getF32Type();
  if (element.isF64())
    precise = element;
  if (int64_t given = n.intAttr("softmax_precision", 0))
    precise = getElementType(n.importer.context(), int32_t(given));
  if (!precise || !isa<FloatType>(precise) || isNarrow(precise) || !isa<FloatType>(element))
    return n.error() << "queries and softmax_precision must be floats of at least 16 bits";
  /// `x` through the subgraph of that name, if the node has it.
  auto modify = [&](StringRef name, Value x) -> FailureOr<Value> {
    const auto *body = n.attr(name);
    if (!body)
      return x;
    if (!body->has_g() || body->g().input_size() != 1 || body->g().output_size() != 1)
      return n.error() << name << " must be a graph of one input and one output";
    auto outputs = n.importer.importSubgraph(body->g(), {x});
    if (failed(outputs))
      return failure();
    if (outputs->front().getType() != x.getType())
      return n.error() << name << " gives " << outputs->front().getType() << " for " << x.getType();
    return outputs->front();
  };
  AttentionParts a{n.in(0), n.in(1), n.in(2), {}};
  a.scale = n.hasAttr("scale") ? n.floatAttr("scale", 1) : 1.0 / std::sqrt(double(q[3]));
  auto scores = modify("score_mod", n.b.cast(makeScores(n, a, 0), precise));
  if (failed(scores))
    return failure();
  auto shares = modify("prob_mod", n.b.softmax(*scores, 3));
  if (failed(shares))
    return failure();
  Value grouped = n.b.reshape(n.b.cast(*shares, element), {q[0], k[1], q[1] / k[1], q[2], k[2]});
  Value result = n.b.contract(grouped, n.in(2), {0, 1, 2, 3, 4}, {0, 1, 4, 5}, {0, 1, 2, 3, 5});
  return n.set(n.b.reshape(result, {q[0], q[1], q[2], v[3]}));
}

LogicalResult importRotaryEmbedding(Node &n) {
  if (failed(n.require(3)))
    return failure();
  Value x = n.in(0), cos = n.in(1), sin = n.in(2);
  auto shape = n.shape(0);
  bool flat = n.rank(0) == 3;
  if (flat) {
    int64_t heads = n.intAttr("num_heads", 0);
    if (heads <= 0 || shape[2] % heads)
      return n.error() << "num_heads does not divide the width of " << x.getType();
    x = n.b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  } else if (n.rank(0) != 4) {
    return n.error() << "a tensor of rank 3 or 4 is expected";
  }
  int64_t batch = shape[0], sequence = flat ? shape[1] : shape[2], width = GraphBuilder::shapeOf(x)[3];
  int64_t turned = n.intAttr("rotary_embedding_dim", 0);
  turned = turned ? turned : width;
  if (n.in(3)) {
    cos = n.b.gather(cos, n.in(3), 0);
    sin = n.b.gather(sin, n.in(3), 0);
  }
  SmallVector<int64_t> expected = {batch, sequence, turned / 2};
  for (Value *table : {&cos, &sin}) {
    auto joined = broadcastShapes(expected, GraphBuilder::shapeOf(*table));
    if (turned % 2 || turned > width || !joined || *joined != expected || GraphBuilder::rankOf(*table) != 3)
      return n.error() << "cos and sin must be [batch, sequence, " << turned / 2 << "], not "
                       << table->getType();
    *table = n.b.unsqueeze(*table, {flat ? 2 : 1});
  }
  Value result =
      RotaryOp::create(n.b.ops(), n.b.loc(), x.getType(), x, cos, sin, bool(n.intAttr("interleaved", 0)));
  return n.set(n.b.reshape(result, shape));
}

} // namespace

void addAttentionOperators(OperatorTable &table) {
  table.push_back({"", "Attention", 23, 0, importAttention});
  table.push_back({"ai.onnx.preview", "FlexAttention", 1, 0, importFlexAttention});
  table.push_back({"", "RotaryEmbedding", 23, 0, importRotaryEmbedding});
}

} // namespace colossal::onnx_import
