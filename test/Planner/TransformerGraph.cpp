// Builds the graph operation by operation.
#include "TransformerGraph.h"

namespace colossal::planner {

namespace {

class Builder {
public:
  explicit Builder(UnitKind &kind) : kind(kind) {}

  int tensor(const std::string &name, double elements, Tensor::Kind type = Tensor::Activation,
             int shared = -1) {
    Tensor t;
    t.name = name;
    t.kind = type;
    t.elements = elements;
    t.perSequence = type != Tensor::Parameter;
    t.stored = type == Tensor::Parameter ? elements : 0;
    t.shared = shared;
    kind.tensors.push_back(t);
    return static_cast<int>(kind.tensors.size()) - 1;
  }
  static Factor factor(double size, Factor::Kind type, const char *role, bool perSequence = false) {
    Factor f;
    f.size = size;
    f.kind = type;
    f.role = role;
    f.perSequence = perSequence;
    return f;
  }
  Operation &add(const std::string &name, Operation::Kind type) {
    kind.operations.emplace_back();
    kind.operations.back().name = name;
    kind.operations.back().kind = type;
    return kind.operations.back();
  }
  static Use use(int tensor, std::vector<FactorPosition> places, bool saved, double gradient) {
    Use u;
    u.tensor = tensor;
    u.places = std::move(places);
    u.saved = saved;
    u.gradientFlops = gradient;
    return u;
  }

  /// Batch x sequence x [parts of the last dimension].
  int pointwise(const std::string &name, std::vector<int> operands, double s, std::vector<double> parts,
                bool wholeLast, bool saved, int scale = -1) {
    Operation &op = add(name, Operation::Streaming);
    op.factors = {factor(1, Factor::Parallel, "", true), factor(s, Factor::Parallel, "")};
    std::vector<FactorPosition> places = {{0, 0, 1}, {1, 1, 1}}, last;
    double inner = 1, width = 1;
    for (double part : parts)
      width *= part;
    for (std::size_t i = parts.size(); i-- > 0;) {
      int number = static_cast<int>(op.factors.size());
      op.factors.push_back(factor(parts[i], wholeLast ? Factor::Whole : Factor::Parallel, ""));
      places.push_back({number, 2, inner});
      last.push_back({number, 0, inner});
      inner *= parts[i];
    }
    op.flops = s * width;
    for (int operand : operands)
      op.operands.push_back(use(operand, places, saved, s * width));
    if (scale >= 0)
      op.operands.push_back(use(scale, last, true, s * width));
    int result = tensor(name, s * width);
    op.results.push_back(use(result, places, false, 0));
    return result;
  }

  /// x [batch, s, in] times a weight [in, out]; the outer width may be a product.
  int linear(const std::string &name, int x, double s, std::vector<double> in, std::vector<double> out,
             int weight) {
    Operation &op = add(name, Operation::Contraction);
    op.factors = {factor(1, Factor::Parallel, "m", true), factor(s, Factor::Parallel, "m")};
    std::vector<FactorPosition> left = {{0, 0, 1}, {1, 1, 1}}, right, result = left;
    double inner = 1, k = 1, n = 1;
    for (std::size_t i = in.size(); i-- > 0;) {
      int number = static_cast<int>(op.factors.size());
      op.factors.push_back(factor(in[i], Factor::Reduction, "k"));
      left.push_back({number, 2, inner});
      right.push_back({number, 0, inner});
      inner *= in[i];
    }
    k = inner;
    inner = 1;
    for (std::size_t i = out.size(); i-- > 0;) {
      int number = static_cast<int>(op.factors.size());
      op.factors.push_back(factor(out[i], Factor::Parallel, "n"));
      result.push_back({number, 2, inner});
      right.push_back({number, 1, inner});
      inner *= out[i];
    }
    n = inner;
    op.flops = 2 * s * k * n;
    op.operands = {use(x, left, true, op.flops), use(weight, right, true, op.flops)};
    int y = tensor(name, s * n);
    op.results = {use(y, result, false, 0)};
    return y;
  }

  /// One of three parts of [batch, s, 3 x heads x width], as batch x heads x s x width.
  int split(const std::string &name, int qkv, double s, double heads, double width) {
    Operation &op = add(name, Operation::View);
    op.factors = {factor(1, Factor::Parallel, "", true), factor(s, Factor::Parallel, ""),
                  factor(heads, Factor::Parallel, "heads"), factor(width, Factor::Parallel, "")};
    op.operands = {use(qkv, {{0, 0, 1}, {1, 1, 1}, {2, 2, width}, {3, 2, 1}}, false, s * heads * width)};
    int part = tensor(name, s * heads * width);
    op.results = {use(part, {{0, 0, 1}, {2, 1, 1}, {1, 2, 1}, {3, 3, 1}}, false, 0)};
    return part;
  }

  int attention(int q, int k, int v, double s, double heads, double width) {
    Operation &op = add("attention", Operation::Attention);
    op.causal = true;
    op.factors = {factor(1, Factor::Parallel, "batch", true), factor(heads, Factor::Parallel, "heads"),
                  factor(s, Factor::Parallel, "sequence"),    factor(s, Factor::Whole, "keys"),
                  factor(width, Factor::Whole, ""),           factor(width, Factor::Whole, "")};
    op.flops = 2 * s * s * heads * width;
    double gradient = op.flops * 2.5 / 3;
    op.operands = {use(q, {{0, 0, 1}, {1, 1, 1}, {2, 2, 1}, {4, 3, 1}}, true, gradient),
                   use(k, {{0, 0, 1}, {1, 1, 1}, {3, 2, 1}, {4, 3, 1}}, true, gradient),
                   use(v, {{0, 0, 1}, {1, 1, 1}, {3, 2, 1}, {5, 3, 1}}, true, gradient)};
    int out = tensor("attention", s * heads * width);
    op.results = {use(out, {{0, 0, 1}, {1, 1, 1}, {2, 2, 1}, {5, 3, 1}}, true, 0)};
    return out;
  }

