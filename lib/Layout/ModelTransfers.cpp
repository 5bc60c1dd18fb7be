//===- ModelTransfers.cpp - what brings values to where they are used -------===//
#include "Model.h"

#include "dialects/Colossal/Colossal.h"
#include "dialects/Dist/LayoutMarks.h"
#include "dialects/Dist/State.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

Transfer Model::addCopy(const Transfer &transfer, std::shared_ptr<const GivenRows> asked, NodeInfo::Kind kind,
                        int64_t begin, int64_t finish) {
  Type element = getTensor(transfer.value).getElementType();
  bool isCounted = countsCopies(transfer, asked->layouts);
  std::optional<std::pair<int64_t, int64_t>> ended;
  if (isCounted && transfer.from == transfer.maker)
    ended = endParts(transfer);
  // (Apart, because GCC 12 does not see that the pair is read only where there is one.)
  const bool isSummed = ended.has_value();
  const auto [partsBegin, partsFinish] = ended.value_or(std::pair(begin, finish));
  unsigned bytes = getElementBytes(element);
  SmallVector<ShardingAttr> layouts = getLayouts(asked->layouts);
  NodeInfo info;
  info.kind = kind;
  info.name = nodes[transfer.maker].name;
  info.value = transfer.value;
  std::vector<search::Candidate> candidates;
  auto layoutOf = std::make_shared<search::Classes>(), rowOf = std::make_shared<search::Classes>();
  auto add = [&](int32_t row, int64_t counted, int64_t begin, int64_t finish) {
    int32_t layout = asked->places[row].first;
    info.layouts.push_back(layouts[layout]);
    layoutOf->of.push_back(layout);
    rowOf->of.push_back(row);
    candidates.emplace_back();
    if (counted > 0)
      candidates.back().memory.push_back({begin, finish, counted});
  };
  auto bytesOf = [&](ShardingAttr layout) {
    return isCounted ? static_cast<int64_t>(getLocalBytes(layout, element, mesh)) : 0;
  };
  // As it is there, for nothing; then, where that makes a difference, copied.
  if (isCounted)
    for (auto [row, layout] : llvm::enumerate(layouts)) {
      const bool isCutShort = isSummed && layout.isPartial();
      add(static_cast<int32_t>(row), isCutShort ? bytesOf(layout) : 0, isCutShort ? partsBegin : begin,
          isCutShort ? partsFinish : finish);
    }
  for (auto [row, places] : llvm::enumerate(asked->places))
    add(static_cast<int32_t>(row), bytesOf(layouts[places.first]), begin, finish);
  if (isSummed)
    for (auto [row, places] : llvm::enumerate(asked->places))
      add(static_cast<int32_t>(row), bytesOf(layouts[places.first]), partsBegin, finish);
  layoutOf->count = static_cast<int32_t>(layouts.size());
  rowOf->count = static_cast<int32_t>(asked->places.size());
  int node = addNode(std::move(info), std::move(candidates));
  problem.addEdge(transfer.from, node,
                  moves.getCopyTable(*transfer.rows, *asked, bytes, transfer.moved, isCounted, isSummed),
                  transfer.rowOf);
  Transfer given = transfer;
  given.from = node;
  given.have = {asked->layouts, std::move(layoutOf)};
  given.rows = std::move(asked);
  given.rowOf = std::move(rowOf);
  return given;
}

void Model::addUse(const Transfer &transfer) {
  // An output is written where it is wanted.
  if (countsCopies(transfer, transfer.want.distinct) && nodes[transfer.to].kind == NodeInfo::Kind::Op) {
    auto [begin, finish] = getUseLife(transfer);
    Transfer given =
        addCopy(transfer, moves.getRows(transfer.want.distinct, {}), NodeInfo::Kind::Copy, begin, finish);
    size_t count = transfer.want.distinct.size();
    auto same = std::make_shared<search::CostTable>(count * count, search::kForbidden);
    for (size_t i = 0; i < count; ++i)
      (*same)[i * count + i] = 0;
    problem.addEdge(given.from, transfer.to, same, given.rowOf, transfer.want.classes);
    return;
  }
  // Sums that are to be widened cost more before than behind that.
  unsigned bytes = getElementBytes(getTensor(transfer.value).getElementType());
  if (const NodeInfo &user = nodes[transfer.to];
      user.kind == NodeInfo::Kind::Op && user.ops.front()->hasAttr(kWidensSumsAttrName))
    bytes = 2 * getElementBytes(getTensor(user.ops.front()->getResult(0)).getElementType());
  std::shared_ptr<const search::CostTable> table =
      moves.getTable(*transfer.rows, transfer.want.distinct, bytes, transfer.moved);
  if (llvm::any_of(*table, [](search::Cost cost) { return cost != 0; }))
    problem.addEdge(transfer.from, transfer.to, table, transfer.rowOf, transfer.want.classes);
}

/// Rows of a shared value, beyond which its users are taken to go by way of what they share even where it was
/// made as they want it: that costs more than it will in the program.
static constexpr size_t kMostSharedRows = 400;

void Model::addUses() {
  // On one rank all lies in one way.
  const bool isChoice = llvm::any_of(transfers, [](const Transfer &transfer) {
    return transfer.have.distinct.size() > 1 || transfer.want.distinct.size() > 1;
  });
  if (isChoice)
    shareUses();
  for (const Transfer &transfer : transfers)
    if (nodes[transfer.to].kind != NodeInfo::Kind::Shared)
      addUse(transfer);
}

