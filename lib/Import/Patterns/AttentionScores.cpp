//===- AttentionScores.cpp - what a softmax of attention is taken of --------===//
//
// Walks from the softmax's input down to the contraction. Only what has the scores' full shape is walked;
// what it is combined with on the way is kept as a term or a factor.
//
//===----------------------------------------------------------------------===//
#include "AttentionScores.h"

using namespace mlir;

namespace colossal {

static constexpr double kLowest = -1e30;
static constexpr unsigned kDeepest = 16;

Leads leadsOf(Value value) {
  auto shape = GraphBuilder::shapeOf(value);
  return Leads(shape.drop_back(std::min<size_t>(2, shape.size())));
}

/// select(c, 0, -inf) and select(c, -inf, 0), times `scale`.
static MaskTerm readTerm(Value value, double scale) {
  MaskTerm term;
  term.scale = scale;
  term.added = value;
  auto select = matchKind(stripBroadcast(value), ElementwiseKind::Select);
  if (!select)
    return term;
  for (bool inverted : {false, true}) {
    auto hidden = matchSplat(select.getInputs()[inverted ? 1 : 2]);
    if (hidden && *hidden * scale <= kLowest && isSplat(select.getInputs()[inverted ? 2 : 1], 0)) {
      term.condition = select.getInputs()[0];
      term.inverted = inverted;
      term.hidden = *hidden * scale;
    }
  }
  return term;
}

static bool walk(Value value, Scores &scores, unsigned depth);

/// Goes on from `value` to `next`; leaves `scores` as they were where that does not lead to a contraction.
static bool walkOn(Value value, Value next, Scores &scores, unsigned depth) {
  Scores attempt = scores;
  attempt.passed.push_back(value);
  if (!walk(next, attempt, depth + 1))
    return false;
  scores = std::move(attempt);
  return true;
}

/// Whether nothing but terms and a scale were met so far, so that another term may follow: (s + m) c is c s +
/// c m.
static bool isLinear(const Scores &scores) {
  return scores.softcap == 0 && scores.factors.empty();
}

static bool isPlain(const Scores &scores) {
  return isLinear(scores) && scores.scale == 1;
}

static bool walkSelect(ElementwiseOp op, Scores &scores, unsigned depth) {
  for (unsigned i : {1, 2}) {
    auto hidden = matchSplat(op.getInputs()[3 - i]);
    Value next = op.getInputs()[i];
    if (!hidden || *hidden > kLowest || *hidden * scores.scale > kLowest || !isLinear(scores) ||
        next.getType() != op.getType())
      continue;
    double scale = scores.scale;
    if (!walkOn(op.getResult(), next, scores, depth))
      continue;
    MaskTerm term;
    term.leads = leadsOf(op.getResult());
    term.condition = op.getInputs()[0];
    term.inverted = i == 2;
    term.hidden = *hidden * scale;
    scores.terms.push_back(term);
    return true;
  }
  return false;
}

static bool walkProduct(ElementwiseOp op, Scores &scores, unsigned depth) {
  bool isQuotient = op.getKind() == ElementwiseKind::Div;
  Scores attempt = scores;
  if (auto parts = matchWithSplat(op)) {
    auto [next, number] = *parts;
    if (number == 0 || next.getType() != op.getType() || (isQuotient && next != op.getInputs()[0]))
      return false;
    // c tanh(s / c)
    auto tanh = matchKind(next, ElementwiseKind::Tanh);
    if (tanh && !isQuotient && isPlain(scores)) {
      attempt.softcap = number;
      attempt.scale = number; // the division by the cap that follows takes it back
      next = tanh.getInputs()[0];
    } else {
      attempt.scale *= isQuotient ? 1.0 / number : number;
    }
    if (!walkOn(op.getResult(), next, attempt, depth))
      return false;
    scores = std::move(attempt);
    return true;
  }
  for (unsigned i : {0, 1}) {
    Value factor = op.getInputs()[1 - i];
    auto shape = GraphBuilder::shapeOf(factor);
    if (isQuotient || (!shape.empty() && shape.back() != 1) || op.getInputs()[i].getType() != op.getType())
      continue;
    attempt = scores;
    attempt.factors.push_back({factor, leadsOf(op.getResult())});
    if (walkOn(op.getResult(), op.getInputs()[i], attempt, depth)) {
      scores = std::move(attempt);
      return true;
    }
  }
  return false;
}

static bool walk(Value value, Scores &scores, unsigned depth) {
  auto shape = GraphBuilder::shapeOf(value);
  if (depth == kDeepest || shape.size() < 3)
    return false;
  if (shape.size() == 4 && scores.leads.size() != 2)
    scores.leads = leadsOf(value);
  if (auto contract = value.getDefiningOp<ContractOp>()) {
    scores.contract = contract;
    return true;
  }
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    auto from = GraphBuilder::shapeOf(reshape.getInput());
    return from.size() >= 3 && from.take_back(2) == shape.take_back(2) &&
           walkOn(value, reshape.getInput(), scores, depth);
  }
  auto op = value.getDefiningOp<ElementwiseOp>();
  if (!op)
    return false;
  switch (op.getKind()) {
  case ElementwiseKind::Add: {
    double scale = scores.scale;
    for (unsigned i : {0, 1})
      if (isLinear(scores) && op.getInputs()[i].getType() == value.getType() &&
          walkOn(value, op.getInputs()[i], scores, depth)) {
        scores.terms.push_back(readTerm(op.getInputs()[1 - i], scale));
        scores.terms.back().leads = leadsOf(value);
        return true;
      }
    return false;
  }
  case ElementwiseKind::Max: {
    // Written where the sum of two masks could be -inf. A score does not change the lowest number by adding
    // to it.
    auto parts = matchWithSplat(op);
    if (!parts || parts->second > kLowest || parts->first.getType() != value.getType() || !isPlain(scores) ||
        !scores.terms.empty() || !walkOn(value, parts->first, scores, depth))
      return false;
    scores.lowest = parts->second;
    return true;
  }
  case ElementwiseKind::Select: return walkSelect(op, scores, depth);
  case ElementwiseKind::Mul:
  case ElementwiseKind::Div: return walkProduct(op, scores, depth);
  case ElementwiseKind::Cast: {
    // Scores whose softmax is taken in f32: the op's own arithmetic is in no narrower type. What was added or
    // chosen there needs its range, too.
    auto to = dyn_cast<FloatType>(GraphBuilder::elementOf(value));
    auto from = dyn_cast<FloatType>(GraphBuilder::elementOf(op.getInputs()[0]));
    if (!to || !from || !to.isF32() || (from.getWidth() != 16 && !from.isF64()))
      return false;
    bool isMasked = llvm::any_of(scores.passed, [](Value above) {
      auto by = above.getDefiningOp<ElementwiseOp>();
      return by && llvm::is_contained({ElementwiseKind::Add, ElementwiseKind::Max, ElementwiseKind::Select},
                                      by.getKind());
    });
    Type wide = isMasked ? Type(to) : scores.wide;
    if (!walkOn(value, op.getInputs()[0], scores, depth))
      return false;
    scores.wide = wide;
    return true;
  }
  default: return false;
  }
}

