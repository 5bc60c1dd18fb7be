// The operations of a transformer's pieces. Counts of kernels are those of a training framework that launches
// each operation by itself.
#include "colossal/Cost/Transformer.h"

#include <algorithm>
#include <cmath>

namespace colossal::cost {

double ModelDimensions::keyValueWidth() const {
  return keyValueHeads > 0 ? hidden / heads * keyValueHeads : hidden;
}

double ModelDimensions::feedForwardWidth() const {
  return feedForward > 0 ? feedForward : 4 * hidden;
}

double ModelDimensions::sharedLayerParameters() const {
  double attention = hidden * (2 * hidden + 2 * keyValueWidth());
  double dense = hidden * feedForwardWidth() * (gated ? 3 : 2);
  if (gated)
    return attention + (experts > 0 ? dense / 2 : dense) + 2 * hidden;
  double biases = 9 * hidden + 4 * hidden; // of the four contractions, and two normalizations
  return attention + (experts > 0 ? dense / 2 : dense) + biases;
}

double ModelDimensions::layerParameters() const {
  double expert = hidden * feedForwardWidth() * (gated ? 3 : 2);
  return sharedLayerParameters() + (experts > 0 ? experts * expert / 2 : 0);
}

double ModelDimensions::embeddingParameters() const {
  return vocabulary * hidden + (gated ? 0 : sequence * hidden);
}

double ModelDimensions::parameters() const {
  return layers * layerParameters() + embeddingParameters() + (tiedEmbedding ? 0 : vocabulary * hidden);
}

double ModelDimensions::flopsPerStep(double sequences) const {
  double tokens = sequences * sequence;
  double dense = hidden * feedForwardWidth() * (gated ? 3 : 2);
  double products = hidden * (2 * hidden + 2 * keyValueWidth()) +
                    (experts > 0 ? dense * (1 + expertsPerToken) / 2 : dense) + 2 * sequence * hidden;
  return 6 * tokens * (layers * products + vocabulary * hidden);
}

namespace {

/// Of a collective that runs in pieces beside the work that needs them: what cannot be hidden is about a
/// third.
constexpr double kExposedPieces = 0.35;

/// Collects the passes of one piece.
struct Builder {
  const LayerLayout &layout;
  PieceWork work;
  DataType gemmType = layout.contractionType;
  double cast = layout.contractionType == DataType::F8 ? 1 : 0;

