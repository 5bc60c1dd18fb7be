//===- Contraction.cpp - ONNX matrix products and Einsum --------------------===//
//
// All become `contract`: transposes of operands are labels, not ops.
//
//===----------------------------------------------------------------------===//
#include "../Operator.h"

#include <map>

using namespace mlir;

namespace colossal::onnx_import {

namespace {

LogicalResult checkMatMul(Node &n) {
  if (failed(n.require(2)))
    return failure();
  int64_t lhsRank = n.rank(0), rhsRank = n.rank(1);
  bool fits = lhsRank >= 1 && rhsRank >= 1 && n.shape(0).back() == n.shape(1)[rhsRank == 1 ? 0 : rhsRank - 2];
  if (fits && lhsRank > 2 && rhsRank > 2)
    fits = broadcastShapes(n.shape(0).drop_back(2), n.shape(1).drop_back(2)).has_value();
  if (!fits)
    return n.error() << "shapes of " << n.in(0).getType() << " and " << n.in(1).getType() << " do not fit";
  return success();
}

LogicalResult importMatMul(Node &n) {
  if (failed(checkMatMul(n)))
    return failure();
  if (n.element(0) != n.element(1))
    return n.error() << "operands have different types";
  return n.set(n.b.matmul(n.in(0), n.in(1)));
}

/// Products of (a - zero point) (b - zero point) in i32.
LogicalResult importMatMulInteger(Node &n) {
  if (failed(checkMatMul(n)))
    return failure();
  Type i32 = n.b.ops().getI32Type();
  Value lhs = n.b.cast(n.in(0), i32), rhs = n.b.cast(n.in(1), i32);
  if (Value zero = n.in(2)) {
    zero = n.b.cast(zero, i32);
    if (GraphBuilder::rankOf(zero) == 1 && GraphBuilder::shapeOf(zero)[0] != 1) // one per row
      zero = n.b.unsqueeze(zero, {1});
    if (failed(n.checkBroadcast({lhs, zero})))
      return failure();
    lhs = n.b.sub(lhs, zero);
  }
  if (Value zero = n.in(3)) {
    zero = n.b.cast(zero, i32);
    if (failed(n.checkBroadcast({rhs, zero})))
      return failure();
    rhs = n.b.sub(rhs, zero);
  }
  return n.set(n.b.matmul(lhs, rhs));
}

LogicalResult importGemm(Node &n) {
  if (failed(n.require(2)))
    return failure();
  bool transA = n.intAttr("transA", 0), transB = n.intAttr("transB", 0);
  if (n.rank(0) != 2 || n.rank(1) != 2 || n.shape(0)[transA ? 0 : 1] != n.shape(1)[transB ? 1 : 0])
    return n.error() << "shapes of " << n.in(0).getType() << " and " << n.in(1).getType() << " do not fit";
  SmallVector<int64_t> lhs = transA ? SmallVector<int64_t>{1, 0} : SmallVector<int64_t>{0, 1};
  SmallVector<int64_t> rhs = transB ? SmallVector<int64_t>{2, 1} : SmallVector<int64_t>{1, 2};
  Value result = n.b.contract(n.in(0), n.in(1), lhs, rhs, {0, 2});
  double alpha = n.floatAttr("alpha", 1), beta = n.floatAttr("beta", 1);
  if (alpha != 1)
    result = n.b.mul(result, n.b.scalar(n.element(0), alpha));
  if (n.in(2) && beta != 0) {
    Value addend = beta == 1 ? n.in(2) : n.b.mul(n.in(2), n.b.scalar(n.element(2), beta));
    auto shape = broadcastShapes(GraphBuilder::shapeOf(result), GraphBuilder::shapeOf(addend));
    if (!shape || ArrayRef<int64_t>(*shape) != GraphBuilder::shapeOf(result))
      return n.error() << "C does not broadcast to the product";
    result = n.b.add(result, addend);
  }
  return n.set(result);
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

/// A tensor whose dimensions carry labels: letters, or -1, -2, ... for the ellipsis' dimensions from the
/// right.
struct Labelled {
  Value value;
  SmallVector<int64_t> labels;
};

class Einsum {
public:
  explicit Einsum(Node &n) : n(n) {}

  LogicalResult import() {
    std::string equation;
    for (char c : n.stringAttr("equation", ""))
      if (!isspace(c))
        equation.push_back(c);
    StringRef text = equation;
    auto [inputs, output] = text.split("->");
    bool isExplicit = text.contains("->");
    SmallVector<StringRef> terms;
    inputs.split(terms, ',');
    if (terms.size() != n.inputCount() || failed(n.require(terms.size())))
      return n.error() << "'" << equation << "' has " << terms.size() << " terms for " << n.inputCount()
                       << " inputs";
    for (auto [i, term] : llvm::enumerate(terms))
      if (failed(addOperand(term, n.in(i))))
        return failure();
    SmallVector<int64_t> wanted;
    if (isExplicit) {
      if (failed(parse(output, ellipsis, wanted)))
        return failure();
    } else {
      for (int64_t d = ellipsis; d > 0; --d)
        wanted.push_back(-d);
      SmallVector<int64_t> single;
      for (auto [label, count] : counts)
        if (label >= 0 && count == 1)
          single.push_back(label);
      llvm::sort(single);
      llvm::append_range(wanted, single);
    }
    for (int64_t label : wanted)
      if (!sizes.count(label))
        return n.error() << "the result of '" << equation << "' has a label that no operand has";
    Labelled result = operands.front();
    for (size_t i = 1; i < operands.size(); ++i)
      result = multiply(result, operands[i], wanted, i + 1);
    result = sumAway(result, [&](int64_t label) { return !llvm::is_contained(wanted, label); });
    SmallVector<int64_t> permutation, shape;
    SmallVector<int64_t> missing;
    for (auto [d, label] : llvm::enumerate(wanted)) {
      auto *at = llvm::find(result.labels, label);
      if (at == result.labels.end())
        missing.push_back(d);
      else
        permutation.push_back(at - result.labels.begin());
      shape.push_back(sizes[label]);
    }
    Value value = n.b.unsqueeze(n.b.transpose(result.value, permutation), missing);
    return n.set(n.b.broadcast(value, shape));
  }

private:
  LogicalResult parse(StringRef term, int64_t dots, SmallVectorImpl<int64_t> &labels) {
    for (size_t i = 0; i < term.size(); ++i) {
      if (isalpha(term[i])) {
        labels.push_back(term[i]);
      } else if (term.substr(i).starts_with("...")) {
        for (int64_t d = dots; d > 0; --d)
          labels.push_back(-d);
        i += 2;
      } else {
        return n.error() << "'" << term << "' is not a term of an equation";
      }
    }
    return success();
  }

  LogicalResult addOperand(StringRef term, Value value) {
    int64_t letters = llvm::count_if(term, [](char c) { return isalpha(c); });
    int64_t dots = term.contains("...") ? GraphBuilder::rankOf(value) - letters : 0;
    SmallVector<int64_t> labels;
    if (dots < 0 || failed(parse(term, dots, labels)))
      return n.error() << "term '" << term << "' does not fit " << value.getType();
    if (int64_t(labels.size()) != GraphBuilder::rankOf(value))
      return n.error() << "term '" << term << "' does not fit " << value.getType();
    ellipsis = std::max(ellipsis, dots);
    for (auto [label, size] : llvm::zip(labels, GraphBuilder::shapeOf(value))) {
      ++counts[label];
      int64_t &known = sizes.insert({label, size}).first->second;
      if (known != size && known != 1 && size != 1)
        return n.error() << "one label has sizes " << known << " and " << size;
      known = std::max(known, size);
    }
    operands.push_back(takeDiagonals({value, labels}));
    return success();
  }

  /// A label that occurs twice in one operand takes the diagonal: elements where the two indices differ count
  /// as 0.
  Labelled takeDiagonals(Labelled operand) {
    for (size_t i = 0; i < operand.labels.size(); ++i)
      for (size_t j = i + 1; j < operand.labels.size(); ++j) {
        if (operand.labels[i] != operand.labels[j])
          continue;
        int64_t rank = operand.labels.size();
        SmallVector<int64_t> rows(rank, 1), columns(rank, 1);
        rows[i] = GraphBuilder::shapeOf(operand.value)[i];
        columns[j] = GraphBuilder::shapeOf(operand.value)[j];
        Type i64 = n.b.ops().getI64Type();
        Value same =
            n.b.elementwise(ElementwiseKind::Equal, {n.b.iota(rows, i64, i), n.b.iota(columns, i64, j)});
        Value zero = n.b.scalar(GraphBuilder::elementOf(operand.value), 0);
        operand.value =
            n.b.reduce(ReduceKind::Sum, n.b.select(same, operand.value, zero), {int64_t(j)}, false);
        operand.labels.erase(operand.labels.begin() + j);
        --j;
      }
    return operand;
  }

  template <typename Predicate>
  Labelled sumAway(Labelled operand, Predicate goes) {
    SmallVector<int64_t> axes, kept;
    for (auto [d, label] : llvm::enumerate(operand.labels))
      goes(label) ? axes.push_back(d) : kept.push_back(label);
    if (axes.empty())
      return operand;
    return {n.b.reduce(ReduceKind::Sum, operand.value, axes, false), kept};
  }

  /// Drops dimensions of size 1 whose label is larger elsewhere: they broadcast.
  Labelled dropStretched(Labelled operand) {
    SmallVector<int64_t> dims, kept;
    for (auto [d, label] : llvm::enumerate(operand.labels))
      if (GraphBuilder::shapeOf(operand.value)[d] == 1 && sizes[label] != 1)
        dims.push_back(d);
      else
        kept.push_back(label);
    return {n.b.squeeze(operand.value, dims), kept};
  }

  Labelled multiply(Labelled lhs, Labelled rhs, ArrayRef<int64_t> wanted, size_t next) {
    lhs = dropStretched(lhs);
    rhs = dropStretched(rhs);
    auto isNeeded = [&](int64_t label) {
      if (llvm::is_contained(wanted, label))
        return true;
      for (size_t i = next; i < operands.size(); ++i)
        if (llvm::is_contained(operands[i].labels, label))
          return true;
      return false;
    };
    lhs = sumAway(lhs,
                  [&](int64_t label) { return !isNeeded(label) && !llvm::is_contained(rhs.labels, label); });
    rhs = sumAway(rhs,
                  [&](int64_t label) { return !isNeeded(label) && !llvm::is_contained(lhs.labels, label); });
    SmallVector<int64_t> batch, m, ns;
    for (int64_t label : lhs.labels)
      if (isNeeded(label))
        (llvm::is_contained(rhs.labels, label) ? batch : m).push_back(label);
    for (int64_t label : rhs.labels)
      if (!llvm::is_contained(lhs.labels, label))
        ns.push_back(label);
    SmallVector<int64_t> result(batch);
    llvm::append_range(result, m);
    llvm::append_range(result, ns);
    return {n.b.contract(lhs.value, rhs.value, lhs.labels, rhs.labels, result), result};
  }

  Node &n;
  int64_t ellipsis = 0;
  std::map<int64_t, int64_t> sizes, counts;
  std::vector<Labelled> operands;
};

LogicalResult importEinsum(Node &n) {
  return Einsum(n).import();
}

} // namespace

void addContractionOperators(OperatorTable &table) {
  table.push_back({"", "MatMul", 1, 0, importMatMul});
  table.push_back({"", "MatMulInteger", 10, 0, importMatMulInteger});
  table.push_back({"", "Gemm", 7, 0, importGemm});
  table.push_back({"", "Einsum", 12, 0, importEinsum});
}

} // namespace colossal::onnx_import