void Model::shareUses() {
  llvm::MapVector<Value, SmallVector<size_t, 2>> usesOf;
  for (auto [i, transfer] : llvm::enumerate(transfers))
    usesOf[transfer.value].push_back(i);
  /// What values may be brought to that are made and wanted in the same layouts, as those of layers are, and
  /// the layouts in which they are made that some use may want.
  struct Choice {
    CandidateLayouts layouts;
    ArrayAttr made;
  };
  llvm::DenseMap<Attribute, Choice> choiceOf;
  auto choose = [&](ArrayAttr have, ArrayRef<Attribute> wants) {
    Choice choice;
    // In whatever layout one of them asks for, or as it is made.
    SmallVector<ShardingAttr> layouts;
    for (Attribute layout : have)
      if (!cast<ShardingAttr>(layout).isPartial())
        layouts.push_back(cast<ShardingAttr>(layout));
    SmallVector<Attribute> made;
    for (Attribute want : wants)
      llvm::append_range(layouts, getLayouts(cast<ArrayAttr>(want)));
    for (Attribute layout : have)
      if (llvm::any_of(wants,
                       [&](Attribute want) { return llvm::is_contained(cast<ArrayAttr>(want), layout); }))
        made.push_back(layout);
    choice.layouts = makeCandidateLayouts(mesh.getContext(), layouts);
    if (made.size() * choice.layouts.distinct.size() > kMostSharedRows)
      made.clear();
    choice.made = ArrayAttr::get(mesh.getContext(), made);
    return choice;
  };
  std::vector<Transfer> all;
  all.reserve(transfers.size() + usesOf.size());
  for (auto &[value, uses] : usesOf) {
    if (uses.size() == 1) {
      all.push_back(std::move(transfers[uses.front()]));
      continue;
    }
    const Transfer &first = transfers[uses.front()];
    SmallVector<Attribute> key{first.have.distinct};
    int64_t begin = std::numeric_limits<int64_t>::max(), finish = 0;
    for (size_t use : uses) {
      key.push_back(transfers[use].want.distinct);
      auto [from, to] = getUseLife(transfers[use]);
      begin = std::min(begin, from);
      finish = std::max(finish, to);
    }
    auto [known, isNew] = choiceOf.try_emplace(ArrayAttr::get(mesh.getContext(), key));
    if (isNew)
      known->second = choose(first.have.distinct, ArrayRef(key).drop_front());
    const Choice &choice = known->second;
    if (choice.layouts.distinct.size() == 1) {
      for (size_t use : uses)
        all.push_back(std::move(transfers[use]));
      continue;
    }
    Transfer given = addCopy(first, moves.getRows(choice.layouts.distinct, choice.made),
                             NodeInfo::Kind::Shared, begin, finish);
    Transfer shared = first;
    shared.to = given.from;
    shared.want = given.have;
    all.push_back(std::move(shared));
    for (size_t use : uses) {
      Transfer own = std::move(transfers[use]);
      own.from = given.from;
      own.have = given.have;
      own.rows = given.rows;
      own.rowOf = given.rowOf;
      all.push_back(std::move(own));
    }
  }
  transfers = std::move(all);
}

Transfer Model::makeTransfer(Value value, const Source &source, int to, const CandidateLayouts &want,
                             MovedValue moved) {
  Transfer transfer;
  transfer.value = value;
  transfer.from = transfer.maker = source.node;
  transfer.to = transfer.shownAt = to;
  transfer.have = transfer.made = source.layouts;
  transfer.want = want;
  transfer.rows = moves.getRows(source.layouts.distinct, {});
  transfer.rowOf = source.layouts.classes;
  transfer.moved = moved;
  const NodeInfo &maker = nodes[source.node];
  transfer.madeInLoop =
      maker.program >= 0 && programs[maker.program].kind().operations[maker.operation].repeated;
  return transfer;
}

/// Whether it computes new elements of a state: not what reads its numbers in another type.
static bool updatesElements(Operation *op) {
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  return isa<FormulaOp>(op) || (elementwise && elementwise.getKind() != ElementwiseKind::Cast);
}

void Model::addTransfers(const Program &program) {
  const factors::UnitKind &kind = program.kind();
  for (auto [i, op] : llvm::enumerate(kind.operations)) {
    const NodeInfo &node = nodes[program.nodes[i]];
    SmallVector<unsigned, 4> operands = getTensorOperands(node.ops.front());
    for (auto [use, number] : llvm::zip_equal(op.operands, operands)) {
      Value value = node.ops.front()->getOperand(number);
      MovedValue moved = MovedValue::Stream;
      if (nodes[program.sources[use.tensor].node].kind == NodeInfo::Kind::State &&
          updatesElements(node.ops.front()))
        moved = MovedValue::State;
      else if (kind.tensors[use.tensor].kind == factors::Tensor::Parameter ||
               (recipe && recipe->movesWeights(node.ops.front(), value)))
        moved = MovedValue::Parameter;
      else if (recipe && recipe->isAside(value))
        moved = MovedValue::Aside;
      else if (Operation *maker = value.getDefiningOp(); maker && builder.isOfEachTurn(maker))
        moved = MovedValue::EachTurn;
      transfers.push_back(makeTransfer(value, program.sources[use.tensor], program.nodes[i],
                                       node.choices->wants[number], moved));
    }
  }
}