  /// y = x w: [rows, in] by [in, out].
  void linear(double rows, double out, double in) {
    work.forward.ops.push_back(contraction(1, rows, out, in, gemmType));
    work.backward.ops.push_back(contraction(1, rows, in, out, gemmType));
    work.weightGradient.ops.push_back(contraction(1, in, out, rows, gemmType));
    if (cast > 0) {
      // Operands read in 16 bits and written in 8, scales found on the way; twice, since 8-bit contractions
      // want k innermost in both operands, and the gradients' have another k.
      work.forward.ops.push_back(streaming(4 * (rows * in + in * out), layout.compiled ? 1 : 4));
      work.backward.ops.push_back(streaming(4 * rows * out, layout.compiled ? 1 : 4));
    }
  }
  /// A pointwise or normalizing kernel on `elements` 16-bit numbers, so many times read or written.
  void pointwise(double elements, double forward, double backward, double launches, double backwardLaunches) {
    work.forward.ops.push_back(streaming(2 * elements * forward, launches));
    work.backward.ops.push_back(streaming(2 * elements * backward, backwardLaunches));
  }
  void reduce(OpList &list, double bytes) {
    if (layout.tensor <= 1)
      return;
    if (layout.sequenceParallel) {
      list.collectives.push_back({Collective::AllGather, bytes, layout.tensorGroup, 1});
      list.collectives.push_back({Collective::ReduceScatter, bytes, layout.tensorGroup, 1});
    } else {
      list.collectives.push_back({Collective::AllReduce, bytes, layout.tensorGroup, 1});
    }
  }
};

void append(OpList &to, const OpList &from) {
  to.ops.insert(to.ops.end(), from.ops.begin(), from.ops.end());
  to.collectives.insert(to.collectives.end(), from.collectives.begin(), from.collectives.end());
}

/// Frameworks' kernel of scaled masked softmax has a warp for a row of scores and works on the rows of four
/// heads at a time: it wants a multiple of four (sequence, head) pairs on a rank, and rows that a warp's
/// registers hold.
bool fusedSoftmaxTakes(double sequenceHeads, double keys) {
  return std::fmod(sequenceHeads, 4) == 0 && keys <= 4096;
}

/// Scores, softmax, dropout and the weighted sum.
PieceWork attentionCore(const ModelDimensions &model, const LayerLayout &layout) {
  Builder builder{layout, {}};
  PieceWork &work = builder.work;
  double b = layout.microBatch, t = layout.tensor, s = model.sequence, width = model.hidden / model.heads;
  double queries = s / layout.context, heads = model.heads / t;
  if (model.fusedAttention) {
    OpWork op;
    op.kind = OpKind::FusedAttention;
    op.type = layout.type;
    op.batch = b * heads;
    op.m = queries;
    op.n = s;
    op.k = width;
    // Rank i of a ring attends to the (i + 1) / cp of the keys before it, and all wait for the last.
    op.fraction = layout.balancedContext ? 0.5 : 1 - 0.5 / layout.context;
    op.attention = layout.attention;
    work.forward.ops.push_back(op);
    op.passes = 2.5;
    op.launches = 3;
    work.backward.ops.push_back(op);
    if (layout.context > 1) {
      // Keys and values go around, or are gathered; their gradients come back.
      double bytes = 2 * 2 * b * s * model.keyValueWidth() / t;
      double exposed = layout.balancedContext ? kExposedPieces : 1;
      work.forward.collectives.push_back({Collective::AllGather, bytes, layout.contextGroup, exposed});
      work.backward.collectives.push_back({Collective::AllGather, bytes, layout.contextGroup, exposed});
      work.backward.collectives.push_back({Collective::ReduceScatter, bytes, layout.contextGroup, exposed});
    }
    return work;
  }
  double scores = b * heads * queries * s;
  auto products = [&](OpList &list, int count) {
    for (int i = 0; i < count; ++i) {
      list.ops.push_back(contraction(b * heads, queries, s, width, layout.type));
      list.ops.push_back(contraction(b * heads, queries, width, s, layout.type));
    }
  };
  products(work.forward, 1);
  products(work.backward, 2);
  if (layout.compiled || fusedSoftmaxTakes(b * heads, s))
    builder.pointwise(scores, 2, 3, 1, 1); // scale, mask and softmax in one kernel
  else // cast to f32, scale, mask made and applied, softmax, cast back: one kernel each
    builder.pointwise(scores, 13, 12, 8, 5);
  builder.pointwise(scores, 2.5, 2.5, 1, 1); // dropout and its mask of one byte
  return work;
}

/// Where attention keeps no scores: every second contraction again, and what is pointwise.
OpList halfOfContractions(const OpList &forward) {
  OpList half;
  for (OpWork op : forward.ops) {
    if (op.kind == OpKind::FusedAttention)
      continue;
    if (op.kind == OpKind::Contraction)
      op.passes *= 0.5;
    half.ops.push_back(op);
  }
  return half;
}

/// The feed-forward part on `rows` tokens.
void feedForward(Builder &builder, const ModelDimensions &model, double rows, double split) {
  double h = model.hidden, f = model.feedForwardWidth() / split;
  bool compiled = builder.layout.compiled;
  if (model.gated) {
    builder.linear(rows, f, h);
    builder.linear(rows, f, h);
    builder.pointwise(rows * f, compiled ? 3 : 5, compiled ? 5 : 8, compiled ? 1 : 2, compiled ? 1 : 4);
  } else {
    builder.linear(rows, f, h);
    builder.pointwise(rows * f, 2, 3, 1, 2);
  }
  builder.linear(rows, h, f);
}

} // namespace

PieceWork layerWork(const ModelDimensions &model, const LayerLayout &layout) {
  Builder builder{layout, {}};
  PieceWork &work = builder.work;
  double t = layout.tensor, h = model.hidden;
  double rows = layout.microBatch * model.sequence / layout.context;
  double outside =
      layout.sequenceParallel ? rows / t : rows; // tokens of what tensor parallelism leaves whole
  double kv = model.keyValueWidth();
  bool compiled = layout.compiled;
  double reads = compiled ? 0.6 : 1; // traffic that fusion leaves

  // Attention.
  builder.pointwise(outside * h, model.gated ? 4 * reads : 2, model.gated ? 6 * reads : 4, compiled ? 1 : 2,
                    2);
  builder.linear(rows, (h + 2 * kv) / t, h);
  // Bias, split into heads, transposed; or rotary positions.
  builder.pointwise(rows * (h + 2 * kv) / t, model.gated ? 4 * reads : 2, model.gated ? 4 * reads : 2,
                    model.gated && !compiled ? 10 : 3, model.gated && !compiled ? 10 : 3);
  PieceWork core = attentionCore(model, layout);
  append(work.forward, core.forward);
  append(work.backward, core.backward);
  builder.pointwise(rows * h / t, 2, 2, 1, 1);
  builder.linear(rows, h, h / t);
  builder.reduce(work.forward, 2 * rows * h);
  builder.reduce(work.backward, 2 * rows * h);
  builder.pointwise(outside * h, model.gated ? 3 * reads : 3.5, model.gated ? 2 * reads : 2.5,
                    compiled ? 0 : 2, compiled ? 0 : 2);

  // Feed-forward.
  builder.pointwise(outside * h, model.gated ? 4 * reads : 2, model.gated ? 6 * reads : 4, compiled ? 1 : 2,
                    2);
  if (model.experts > 0) {
    // The average of a dense layer and one with experts.
    PieceWork outer = std::move(work);
    work = PieceWork();
    feedForward(builder, model, rows, t);
    // Tokens go to their experts and come back; routing makes masks over experts and capacity.
    feedForward(builder, model, rows * model.expertsPerToken, t);
    double bytes = 2 * rows * h * model.expertsPerToken;
    builder.pointwise(rows * h * model.expertsPerToken, 4, 4, 12, 20);
    for (OpList *list : {&work.forward, &work.backward, &work.weightGradient})
      for (OpWork &op : list->ops)
        op.passes *= 0.5, op.bytes *= 0.5, op.launches *= 0.5;
    if (layout.expertParallel > 1)
      for (OpList *list : {&work.forward, &work.backward})
        list->collectives.push_back(
            {Collective::AllToAll, bytes, layout.expertGroup, 1}); // two in every second layer
    PieceWork inner = std::move(work);
    work = std::move(outer);
    append(work.forward, inner.forward);
    append(work.backward, inner.backward);
    append(work.weightGradient, inner.weightGradient);
  } else {
    feedForward(builder, model, rows, t);
  }
  builder.reduce(work.forward, 2 * rows * h);
  builder.reduce(work.backward, 2 * rows * h);
  builder.pointwise(outside * h, model.gated ? 3 * reads : 3.5, model.gated ? 2 * reads : 2.5,
                    compiled ? 0 : 2, compiled ? 0 : 2);

  if (layout.recompute == Recompute::Full)
    work.recompute = work.forward;
  else if (layout.recompute == Recompute::Selective)
    work.recompute = model.fusedAttention ? halfOfContractions(work.forward) : core.forward;
  if (layout.asyncTensor)
    for (OpList *list : {&work.forward, &work.recompute, &work.backward})
      for (CollectiveWork &collective : list->collectives)
        if (collective.group.stride == layout.tensorGroup.stride &&
            collective.group.size == layout.tensorGroup.size)
          collective.count *= kExposedPieces;
  return work;
}

PieceWork embeddingWork(const ModelDimensions &model, const LayerLayout &layout) {
  Builder builder{layout, {}};
  double rows = layout.microBatch * model.sequence / layout.context;
  builder.pointwise(rows * model.hidden, 8, 8, 10, 10);
  builder.reduce(builder.work.forward, 2 * rows * model.hidden);
  return builder.work;
}

PieceWork headWork(const ModelDimensions &model, const LayerLayout &layout) {
  LayerLayout exact = layout;
  exact.contractionType = layout.type; // the last projection stays in 16 bits
  Builder builder{exact, {}};
  double rows = layout.microBatch * model.sequence / layout.context;
  double columns = std::floor(model.vocabulary / layout.tensor);
  builder.pointwise(rows * model.hidden, 2, 4, 2, 4);
  builder.linear(rows, columns, model.hidden);
  // The loss in f32: cast, maximum, difference, exponential, sum, division; then the difference to the
  // target, cast.
  double passes = layout.compiled ? 0.5 : 1;
  builder.pointwise(rows * columns, 25 * passes, 13 * passes, 16, 10);
  builder.reduce(builder.work.backward, 2 * rows * model.hidden);
  return builder.work;
}

double layerTransientBytes(const ModelDimensions &model, const LayerLayout &layout) {
  LayerLayout kept = layout;
  kept.recompute = Recompute::None;
  return layerActivationBytes(model, kept);
}

double layerActivationBytes(const ModelDimensions &model, const LayerLayout &layout) {
  double t = layout.tensor, h = model.hidden;
  double sbh = layout.microBatch * model.sequence / layout.context * h;
  double whole = layout.sequenceParallel ? 1 / t : 1; // what tensor parallelism alone leaves whole
  if (layout.recompute == Recompute::Full)
    return 2 * sbh * whole;
  double scores = 5 * model.heads * model.sequence / (h * t);
  if (layout.recompute == Recompute::Selective || model.fusedAttention)
    scores = 0;
  if (!model.gated)
    return sbh * (10 * whole + 24 / t + scores);
  // Inputs of two normalizations and of what follows them; queries, keys, values and output; gate, up,
  // product.
  double kv = model.keyValueWidth() / h, f = model.feedForwardWidth() / h;
  // Half of what the contractions make (output and second of the feed-forward part whole, the rest over t),
  // the layer's input and the attention's output.
  if (layout.recompute == Recompute::Selective)
    return sbh * (2 * whole + 2 / t + 4.0 / 2 * whole + (2 + 4 * kv + 4 * f) / 2 / t);
  return sbh * (8 * whole + 2 * (2 + 2 * kv) / t + 2 * 3 * f / t + scores);
}

} // namespace colossal::cost
