//===- Recurrent.cpp - ONNX RNN, GRU and LSTM, unrolled ---------------------===//
//
// One step after another over a static length. What depends on the input alone is one contraction over all
// steps; a step contracts the state. Shorter sequences of a batch keep their state and give zeros beyond
// their length.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"
#include "colossal/Import/ParameterRoles.h"

using namespace mlir;

namespace colossal::onnx_import {

namespace {

using Kind = ElementwiseKind;
constexpr int64_t kMostSteps = 4096;

/// An activation by ONNX's name, with its alpha and beta where the node gives them.
struct Activation {
  std::string name;
  std::optional<double> alpha, beta;
};

FailureOr<Value> activate(Node &n, const Activation &f, Value x) {
  struct Row {
    StringRef name;
    Kind kind;
    unsigned params;
    double alpha, beta;
  };
  static const Row rows[] = {{"tanh", Kind::Tanh, 0, 0, 0},
                             {"sigmoid", Kind::Sigmoid, 0, 0, 0},
                             {"relu", Kind::Relu, 0, 0, 0},
                             {"softsign", Kind::Softsign, 0, 0, 0},
                             {"softplus", Kind::Softplus, 0, 0, 0},
                             {"leakyrelu", Kind::LeakyRelu, 1, 0.01f, 0},
                             {"thresholdedrelu", Kind::ThresholdedRelu, 1, 1, 0},
                             {"elu", Kind::Elu, 1, 1, 0},
                             {"hardsigmoid", Kind::HardSigmoid, 2, 0.2f, 0.5}};
  std::string name = StringRef(f.name).lower();
  for (const Row &row : rows)
    if (row.name == name) {
      double params[] = {f.alpha.value_or(row.alpha), f.beta.value_or(row.beta)};
      return n.b.elementwise(row.kind, {x}, ArrayRef<double>(params).take_front(row.params));
    }
  Type element = GraphBuilder::elementOf(x);
  auto scale = [&](Value y, double by) { return n.b.mul(y, n.b.scalar(element, by)); };
  if (name == "affine")
    return n.b.add(scale(x, f.alpha.value_or(1)), n.b.scalar(element, f.beta.value_or(0)));
  if (name == "scaledtanh")
    return scale(n.b.unary(Kind::Tanh, scale(x, f.beta.value_or(1))), f.alpha.value_or(1));
  return n.error() << "activation '" << f.name << "' is unknown";
}

/// The operator and what its attributes say; one direction at a time.
class Recurrence {
public:
  Recurrence(Node &n, StringRef op) : n(n), op(op) {}

  LogicalResult import() {
    gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
    if (failed(check()))
      return failure();
    std::vector<Value> outputs, lastStates, lastCells;
    for (int64_t direction = 0; direction < directions; ++direction) {
      SmallVector<Value> steps(length);
      State state;
      if (failed(run(direction, steps, state)))
        return failure();
      for (Value &step : steps)
        step = n.b.unsqueeze(step, {0});
      outputs.push_back(n.b.unsqueeze(n.b.concat(steps, 0), {1})); // S x 1 x B x H
      lastStates.push_back(n.b.unsqueeze(state.hidden, {0}));
      if (state.cell)
        lastCells.push_back(n.b.unsqueeze(state.cell, {0}));
    }
    Value all = n.b.concat(outputs, 1), hidden = n.b.concat(lastStates, 0);
    bool batchFirst = n.intAttr("layout", 0);
    n.give(0, batchFirst ? n.b.transpose(all, {2, 0, 1, 3}) : all);
    n.give(1, batchFirst ? n.b.transpose(hidden, {1, 0, 2}) : hidden);
    if (!lastCells.empty()) {
      Value cell = n.b.concat(lastCells, 0);
      n.give(2, batchFirst ? n.b.transpose(cell, {1, 0, 2}) : cell);
    }
    return success();
  }

private:
  struct State {
    Value hidden, cell; ///< B x H; the cell of an LSTM
  };