bool matchScores(Value value, Scores &scores) {
  scores.leads = leadsOf(value);
  return walk(value, scores, 0);
}

Value regroup(Value value, ArrayRef<int64_t> from, ArrayRef<int64_t> to, GraphBuilder &b) {
  auto shape = GraphBuilder::shapeOf(value);
  if (from == to || shape.size() <= 2)
    return value;
  Leads leads(from.size() - std::min(from.size(), shape.size() - 2), 1);
  llvm::append_range(leads, shape.drop_back(2));
  Leads wide, narrow; // before and behind the reshape
  for (size_t i = 0, k = 0; i < from.size() || k < to.size();) {
    // The shortest runs of both that count the same; ones at the end join the last run.
    size_t first = i, second = k;
    int64_t left = 1, right = 1;
    do {
      bool takeLeft = k == to.size() || (i < from.size() && (left < right || (left == right && i == first)));
      if (takeLeft)
        left *= from[i++];
      else
        right *= to[k++];
    } while ((left != right || i == first || k == second) && (i < from.size() || k < to.size()));
    ArrayRef<int64_t> have = ArrayRef<int64_t>(leads).slice(first, i - first),
                      whole = from.slice(first, i - first);
    bool isOne = llvm::all_of(have, [](int64_t size) { return size == 1; });
    llvm::append_range(wide, isOne ? have : whole);
    if (isOne)
      narrow.append(k - second, 1);
    else
      llvm::append_range(narrow, to.slice(second, k - second));
  }
  for (Leads *sizes : {&leads, &wide, &narrow})
    llvm::append_range(*sizes, shape.take_back(2));
  value = b.broadcast(b.reshape(value, leads), wide);
  return b.reshape(value, narrow);
}

} // namespace colossal