  int join(int context, double s, double heads, double width) {
    Operation &op = add("join", Operation::View);
    op.factors = {factor(1, Factor::Parallel, "", true), factor(s, Factor::Parallel, ""),
                  factor(heads, Factor::Parallel, "heads"), factor(width, Factor::Parallel, "")};
    op.operands = {use(context, {{0, 0, 1}, {2, 1, 1}, {1, 2, 1}, {3, 3, 1}}, false, s * heads * width)};
    int joined = tensor("join", s * heads * width);
    op.results = {use(joined, {{0, 0, 1}, {1, 1, 1}, {2, 2, width}, {3, 2, 1}}, false, 0)};
    return joined;
  }

private:
  UnitKind &kind;
};

} // namespace

FactorGraph makeTransformer(const TransformerSizes &z) {
  FactorGraph graph;
  graph.name = "gpt";
  graph.sequence = z.sequence;
  double s = z.sequence, h = z.hidden, width = h / z.heads;
  graph.kinds.resize(3);

  UnitKind &embedding = graph.kinds[0];
  embedding.name = "embedding";
  {
    Builder b(embedding);
    int table = b.tensor("wte", z.vocabulary * h, Tensor::Parameter, z.tied ? 0 : -1);
    int tokens = b.tensor("tokens", s, Tensor::Given);
    embedding.tensors[tokens].isFloat = false;
    Operation &op = b.add("lookup", Operation::Streaming);
    op.factors = {Builder::factor(z.vocabulary, Factor::Reduction, "vocabulary"),
                  Builder::factor(h, Factor::Parallel, ""), Builder::factor(1, Factor::Parallel, "", true),
                  Builder::factor(s, Factor::Parallel, "")};
    op.flops = s * h;
    op.operands = {Builder::use(table, {{0, 0, 1}, {1, 1, 1}}, false, s * h),
                   Builder::use(tokens, {{2, 0, 1}, {3, 1, 1}}, true, 0)};
    op.operands[0].moved = false;
    int x = b.tensor("lookup", s * h);
    embedding.operations.back().results = {Builder::use(x, {{2, 0, 1}, {3, 1, 1}, {1, 2, 1}}, false, 0)};
    embedding.outputs = {x};
  }

  UnitKind &block = graph.kinds[1];
  block.name = "block";
  {
    Builder b(block);
    int x = b.tensor("x", s * h);
    block.inputs = {x};
    auto weight = [&](const char *name, double in, double out) {
      return b.tensor(name, in * out, Tensor::Parameter);
    };
    int normed = b.pointwise("norm1", {x}, s, {h}, true, true, weight("norm1.scale", h, 2));
    int qkv = b.linear("qkv", normed, s, {h}, {3, z.heads, width}, weight("qkv.weight", h, 3 * h));
    int q = b.split("query", qkv, s, z.heads, width), k = b.split("key", qkv, s, z.heads, width),
        v = b.split("value", qkv, s, z.heads, width);
    int joined = b.join(b.attention(q, k, v, s, z.heads, width), s, z.heads, width);
    int out = b.linear("out", joined, s, {z.heads, width}, {h}, weight("out.weight", h, h));
    int middle = b.pointwise("add1", {x, out}, s, {h}, false, false);
    normed = b.pointwise("norm2", {middle}, s, {h}, true, true, weight("norm2.scale", h, 2));
    int up = b.linear("up", normed, s, {h}, {4 * h}, weight("up.weight", h, 4 * h));
    int active = b.pointwise("gelu", {up}, s, {4 * h}, false, true);
    int down = b.linear("down", active, s, {4 * h}, {h}, weight("down.weight", 4 * h, h));
    block.outputs = {b.pointwise("add2", {middle, down}, s, {h}, false, false)};
  }

  UnitKind &head = graph.kinds[2];
  head.name = "head";
  {
    Builder b(head);
    int x = b.tensor("x", s * h);
    head.inputs = {x};
    int normed =
        b.pointwise("norm", {x}, s, {h}, true, true, b.tensor("norm.scale", 2 * h, Tensor::Parameter));
    int logits = b.linear("head", normed, s, {h}, {z.vocabulary},
                          b.tensor("head.weight", z.vocabulary * h, Tensor::Parameter, z.tied ? 0 : -1));
    Operation &op = b.add("loss", Operation::Streaming);
    op.factors = {Builder::factor(1, Factor::Parallel, "", true), Builder::factor(s, Factor::Parallel, ""),
                  Builder::factor(z.vocabulary, Factor::Reduction, "vocabulary")};
    op.operands = {Builder::use(logits, {{0, 0, 1}, {1, 1, 1}, {2, 2, 1}}, true, s * z.vocabulary)};
    int loss = b.tensor("loss", s);
    head.operations.back().results = {Builder::use(loss, {{0, 0, 1}, {1, 1, 1}}, false, 0)};
  }
  graph.units = {0};
  graph.units.insert(graph.units.end(), z.layers, 1);
  graph.units.push_back(2);
  for (UnitKind &kind : graph.kinds)
    findLives(kind);
  return graph;
}

} // namespace colossal::planner
