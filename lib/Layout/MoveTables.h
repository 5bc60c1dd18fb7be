//===- MoveTables.h - what it costs to bring values to their users ----------===//
//
// The tables of the problem's edges: from every layout that a node gives a value in to every layout that
// another wants. Equal tables are made once, so that equal blocks share them.
//
//===----------------------------------------------------------------------===//
#ifndef COLOSSAL_LIB_LAYOUT_MOVETABLES_H
#define COLOSSAL_LIB_LAYOUT_MOVETABLES_H

#include "Costs.h"
#include "Recipe.h"

#include "colossal/Search/Problem.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace colossal::layout {

/// The elements of an array of ShardingAttr.
llvm::SmallVector<dist::ShardingAttr> getLayouts(mlir::ArrayAttr distinct);

/// In what layouts a node gives a value, one a row of its users' tables. Where it stands between the maker
/// and several users, these may also take the value as it is made: then a row is a layout and that in which
/// it was made.
struct GivenRows {
  mlir::ArrayAttr layouts, made;                   ///< ShardingAttr, each once
  std::vector<std::pair<int32_t, int32_t>> places; ///< of each row in these; -1: however it was made
};

/// What is moved, of which a recipe may discourage other moves. State: what a program renews, for what is
/// done to each element of it. Aside: what stands beside the stream of a model, such as masks and biases of
/// positions. EachTurn: what is the same in all turns of the loop, and is brought to its readers in each of
/// them.
enum class MovedValue : uint8_t { Stream, Parameter, State, Aside, EachTurn };

class MoveTables {
public:
  /// `costs` and `recipe` must outlive this. A recipe discourages moves of activations that it has none of.
  MoveTables(dist::MeshAttr mesh, const Costs &costs, const std::optional<Recipe> &recipe)
      : mesh(mesh), recipe(recipe),
        resharder(
            mesh,
            [&costs, &recipe](dist::MoveKind kind, double bytes, llvm::ArrayRef<unsigned> axes) {
              return costs.getMoveSeconds(kind, bytes, axes) * (recipe ? recipe->weigh(kind) : 1);
            },
            costs.areAxesAlike()) {}

  /// The rows of `layouts`, and behind them those of each together with each of `made`, which may be null.
  std::shared_ptr<const GivenRows> getRows(mlir::ArrayAttr layouts, mlir::ArrayAttr made);
  /// Costs of all rows (which must come from getRows) and wanted layouts; row-major.
  std::shared_ptr<const search::CostTable> getTable(const GivenRows &rows, mlir::ArrayAttr want,
                                                    unsigned elementBytes, MovedValue moved);
  /// Costs of all rows and of the candidates of a copy, which has a layout of each row of `asked`: where it
  /// counts, first those that are there in one of the layouts of `asked`, then those that are copied, one a
  /// row. Where what is summed is told apart (`tellsSums`), the latter are for what was made whole, and
  /// behind them stand as many for what was made in parts of a sum.
  std::shared_ptr<const search::CostTable> getCopyTable(const GivenRows &rows, const GivenRows &asked,
                                                        unsigned elementBytes, MovedValue moved,
                                                        bool isCounted, bool tellsSums);
  dist::Resharder &getResharder() { return resharder; }

private:
  search::CostTable getMoveCosts(llvm::ArrayRef<dist::ShardingAttr> froms,
                                 llvm::ArrayRef<dist::ShardingAttr> tos, unsigned elementBytes,
                                 MovedValue moved);

  dist::MeshAttr mesh;
  const std::optional<Recipe> &recipe;
  dist::Resharder resharder;
  std::map<std::pair<const void *, const void *>, std::shared_ptr<const GivenRows>> knownRows;
  /// By rows, what is wanted, bytes of an element, what is moved; for copies, whether they count, and whether
  /// sums are told apart.
  std::map<std::tuple<const void *, const void *, unsigned, MovedValue>,
           std::shared_ptr<const search::CostTable>>
      tables;
  std::map<std::tuple<const void *, const void *, unsigned, MovedValue, int>,
           std::shared_ptr<const search::CostTable>>
      copyTables;
};

} // namespace colossal::layout

#endif // COLOSSAL_LIB_LAYOUT_MOVETABLES_H
