//===- MoveTables.cpp - what it costs to bring values to their users --------===//
#include "MoveTables.h"

#include <cmath>

using namespace mlir;
using namespace colossal;
using namespace colossal::dist;
using namespace colossal::layout;

SmallVector<ShardingAttr> layout::getLayouts(ArrayAttr distinct) {
  return llvm::map_to_vector(distinct, [](Attribute layout) { return cast<ShardingAttr>(layout); });
}

search::CostTable MoveTables::getMoveCosts(ArrayRef<ShardingAttr> froms, ArrayRef<ShardingAttr> tos,
                                           unsigned elementBytes, MovedValue moved) {
  constexpr double kDiscouraged = 100;        // taken only where nothing else fits
  constexpr double kReadInPlace = 1.0 / 1024; // none but to part those that are as good
  std::vector<double> seconds = resharder.getCosts(froms, tos, elementBytes);
  search::CostTable moves;
  moves.reserve(seconds.size());
  for (size_t i = 0; i < seconds.size(); ++i) {
    ShardingAttr from = froms[i / tos.size()], to = tos[i % tos.size()];
    double cost = seconds[i] * (moved == MovedValue::EachTurn ? static_cast<double>(mesh.getNumTurns()) : 1);
    if (recipe && moved != MovedValue::Parameter && moved != MovedValue::State && from != to &&
        !std::isinf(cost) &&
        (moved == MovedValue::Aside || !recipe->allows(*resharder.find(from, to, elementBytes))))
      cost *= kDiscouraged;
    // What is done to each element of a part of a state reads it where it lies.
    if (moved == MovedValue::State && cost > 0 && !std::isinf(cost) &&
        llvm::all_of(resharder.find(from, to, elementBytes)->moves,
                     [](const Move &move) { return move.kind == MoveKind::Slice; }))
      cost *= kReadInPlace;
    moves.push_back(std::isinf(cost) ? search::kForbidden : search::costFromSeconds(cost));
  }
  return moves;
}

std::shared_ptr<const GivenRows> MoveTables::getRows(ArrayAttr layouts, ArrayAttr made) {
  std::shared_ptr<const GivenRows> &known =
      knownRows[{layouts.getAsOpaquePointer(), made ? made.getAsOpaquePointer() : nullptr}];
  if (known)
    return known;
  auto rows = std::make_shared<GivenRows>();
  rows->layouts = layouts;
  rows->made = made ? made : ArrayAttr::get(mesh.getContext(), {});
  for (int32_t l = 0; l < static_cast<int32_t>(layouts.size()); ++l)
    rows->places.push_back({l, -1});
  for (auto [m, as] : llvm::enumerate(rows->made))
    for (auto [l, layout] : llvm::enumerate(layouts))
      if (layout != as)
        rows->places.push_back({static_cast<int32_t>(l), static_cast<int32_t>(m)});
  return known = rows;
}

std::shared_ptr<const search::CostTable> MoveTables::getTable(const GivenRows &rows, ArrayAttr want,
                                                              unsigned elementBytes, MovedValue moved) {
  auto &table = tables[{&rows, want.getAsOpaquePointer(), elementBytes, moved}];
  if (table)
    return table;
  if (rows.made.empty())
    return table = std::make_shared<search::CostTable>(
               getMoveCosts(getLayouts(rows.layouts), getLayouts(want), elementBytes, moved));
  std::shared_ptr<const search::CostTable> moves =
      getTable(*getRows(rows.layouts, {}), want, elementBytes, moved);
  auto all = std::make_shared<search::CostTable>();
  for (auto [layout, made] : rows.places)
    for (auto [w, wanted] : llvm::enumerate(want))
      all->push_back(made >= 0 && rows.made[made] == wanted ? 0 : (*moves)[layout * want.size() + w]);
  return table = all;
}

std::shared_ptr<const search::CostTable> MoveTables::getCopyTable(const GivenRows &rows,
                                                                  const GivenRows &asked,
                                                                  unsigned elementBytes, MovedValue moved,
                                                                  bool isCounted, bool tellsSums) {
  auto &table = copyTables[{&rows, &asked, elementBytes, moved, (isCounted ? 1 : 0) + (tellsSums ? 2 : 0)}];
  if (table)
    return table;
  std::shared_ptr<const search::CostTable> moves = getTable(rows, asked.layouts, elementBytes, moved);
  size_t count = asked.layouts.size();
  auto all = std::make_shared<search::CostTable>();
  for (size_t r = 0; r < rows.places.size(); ++r) {
    const std::pair<int32_t, int32_t> row = rows.places[r];
    Attribute have = rows.layouts[row.first];
    auto isThere = [&](size_t l) {
      return have == asked.layouts[l] || (row.second >= 0 && rows.made[row.second] == asked.layouts[l]);
    };
    if (isCounted)
      for (size_t l = 0; l < count; ++l)
        all->push_back(isThere(l) ? 0 : search::kForbidden);
    const bool isSummed = cast<ShardingAttr>(have).isPartial();
    for (bool ofSums : {false, true}) {
      if (ofSums && !tellsSums)
        continue;
      for (auto [layout, made] : asked.places) {
        bool isOut = (isCounted && isThere(layout)) || (made >= 0 && asked.made[made] != have) ||
                     (tellsSums && ofSums != isSummed);
        all->push_back(isOut ? search::kForbidden : (*moves)[r * count + layout]);
      }
    }
  }
  return table = all;
}