  LogicalResult check() {
    if (failed(n.require(3)))
      return failure();
    StringRef direction = n.stringAttr("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      return n.error() << "direction '" << direction << "' is unknown";
    directions = direction == "bidirectional" ? 2 : 1;
    isReverse = direction == "reverse";
    if (n.rank(0) != 3 || n.rank(1) != 3 || n.rank(2) != 3)
      return n.error() << "X, W and R must have three dimensions";
    input = n.in(0);
    if (n.intAttr("layout", 0))
      input = n.b.transpose(input, {1, 0, 2});
    auto shape = GraphBuilder::shapeOf(input);
    length = shape[0], batch = shape[1], hidden = n.shape(2)[2];
    auto mustBe = [&](size_t i, ArrayRef<int64_t> expected) {
      return !n.in(i) || n.shape(i) == expected
                 ? success()
                 : LogicalResult(n.error() << "input " << i << ", " << n.in(i).getType()
                                           << ", does not fit the others");
    };
    bool batchFirst = n.intAttr("layout", 0);
    SmallVector<int64_t> states = batchFirst ? SmallVector<int64_t>{batch, directions, hidden}
                                             : SmallVector<int64_t>{directions, batch, hidden};
    if (failed(mustBe(1, {directions, gates * hidden, shape[2]})) ||
        failed(mustBe(2, {directions, gates * hidden, hidden})) ||
        failed(mustBe(3, {directions, 2 * gates * hidden})) || failed(mustBe(4, {batch})) ||
        failed(mustBe(5, states)) ||
        (op == "LSTM" && (failed(mustBe(6, states)) || failed(mustBe(7, {directions, 3 * hidden})))))
      return failure();
    if (length < 1 || length > kMostSteps)
      return n.error() << length << " steps are not unrolled: 1 to " << kMostSteps << " are";
    return readActivations();
  }

  LogicalResult readActivations() {
    SmallVector<StringRef> names;
    if (const auto *given = n.attr("activations"))
      names.assign(given->strings().begin(), given->strings().end());
    SmallVector<StringRef> standard = {"Sigmoid", "Tanh", "Tanh"};
    if (op == "GRU")
      standard = {"Sigmoid", "Tanh"};
    if (op == "RNN")
      standard = {"Tanh"};
    size_t count = standard.size() * directions;
    if (names.empty())
      for (int64_t d = 0; d < directions; ++d)
        llvm::append_range(names, standard);
    if (names.size() != count)
      return n.error() << count << " activations are expected";
    SmallVector<double> alpha = n.floatsAttr("activation_alpha"), beta = n.floatsAttr("activation_beta");
    for (auto [i, name] : llvm::enumerate(names)) {
      Activation f{name.str(), {}, {}};
      if (i < alpha.size())
        f.alpha = alpha[i];
      if (i < beta.size())
        f.beta = beta[i];
      activations.push_back(f);
    }
    return success();
  }

  /// Row `direction` of input i, without that dimension; for states, which stand second where the batch is
  /// first.
  Value part(size_t i, int64_t direction, bool isState = false) {
    int64_t dim = isState && n.intAttr("layout", 0) ? 1 : 0;
    return n.b.squeeze(n.b.sliceDim(n.in(i), dim, direction, 1), {dim});
  }

  /// Of a batch of one sample a learned state looks so, too, but for the name that exporters give what they
  /// have computed.
  void markInitialState(Value state) {
    if (auto parameter = state ? state.getDefiningOp<ParameterOp>() : ParameterOp())
      if (batch > 1 || isNumberedByExporter(parameter.getName()))
        parameter->setAttr(kInitialStateAttr, n.b.ops().getUnitAttr());
  }

  /// Gate g of a tensor whose last dimension holds the gates.
  Value gate(Value all, int64_t g) {
    return n.b.sliceDim(all, GraphBuilder::rankOf(all) - 1, g * hidden, hidden);
  }

  Value clip(Value x) {
    double limit = n.floatAttr("clip", 0);
    if (limit <= 0)
      return x;
    Type element = GraphBuilder::elementOf(x);
    return n.b.elementwise(Kind::Clip, {x, n.b.scalar(element, -limit), n.b.scalar(element, limit)});
  }

  FailureOr<Value> apply(int64_t direction, unsigned which, Value x) {
    return activate(n, activations[direction * activations.size() / directions + which], clip(x));
  }

  LogicalResult run(int64_t direction, MutableArrayRef<Value> steps, State &state) {
    Type element = n.element(0), i64 = n.b.ops().getI64Type();
    Value weight = part(1, direction), recurrent = part(2, direction);
    Value projected = n.b.contract(input, weight, {0, 1, 2}, {3, 2}, {0, 1, 3}); // S x B x gates * H
    Value bias;
    if (n.in(3)) {
      Value both = part(3, direction);
      projected = n.b.add(projected, n.b.sliceDim(both, 0, 0, gates * hidden));
      bias = n.b.sliceDim(both, 0, gates * hidden, gates * hidden);
    }
    for (size_t i : {5, 6})
      markInitialState(n.in(i));
    Value zero = n.b.splat({batch, hidden}, element, 0);
    state.hidden = n.in(5) ? part(5, direction, true) : zero;
    if (op == "LSTM")
      state.cell = n.in(6) ? part(6, direction, true) : zero;
    Value lengths = n.in(4) ? n.b.reshape(n.b.cast(n.in(4), i64), {batch, 1}) : Value();
    bool backwards = isReverse || direction == 1;
    for (int64_t i = 0; i < length; ++i) {
      int64_t t = backwards ? length - 1 - i : i;
      Value x = n.b.squeeze(n.b.sliceDim(projected, 0, t, 1), {0});
      FailureOr<State> next = op == "LSTM"  ? stepLSTM(direction, x, recurrent, bias, state)
                              : op == "GRU" ? stepGRU(direction, x, recurrent, bias, state)
                                            : stepRNN(direction, x, recurrent, bias, state);
      if (failed(next))
        return failure();
      steps[t] = next->hidden;
      if (lengths) {
        Value inside = n.b.elementwise(Kind::Less, {n.b.scalar(i64, double(t)), lengths});
        steps[t] = n.b.select(inside, next->hidden, n.b.scalar(element, 0));
        next->hidden = n.b.select(inside, next->hidden, state.hidden);
        if (next->cell)
          next->cell = n.b.select(inside, next->cell, state.cell);
      }
      state = *next;
    }
    return success();
  }

  /// state * weight^T, with the recurrent bias.
  Value recur(Value hiddenState, Value weight, Value bias) {
    Value product = n.b.contract(hiddenState, weight, {0, 1}, {2, 1}, {0, 2});
    return bias ? n.b.add(product, bias) : product;
  }

  FailureOr<State> stepRNN(int64_t direction, Value x, Value recurrent, Value bias, const State &state) {
    auto next = apply(direction, 0, n.b.add(x, recur(state.hidden, recurrent, bias)));
    if (failed(next))
      return failure();
    return State{*next, {}};
  }

  /// Gates z, r, h.
  FailureOr<State> stepGRU(int64_t direction, Value x, Value recurrent, Value bias, const State &state) {
    Value turned = recur(state.hidden, recurrent, bias);
    auto sum = [&](int64_t g) {
      Value other = gate(turned, g);
      return n.b.add(gate(x, g), other);
    };
    auto z = apply(direction, 0, sum(0)), r = apply(direction, 0, sum(1));
    if (failed(z) || failed(r))
      return failure();
    Value candidate;
    if (n.intAttr("linear_before_reset", 0)) {
      candidate = n.b.mul(*r, gate(turned, 2));
    } else {
      Value weight = n.b.sliceDim(recurrent, 0, 2 * hidden, hidden);
      Value added = bias ? gate(bias, 2) : Value();
      candidate = recur(n.b.mul(*r, state.hidden), weight, added);
    }
    auto h = apply(direction, 1, n.b.add(gate(x, 2), candidate));
    if (failed(h))
      return failure();
    Value one = n.b.scalar(GraphBuilder::elementOf(x), 1);
    Value kept = n.b.mul(*z, state.hidden);
    return State{n.b.add(n.b.mul(n.b.sub(one, *z), *h), kept), {}};
  }

  /// Gates i, o, f, c; peepholes i, o, f.
  FailureOr<State> stepLSTM(int64_t direction, Value x, Value recurrent, Value bias, const State &state) {
    Value sums = n.b.add(x, recur(state.hidden, recurrent, bias));
    Value peep = n.in(7) ? part(7, direction) : Value();
    auto peeped = [&](int64_t g, Value cell) {
      Value sum = gate(sums, g);
      return peep ? n.b.add(sum, n.b.mul(gate(peep, g), cell)) : sum;
    };
    auto i = apply(direction, 0, peeped(0, state.cell));
    auto c = apply(direction, 1, gate(sums, 3));
    if (failed(i) || failed(c))
      return failure();
    FailureOr<Value> f;
    if (n.intAttr("input_forget", 0))
      f = n.b.sub(n.b.scalar(GraphBuilder::elementOf(x), 1), *i);
    else
      f = apply(direction, 0, peeped(2, state.cell));
    if (failed(f))
      return failure();
    Value fresh = n.b.mul(*i, *c), cell = n.b.add(n.b.mul(*f, state.cell), fresh);
    auto o = apply(direction, 0, peeped(1, cell));
    auto h = activate(n, activations[direction * activations.size() / directions + 2], cell);
    if (failed(o) || failed(h))
      return failure();
    return State{n.b.mul(*o, *h), cell};
  }

  Node &n;
  StringRef op;
  int64_t gates = 1, directions = 1, length = 0, batch = 0, hidden = 0;
  bool isReverse = false;
  Value input; ///< S x B x I
  std::vector<Activation> activations;
};

} // namespace

void addRecurrentOperators(OperatorTable &table) {
  table.push_back({"", "RNN", 7, 0, [](Node &n) { return Recurrence(n, "RNN").import(); }});
  table.push_back({"", "GRU", 7, 0, [](Node &n) { return Recurrence(n, "GRU").import(); }});
  table.push_back({"", "LSTM", 7, 0, [](Node &n) { return Recurrence(n, "LSTM").import(); }});
}

} // namespace colossal::onnx_import
